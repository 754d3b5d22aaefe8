# On a machine without oneDNN, libjpeg and CUDA, the framework and every plugin that needs none of them build. SOURCE, WORK, COMPILER
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=${COMPILER}
  -D BUILD_TESTING=OFF -D CMAKE_DISABLE_FIND_PACKAGE_JPEG=ON -D CMAKE_DISABLE_FIND_PACKAGE_dnnl=ON
  -D CMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON -D DNNL_LIBRARY=DNNL_LIBRARY-NOTFOUND -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
foreach(plugin decode_image cpu)
  if(NOT said MATCHES "plugins: without ${plugin}")
    message(FATAL_ERROR "the summary does not say that ${plugin} is not built:\n${said}")
  endif()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} --target programs COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/bin/pipeline-inspect OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
if(NOT listed MATCHES "read_folder" OR listed MATCHES "decode_image")
  message(FATAL_ERROR "the plugins are not those that could be built:\n${listed}")
endif()
