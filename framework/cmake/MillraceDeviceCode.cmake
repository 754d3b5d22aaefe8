# Kernels for NVIDIA GPUs, for plugins here and elsewhere. This file is also installed next to MillraceConfig.cmake.
set(MILLRACE_DEVICE_CODE_DIR ${CMAKE_CURRENT_LIST_DIR})
# Code for 8.0 also runs on 8.6 and 8.9; generations after 9.0 compile the PTX. "native": only this machine's GPUs.
set(MILLRACE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING "generations of GPUs that get device code")
option(MILLRACE_CUDA "compile device code, and backend \"cuda\", where a CUDA toolkit is found" ON)

# Enables the language CUDA if there is a toolkit. Sets MILLRACE_WHY_NO_CUDA to the reason if there is none, else to "".
macro(millrace_enable_cuda)
  set(MILLRACE_WHY_NO_CUDA "")
  if(NOT MILLRACE_CUDA)
    set(MILLRACE_WHY_NO_CUDA "it was not asked for (-DMILLRACE_CUDA=ON)")
  elseif(MILLRACE_SANITIZER OR MILLRACE_FUZZ)
    set(MILLRACE_WHY_NO_CUDA "this is a build under a sanitizer")
  else()
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
      set(ENV{CUDACXX} /usr/local/cuda/bin/nvcc)  # place of NVIDIA's packages, which may not be in the PATH
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      find_package(CUDAToolkit REQUIRED)
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 has none for nvcc
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      endif()
    else()
      set(MILLRACE_WHY_NO_CUDA "no CUDA toolkit (nvcc) was found")
    endif()
  endif()
endmacro()

# millrace_add_device_code(TARGET SOURCES file.cu...): objects with code for MILLRACE_CUDA_ARCHITECTURES.
function(millrace_add_device_code target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  # nvcc accepts none of the host compiler's options, so those of the whole build are passed to the host compiler.
  get_directory_property(options COMPILE_OPTIONS)
  list(TRANSFORM options REPLACE "^(-f.*)$" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  set_directory_properties(PROPERTIES COMPILE_OPTIONS "${options}")
  add_library(${target} OBJECT ${arg_SOURCES})
  target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:Millrace::framework,INTERFACE_INCLUDE_DIRECTORIES>)
  # 1675: a pragma for GCC, in host loops
  target_compile_options(${target} PRIVATE --expt-relaxed-constexpr -diag-suppress=1675 -Xcompiler=-Wall,-Wextra)
  set_target_properties(${target} PROPERTIES
    CUDA_ARCHITECTURES "${MILLRACE_CUDA_ARCHITECTURES}"
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_SEPARABLE_COMPILATION OFF CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
endfunction()

# millrace_kernel_options(TARGET): the options by which loops of kernels vectorise.
function(millrace_kernel_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-tree-pre>  # makes branches of log1p(exp(x)), eight times slower than vectors
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O3>)
endfunction()

# millrace_add_kernels(TARGET header...): prepares a target with kernels in these headers. A header lists its kernels with
# MILLRACE_KERNELS(...), and those of optimizers with MILLRACE_UPDATE_KERNEL(...). Their loops are vectorised for the processor;
# with a CUDA toolkit, nvcc compiles them too.
function(millrace_add_kernels target)
  millrace_kernel_options(${target})
  if(NOT ARGN OR NOT CMAKE_CUDA_COMPILER OR MILLRACE_SANITIZER OR MILLRACE_FUZZ OR NOT MILLRACE_CUDA)
    return()
  endif()
  set(text "// Generated: the device code of ${target}.\n#include \"millrace/kernels/device_code.cuh\"\n")
  foreach(header IN LISTS ARGN)
    get_filename_component(path ${header} ABSOLUTE)
    string(APPEND text "#include \"${path}\"\n")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_device.cu)
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  millrace_add_device_code(${target}_device SOURCES ${source})
  # Passed to everything that links the target: an object library does not contain other objects.
  target_sources(${target} INTERFACE $<TARGET_OBJECTS:${target}_device>)
  # The static runtime hides its names, and its threads outlive a dlclose.
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
  target_link_options(${target} INTERFACE -Wl,--exclude-libs,libcudart_static.a -Wl,-z,nodelete)
endfunction()
