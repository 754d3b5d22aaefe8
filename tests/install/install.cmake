# Installs BUILD into a fresh folder and then moves it to PREFIX, so that nothing in it can rely on its original place. The
# component "testkit" goes to PREFIX_testkit likewise, and that of each package to PREFIX_packages/COMPONENT.
set(fresh ${PREFIX}_fresh)
file(REMOVE_RECURSE ${fresh} ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${fresh} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${fresh} ${PREFIX})
file(COPY ${PREFIX}/ DESTINATION ${fresh})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${fresh} --component testkit OUTPUT_QUIET
  COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${PREFIX}_testkit)
file(RENAME ${fresh} ${PREFIX}_testkit)
include(${BUILD}/CPackConfig.cmake)
file(REMOVE_RECURSE ${PREFIX}_packages)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX}_packages/${component} --component ${component}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()
