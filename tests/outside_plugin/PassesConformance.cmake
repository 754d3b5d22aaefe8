# The tests that the installed test kit makes of each plugin pass.
# Stages after `batch` are not among them. WORK
foreach(plugin sepia qhm mish poly journal)
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build/${plugin} --output-on-failure --no-tests=error
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
