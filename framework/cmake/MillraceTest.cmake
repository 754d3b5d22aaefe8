# millrace_add_test(NAME SOURCES file... [APART file...] [PLUGIN name...] [LIBRARIES library...] [LABELS label...]
#                   [PROPERTIES name value...] [TOGETHER parameters | suites])
# A GoogleTest executable; each of its tests becomes a separate ctest with these properties. APART: sources that use a name of
# another source for something else (MILLRACE_UNITE). PLUGIN: plugins whose objects it links. TOGETHER: all parameters of a test,
# or all tests of a suite, are one ctest and run in one process, because starting costs more than running
# (MillraceListTests.cmake).
set(MILLRACE_TEST_DIR ${CMAKE_CURRENT_LIST_DIR})
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# Files for tests of external plugins form a component, "testkit", which is installed on request.
set(MILLRACE_TESTKIT_DIR ${CMAKE_INSTALL_LIBDIR}/millrace/testkit)
# millrace_install_testkit(...): install(...) into that component.
function(millrace_install_testkit kind what)
  set(rest ${ARGN})
  if(kind STREQUAL "TARGETS")
    install(TARGETS ${what} ${rest} COMPONENT testkit EXCLUDE_FROM_ALL)
  else()
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "DESTINATION" "")
    install(${kind} ${what} DESTINATION ${arg_DESTINATION} COMPONENT testkit EXCLUDE_FROM_ALL ${arg_UNPARSED_ARGUMENTS})
  endif()
endfunction()

function(millrace_add_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TOGETHER" "SOURCES;APART;PLUGIN;LIBRARIES;LABELS;PROPERTIES")
  list(TRANSFORM arg_PLUGIN PREPEND millrace_)
  list(TRANSFORM arg_PLUGIN APPEND _objects)
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Millrace::framework millrace_options millrace_messages GTest::gtest GTest::gtest_main
    ${arg_PLUGIN} ${arg_LIBRARIES})
  target_compile_options(${name} PRIVATE ${MILLRACE_LIGHT_OPTIONS})
  millrace_precompile(${name} test)
  millrace_unite(${name})
  set_source_files_properties(${arg_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_compile_definitions(${name} PRIVATE
    MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MILLRACE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(properties TIMEOUT 600 ${arg_PROPERTIES})
  if(MILLRACE_SANITIZER STREQUAL "thread")  # the file explains what it hides
    list(APPEND properties ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/stress/tsan.supp")
  endif()
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(arg_TOGETHER)
    millrace_discover_together(${name} ${arg_TOGETHER} ${properties})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300 PROPERTIES ${properties})
  endif()
endfunction()

# millrace_add_test_plugin(TARGET FOLDER NAME file...): NAME.so in the folder tests/FOLDER of the build tree, which nothing searches by
# default.
function(millrace_add_test_plugin target folder name)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE Millrace::framework millrace_options)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
  millrace_precompile(${target} plugin)
endfunction()

# As gtest_discover_tests(... PRE_TEST), with one ctest for all parameters of a test, or for all tests of a suite.
function(millrace_discover_together name together)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_list.cmake)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake CONTENT "
set(MILLRACE_TEST [==[$<TARGET_FILE:${name}>]==])
set(MILLRACE_TEST_LIST [==[${list}]==])
set(MILLRACE_TEST_TOGETHER ${together})
set(MILLRACE_TEST_FOLDER [==[${CMAKE_CURRENT_BINARY_DIR}]==])
set(MILLRACE_TEST_PROPERTIES [==[${ARGN}]==])
include([==[${MILLRACE_TEST_DIR}/MillraceListTests.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake)
endfunction()

# millrace_test_plugins(TEST plugin...): the test loads these plugins at run time: registry.load(MILLRACE_PLUGINS "/plugin.so").
function(millrace_test_plugins test)
  if(NOT BUILD_TESTING)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND millrace_ OUTPUT_VARIABLE targets)
  add_dependencies(${test} ${targets})
  target_compile_definitions(${test} PRIVATE MILLRACE_PLUGINS="${PROJECT_BINARY_DIR}/${MILLRACE_PLUGIN_DIR}")
endfunction()
