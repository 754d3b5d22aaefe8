# For projects with their own plugins: tests that need only the plugin. Installed with the component "testkit".

# millrace_add_conformance_test(PLUGIN [NAMES name...]): runs the requirements of stages, layers, losses, optimizers, backends
# and storages on the plugin's types (NAMES: only these): parameters and descriptions, gradients from its examples, equal results
# on the processor and on the simulated GPU. Call enable_testing() first.
function(millrace_add_conformance_test plugin)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NAMES")
  set(chosen --plugin=$<TARGET_FILE:millrace_${plugin}>)
  if(arg_NAMES)
    list(TRANSFORM arg_NAMES PREPEND "*/")
    list(JOIN arg_NAMES ":" names)
    set(chosen --gtest_filter=${names})
  endif()
  add_test(NAME ${plugin}.conformance COMMAND Millrace::conformance ${chosen})
  get_target_property(simulated Millrace::conformance LOCATION)
  get_filename_component(simulated ${simulated} DIRECTORY)
  set_tests_properties(${plugin}.conformance PROPERTIES
    ENVIRONMENT "MILLRACE_PLUGIN_PATH=$<TARGET_FILE_DIR:millrace_${plugin}>:${simulated}")
endfunction()
