# Configures and builds the plugin with nothing but the install tree.
# PREFIX, SOURCE, WORK, PLUGINS, COMPILER, FLAGS, WARNING_AS_ERROR
file(REMOVE_RECURSE ${WORK}/build)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/sepia -B ${WORK}/build -G Ninja -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_PREFIX_PATH=${PREFIX} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS}
  -D CMAKE_COMPILE_WARNING_AS_ERROR=${WARNING_AS_ERROR} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS ${PLUGINS}/sepia.so)
  message(FATAL_ERROR "${PLUGINS}/sepia.so was not built")
endif()
