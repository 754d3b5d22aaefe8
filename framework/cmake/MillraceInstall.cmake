# The install tree: bin, lib, lib/millrace/plugins, include, share/millrace with pipelines and guides, and lib/cmake/Millrace,
# the package for find_package(Millrace). It is relocatable.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/MillraceConfig.cmake.in ${PROJECT_BINARY_DIR}/MillraceConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MillraceConfig.cmake ${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/MillracePlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/MillraceDeviceCode.cmake DESTINATION ${package_dir} COMPONENT dev)
install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION ${package_dir} COMPONENT dev)
if(BUILD_TESTING)
  millrace_install_testkit(EXPORT MillraceTestkitTargets DESTINATION ${package_dir} NAMESPACE Millrace::)
  millrace_install_testkit(FILES ${CMAKE_CURRENT_LIST_DIR}/MillraceTestkit.cmake DESTINATION ${package_dir})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace OPTIONAL)
install(DIRECTORY plugins/guide DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace/plugins OPTIONAL)  # next to the pipelines' guide
install(DIRECTORY pipelines DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace OPTIONAL)
install(DIRECTORY framework/predict/example/ DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace/examples/predict COMPONENT dev)
string(REGEX REPLACE "[^/]+" ".." PREDICT_PC_UP ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(${CMAKE_CURRENT_LIST_DIR}/millrace-predict.pc.in ${PROJECT_BINARY_DIR}/millrace-predict.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/millrace-predict.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
