// Decides whose plugins are loaded: a plugin has all rights of the program, so a user who can write its file or folder can do
// everything that the program's user can.
#pragma once

#include <filesystem>
#include <string>

#include "util/library_folder.h"

namespace millrace {

// The plugin folder that belongs to the framework's library: lib/libmillrace.so -> lib/millrace/plugins.
inline std::filesystem::path own_plugin_folder(const std::filesystem::path& library = library_folder()) {
  return library / "millrace" / "plugins";
}

// Why a folder of plugins, or a plugin's file, must not be used: users other than root and this one own it or may write it, or
// all users may write a parent folder without a sticky bit. For a symbolic link, its target and the target's folder are checked
// too. "" if it is trusted or missing, or MILLRACE_PLUGIN_TRUST is "any". The process's primary group may write it.
//
// Plugins that came with the framework's library, in the folder `library`, are trusted like the library: its owner, or the group
// that may write it, could change the running program anyway.
std::string distrust(const std::filesystem::path& path, const std::filesystem::path& library = library_folder());

}  // namespace millrace
