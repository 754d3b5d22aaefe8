# Configures and builds the plugins with only the install tree and its test kit. PREFIX, SOURCE, WORK, PLUGINS, COMPILER, FLAGS,
# WARNING_AS_ERROR
file(REMOVE_RECURSE ${WORK}/build ${PLUGINS})

# configure(PLUGIN BUILD [word...]): BUILD, by cmake behind these words.
function(configure plugin build)
  execute_process(COMMAND ${ARGN} ${CMAKE_COMMAND} -S ${SOURCE}/${plugin} -B ${build} -G Ninja -D CMAKE_BUILD_TYPE=Release
    -D CMAKE_PREFIX_PATH=${PREFIX}_testkit -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS}
    -D CMAKE_COMPILE_WARNING_AS_ERROR=${WARNING_AS_ERROR} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# As on a machine without a CUDA compiler: plugins without kernels do not look for one, and kernels are compiled for the processor alone.
set(without_cuda ${CMAKE_COMMAND} -E env CUDACXX=${WORK}/there_is_no_nvcc)
configure(mish ${WORK}/build/mish_without_cuda ${without_cuda})

foreach(plugin sepia qhm mish poly journal histogram top_k)
  set(build ${WORK}/build/${plugin})
  file(STRINGS ${SOURCE}/${plugin}/CMakeLists.txt kernels REGEX "KERNELS")
  if(kernels)
    configure(${plugin} ${build})
  else()
    configure(${plugin} ${build} ${without_cuda})
    file(STRINGS ${build}/CMakeCache.txt asked REGEX "^CMAKE_CUDA_COMPILER")
    if(asked)
      message(FATAL_ERROR "${plugin} has no kernels, and find_package(Millrace) has looked for a CUDA compiler: ${asked}")
    endif()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${build} COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE library ${build}/*/${plugin}.so)
  if(NOT library)
    message(FATAL_ERROR "${plugin}.so was not built in ${build}")
  endif()
  file(COPY ${library} DESTINATION ${PLUGINS})
endforeach()
