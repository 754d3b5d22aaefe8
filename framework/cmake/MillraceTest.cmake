# millrace_add_test(NAME SOURCES file... [LIBRARIES library...] [LABELS label...] [PROPERTIES name value...])
# A GoogleTest executable; each of its tests becomes a ctest of its own, with these properties.
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

function(millrace_add_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;LABELS;PROPERTIES")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Millrace::framework millrace_options GTest::gtest GTest::gtest_main ${arg_LIBRARIES})
  target_compile_definitions(${name} PRIVATE
    MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MILLRACE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 600 ${arg_PROPERTIES})
endfunction()
