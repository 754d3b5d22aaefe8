# Compiler options, and output folders in the build tree (the same as in the install tree).
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)  # the other components are packages of their own (MillracePackages.cmake)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_BINDIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR})
set(MILLRACE_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/millrace/plugins)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/millrace)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/pipelines ${PROJECT_BINARY_DIR}/share/millrace/pipelines SYMBOLIC)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # so that a moved tree works

set(MILLRACE_SANITIZER "" CACHE STRING "address (with undefined behaviour), thread, or empty")

# Warnings are errors if CMAKE_COMPILE_WARNING_AS_ERROR is set, as in the developers' presets (CMakePresets.json). A user's
# compiler may be newer than ours, and have more warnings.
add_library(millrace_options INTERFACE)
target_compile_options(millrace_options INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 wrongly warns about copies of short strings (its bugs 105329 and 105651), at -O1 also about their sizes.
  target_compile_options(millrace_options INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
if(MILLRACE_SANITIZER STREQUAL "address")
  # Except casts: oneTBB's header destroys a task and then casts it to its type to free it.
  set(sanitizer -fsanitize=address,undefined -fno-sanitize=vptr)
  add_compile_options(-fno-sanitize-recover=undefined)
elseif(MILLRACE_SANITIZER STREQUAL "thread")
  set(sanitizer -fsanitize=thread)
elseif(MILLRACE_SANITIZER)
  message(FATAL_ERROR "MILLRACE_SANITIZER is '${MILLRACE_SANITIZER}', expected address, thread or nothing")
endif()
if(MILLRACE_SANITIZER)
  add_compile_options(${sanitizer} -fno-omit-frame-pointer)
  add_link_options(${sanitizer})
  # Instrumented code causes false warnings in the compiler's flow analysis; plain builds keep these warnings.
  target_compile_options(millrace_options INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
endif()

# Instruments everything, so that a fuzzer sees the framework's branches too.
option(MILLRACE_FUZZ "libFuzzer's programs (tests/fuzz), with the sanitizers of addresses and undefined behaviour; needs clang" OFF)
if(MILLRACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MILLRACE_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  set(fuzz -fsanitize=fuzzer-no-link,address,undefined)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${fuzz}> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>
    $<$<COMPILE_LANGUAGE:CXX>:-g1>)
  add_link_options(-fsanitize=address,undefined)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler frees memory less often than at its default of 128 MB, which saves an eighth of its time. Large batches then
  # need some 1.3 GB, a quarter more.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # The first two words are required by ccache for compilations with precompiled headers (its manual, "Precompiled headers"). It
  # must compare files instead of preprocessed text: GCC recognises a header inside a precompiled one by its bytes, so an entry
  # cached before a comment changed would declare everything twice. The namespace excludes entries cached without this rule.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
    CCACHE_NAMESPACE=millrace-1 ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# A fast linker, if available.
include(CheckLinkerFlag)
foreach(linker mold lld)
  check_linker_flag(CXX -fuse-ld=${linker} MILLRACE_HAS_${linker})
  if(MILLRACE_HAS_${linker} AND NOT MILLRACE_SANITIZER)
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()
