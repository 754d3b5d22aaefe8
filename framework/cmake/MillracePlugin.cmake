# millrace_add_plugin(NAME SOURCES file... [LIBRARIES library...])
# One shared library, found at run time. Links the framework and never another plugin. Also installed beside
# MillraceConfig.cmake, so that plugins outside this repository are built the same way.
function(millrace_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(millrace_${name} MODULE ${arg_SOURCES})
  target_link_libraries(millrace_${name} PRIVATE Millrace::framework ${arg_LIBRARIES})
  set_target_properties(millrace_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(TARGET millrace_options)
    target_link_libraries(millrace_${name} PRIVATE millrace_options)
  endif()
  if(MILLRACE_PLUGIN_DIR)
    set_target_properties(millrace_${name} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${MILLRACE_PLUGIN_DIR} INSTALL_RPATH "$ORIGIN/../..")
    install(TARGETS millrace_${name} LIBRARY DESTINATION ${MILLRACE_PLUGIN_DIR})
  endif()
endfunction()
