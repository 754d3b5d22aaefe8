# What the framework needs. Whatever only a plugin needs, the plugin's own CMakeLists.txt looks for.
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
mark_as_advanced(TOMLPLUSPLUS_INCLUDE)
