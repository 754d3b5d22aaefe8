# Precompiled headers: nearly every source includes the same dozen headers, which take longer to read than the rest of most
# sources. Sources must also compile without them, as in the builds with sanitizers.
option(MILLRACE_PRECOMPILE "precompile the headers that most sources include" ON)

set(MILLRACE_PRECOMPILED
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <fstream> <functional>
  <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <utility> <vector> <fmt/format.h>
  ${PROJECT_SOURCE_DIR}/framework/include/millrace/plugin.h)

# For tests, and for code that works for milliseconds in a run: at -O3 the optimizer takes half the time of compiling them.
set(MILLRACE_LIGHT_OPTIONS $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

# millrace_precompile(TARGET KIND): the target's sources begin with these headers. They are compiled once for each kind, since the
# compiler's options must be the same: plugin (names hidden), kernels (a plugin with kernels), light (a library of tools, compiled
# with MILLRACE_LIGHT_OPTIONS), library (any other), program, test (a program, with GoogleTest).
function(millrace_precompile target kind)
  if(kind STREQUAL "light")
    target_compile_options(${target} PRIVATE ${MILLRACE_LIGHT_OPTIONS})
  endif()
  if(NOT MILLRACE_PRECOMPILE OR MILLRACE_SANITIZER OR MILLRACE_FUZZ)
    return()
  endif()
  set(source millrace_precompiled_${kind})
  if(kind STREQUAL "light")
    set(source framework_light)  # the framework could not use one that links it
  endif()
  if(NOT TARGET ${source})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${source}.cpp CONTENT "int main() { return 0; }\n")
    if(kind STREQUAL "test")
      add_executable(${source} EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/${source}.cpp)
      target_link_libraries(${source} PRIVATE GTest::gtest)
      target_compile_options(${source} PRIVATE ${MILLRACE_LIGHT_OPTIONS})
      target_precompile_headers(${source} PRIVATE <gtest/gtest.h>)
    elseif(kind STREQUAL "program")  # not as a library's: it is compiled for a fixed place
      add_executable(${source} EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/${source}.cpp)
    else()
      add_library(${source} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/${source}.cpp)
    endif()
    if(kind STREQUAL "kernels")
      millrace_kernel_options(${source})
    endif()
    if(kind MATCHES "plugin|kernels")
      set_target_properties(${source} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    endif()
    set_target_properties(${source} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/precompiled)  # not for users
    target_link_libraries(${source} PRIVATE Millrace::framework millrace_options)
    target_precompile_headers(${source} PRIVATE ${MILLRACE_PRECOMPILED})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${source})
endfunction()

# millrace_precompile_own(TARGET HEADER...): likewise for a target with its own options and additional headers.
function(millrace_precompile_own target)
  if(MILLRACE_PRECOMPILE AND NOT MILLRACE_SANITIZER AND NOT MILLRACE_FUZZ)
    target_precompile_headers(${target} PRIVATE ${MILLRACE_PRECOMPILED} ${ARGN})
  endif()
endfunction()

# Compiles sources in batches: most of a source's cost is its includes, paid once per batch. For users who build once; for
# development, compile sources separately (preset develop).
option(MILLRACE_UNITE "compile the sources of large targets in batches" OFF)

# millrace_unite(TARGET [SIZE]): compiles its sources in batches of this size, if enabled. No two of a batch may use one name for
# different things.
function(millrace_unite target)
  set(size 16 ${ARGN})
  list(GET size -1 size)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MILLRACE_UNITE} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()
