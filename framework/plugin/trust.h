// Whose plugins are loaded: a plugin runs with all rights of the program, so anyone who can write its file or its folder can do
// what the program's user can do.
#pragma once

#include <filesystem>
#include <string>

namespace millrace {

// Why a folder of plugins, or a plugin's file, is not to be used: others than root and this user own it or may write it, or every
// user may write a folder above it that has no sticky bit. Of a symbolic link the same goes for what it leads to, and its folder.
// "": all is well, or it is not there, or MILLRACE_PLUGIN_TRUST is "any". The process's own primary group may write it.
std::string distrust(const std::filesystem::path& path);

}  // namespace millrace
