# The installed test kit's tests of each plugin pass. They do not include stages after `batch`. WORK
foreach(plugin sepia qhm mish poly journal)
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build/${plugin} --output-on-failure --no-tests=error
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# A test without checks fails with a message.
file(GLOB_RECURSE conformance ${PREFIX}_testkit/*/conformance_test)
foreach(chosen --plugin=${PLUGINS}/no_such_plugin.so --gtest_filter=*/no_such_layer)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env MILLRACE_PLUGIN_PATH=${PLUGINS} ${conformance} ${chosen}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE said)
  if(code EQUAL 0 OR NOT said MATCHES "no_such_plugin.so\" was not loaded|nothing was asked: .*no_such_layer")
    message(FATAL_ERROR "conformance_test ${chosen} ended with code ${code}:\n${said}")
  endif()
endforeach()
