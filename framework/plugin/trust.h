// Whose plugins are loaded: a plugin runs with all rights of the program, so anyone who can write its file or its folder can do
// what the program's user can do.
#pragma once

#include <filesystem>
#include <string>

#include "base/library_folder.h"

namespace millrace {

// The folder of plugins that belongs to the framework's library: lib/libmillrace.so -> lib/millrace/plugins.
inline std::filesystem::path own_plugin_folder(const std::filesystem::path& library = library_folder()) {
  return library / "millrace" / "plugins";
}

// Why a folder of plugins, or a plugin's file, is not to be used: others than root and this user own it or may write it, or every
// user may write a folder above it that has no sticky bit. Of a symbolic link the same goes for what it leads to, and its folder.
// "": all is well, or it is not there, or MILLRACE_PLUGIN_TRUST is "any". The process's own primary group may write it.
//
// Plugins that came with the framework's library, in the folder `library`, are trusted as it is: whoever owns that folder, or the
// group that may write it, could change the program that is already running.
std::string distrust(const std::filesystem::path& path, const std::filesystem::path& library = library_folder());

}  // namespace millrace
