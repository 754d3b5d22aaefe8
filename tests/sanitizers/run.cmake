# Configures, builds and runs TESTS under a preset. SOURCE, BUILD, PRESET, COMPILER, OPTIONS, TESTS
separate_arguments(options UNIX_COMMAND "${OPTIONS}")
separate_arguments(tests UNIX_COMMAND "${TESTS}")
execute_process(COMMAND ${CMAKE_COMMAND} --preset ${PRESET} -B ${BUILD} -D CMAKE_CXX_COMPILER=${COMPILER} ${options}
  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(PRESET STREQUAL tsan)
  foreach(plugin cpu decode_image)
    if(NOT said MATCHES "plugins: without ${plugin} ")
      message(FATAL_ERROR "the summary does not say that ${plugin} is not built:\n${said}")
    endif()
  endforeach()
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target ${tests} COMMAND_ERROR_IS_FATAL ANY)

set(ENV{ASAN_OPTIONS} "halt_on_error=1")
set(ENV{LSAN_OPTIONS} "suppressions=${SOURCE}/tests/sanitizers/lsan.supp")
set(ENV{UBSAN_OPTIONS} "print_stacktrace=1")
set(ENV{MILLRACE_GENERATED} 200)  # pipelines of generator_test
set(ENV{TSAN_OPTIONS} "halt_on_error=1:suppressions=${SOURCE}/tests/stress/tsan.supp")
foreach(test IN LISTS tests)
  message("${test}")
  set(filter "*")
  if(PRESET STREQUAL tsan AND test STREQUAL conformance_test)  # computing needs a backend
    set(filter "-*Layer*:*Loss*:*Ports*:*Optimizer*:LargerTargets*")
  endif()
  execute_process(COMMAND ${BUILD}/tests/${test} --gtest_brief=1 --gtest_filter=${filter} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
