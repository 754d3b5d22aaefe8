# Plugins: shared libraries loaded at run time. This file is also installed next to MillraceConfig.cmake, so that plugins outside
# this repository are built the same way.

# millrace_add_plugin(NAME SOURCES file... [KERNELS header...] [LIBRARIES library...] [PACKAGE component])
# KERNELS: headers with kernels, listed there by MILLRACE_KERNELS(...). Builds NAME.so into lib/millrace/plugins of the build tree, and of the install tree. Links the framework and never another
# plugin. The target is millrace_NAME. Its objects are millrace_NAME_objects: compiled once, for the plugin and for tests of it.
# PACKAGE: the component that installs it, for a plugin with dependencies of its own.
# Only kernels ask for a CUDA compiler. A macro, since a language must be enabled in the folder that uses it, and not in a function.
macro(millrace_add_plugin)
  if(";${ARGN};" MATCHES ";KERNELS;" AND NOT DEFINED MILLRACE_WHY_NO_CUDA)
    millrace_enable_cuda()
  endif()
  millrace_build_plugin(${ARGN})
endmacro()

function(millrace_build_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PACKAGE" "SOURCES;KERNELS;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "usage: millrace_add_plugin(NAME SOURCES file... [KERNELS header...] [LIBRARIES library...] [PACKAGE component])")
  endif()
  add_library(millrace_${name}_objects OBJECT ${arg_SOURCES})
  target_link_libraries(millrace_${name}_objects PUBLIC Millrace::framework ${arg_LIBRARIES}
    PRIVATE $<TARGET_NAME_IF_EXISTS:millrace_options>)
  set_target_properties(millrace_${name}_objects PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(arg_KERNELS)
    millrace_add_kernels(millrace_${name}_objects ${arg_KERNELS})
    if(TARGET kernels)
      add_dependencies(kernels millrace_${name}_objects)
    endif()
    set(kind kernels)
  else()
    set(kind plugin)
  endif()
  if(COMMAND millrace_precompile)
    millrace_precompile(millrace_${name}_objects ${kind})
    millrace_unite(millrace_${name}_objects)
  endif()
  add_library(millrace_${name} MODULE)
  # Objects of a library among them are linked to the plugin itself, since an object library does not pass them on.
  target_link_libraries(millrace_${name} PRIVATE millrace_${name}_objects ${arg_LIBRARIES})
  set_target_properties(millrace_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${MILLRACE_PLUGIN_DIR} INSTALL_RPATH "$ORIGIN/../..")
  if(TARGET programs)
    add_dependencies(programs millrace_${name})
  endif()
  if(arg_PACKAGE)
    list(PREPEND arg_PACKAGE COMPONENT)
  endif()
  install(TARGETS millrace_${name} LIBRARY DESTINATION ${MILLRACE_PLUGIN_DIR} ${arg_PACKAGE})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_PLUGINS_BUILT ${name})
endfunction()

# millrace_skip_plugin(NAME REASON): reports that a plugin's library is missing. Its CMakeLists.txt then returns.
function(millrace_skip_plugin name reason)
  message(STATUS "plugin ${name}: not built, ${reason}")
  set_property(GLOBAL APPEND PROPERTY MILLRACE_PLUGINS_SKIPPED "${name} (${reason})")
endfunction()

# Lists the plugins of this build at the end of configuring.
function(millrace_report_plugins)
  get_property(built GLOBAL PROPERTY MILLRACE_PLUGINS_BUILT)
  list(SORT built)
  list(JOIN built ", " built)
  message(STATUS "plugins: ${built}")
  get_property(skipped GLOBAL PROPERTY MILLRACE_PLUGINS_SKIPPED)
  foreach(plugin IN LISTS skipped)
    message(STATUS "plugins: without ${plugin}")
  endforeach()
endfunction()
