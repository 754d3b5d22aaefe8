# Copies the tree without plugins and their tests, builds it, and runs its tests. SOURCE, WORK, COMPILER
set(source ${WORK}/source)
file(REMOVE_RECURSE ${source})
file(COPY ${SOURCE}/CMakeLists.txt ${SOURCE}/CMakePresets.json ${SOURCE}/framework ${SOURCE}/tools
  ${SOURCE}/pipelines DESTINATION ${source} PATTERN bench EXCLUDE)
file(COPY ${SOURCE}/plugins/stages/png_file DESTINATION ${source}/plugins/stages)  # also libraries of tools, not plugins
file(COPY ${SOURCE}/plugins/drawing DESTINATION ${source}/plugins)
file(GLOB values ${SOURCE}/tests/reference/*.json)  # reference values of tests
file(COPY ${values} DESTINATION ${source}/tests/reference)
execute_process(COMMAND ${CMAKE_COMMAND} --preset release -B ${WORK}/build -D CMAKE_CXX_COMPILER=${COMPILER} -D BUILD_TESTING=ON
  -D MILLRACE_CUDA=OFF WORKING_DIRECTORY ${source} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --output-on-failure --no-tests=error --parallel 2
  COMMAND_ERROR_IS_FATAL ANY)
