// SHA-256 of whole files, as sha256sum prints it.
#pragma once

#include <string>

namespace millrace {

// 64 hexadecimal digits. Throws Error(storage) that names a file which cannot be read, and Error(run) where has_sha256() is
// false.
std::string sha256_of_file(const std::string& path);

}  // namespace millrace
