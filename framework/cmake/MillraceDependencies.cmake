# Dependencies of the framework. A plugin's CMakeLists.txt looks for those that only the plugin needs. The versions are those of
# Debian 12 and later, up to the latest one tried.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  millrace_require_version(GCC ${CMAKE_CXX_COMPILER_VERSION} 12 15)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  millrace_require_version(Clang ${CMAKE_CXX_COMPILER_VERSION} 14 15)
endif()
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL COMPONENTS Crypto)
if(NOT OPENSSL_FOUND)
  message(STATUS "framework: without SHA-256, by which weights are checked; it needs OpenSSL (Debian: libssl-dev)")
endif()
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
mark_as_advanced(TOMLPLUSPLUS_INCLUDE)

file(GLOB toml_version ${TOMLPLUSPLUS_INCLUDE}/toml++/impl/version.h*)  # .hpp since 3.4
millrace_version_in(toml_version ${toml_version} TOML_LIB_MAJOR TOML_LIB_MINOR TOML_LIB_PATCH)
millrace_require_version(oneTBB ${TBB_VERSION} 2021.8 2023)
millrace_require_version(fmt ${fmt_VERSION} 9.1 11)
millrace_require_version(nlohmann_json ${nlohmann_json_VERSION} 3.11 3.12)
millrace_require_version(toml++ ${toml_version} 3.3 3.5)
