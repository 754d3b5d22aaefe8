# Configures and builds the plugins with only the install tree and its test kit. PREFIX, SOURCE, WORK, PLUGINS, COMPILER, FLAGS,
# WARNING_AS_ERROR
file(REMOVE_RECURSE ${WORK}/build ${PLUGINS})
foreach(plugin sepia qhm mish poly journal histogram top_k)
  set(build ${WORK}/build/${plugin})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/${plugin} -B ${build} -G Ninja -D CMAKE_BUILD_TYPE=Release
    -D CMAKE_PREFIX_PATH=${PREFIX}_testkit -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS}
    -D CMAKE_COMPILE_WARNING_AS_ERROR=${WARNING_AS_ERROR} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${build} COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE library ${build}/*/${plugin}.so)
  if(NOT library)
    message(FATAL_ERROR "${plugin}.so was not built in ${build}")
  endif()
  file(COPY ${library} DESTINATION ${PLUGINS})
endforeach()
