// SHA-256 of whole files, as printed by sha256sum.
#pragma once

#include <string>

namespace millrace {

// 64 hexadecimal digits. Throws Error(storage) naming an unreadable file, and Error(run) if has_sha256() is false.
std::string sha256_of_file(const std::string& path);

}  // namespace millrace
