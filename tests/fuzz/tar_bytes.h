// Initial archives.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace millrace::fuzz {

// Rewrites the checksum of every block that looks like a header, so that changed headers are read instead of refused at once.
inline void seal_headers(std::string& archive) {
  for (std::size_t at = 0; at + 512 <= archive.size(); at += 512) {
    char* header = archive.data() + at;
    if (std::memcmp(header + 257, "ustar", 5) != 0) continue;
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; ++i) sum += static_cast<unsigned char>(header[i]);
    std::snprintf(header + 148, 8, "%06o", sum);
  }
}

inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  std::memcpy(header.data(), name.data(), name.size() < 100 ? name.size() : 100);
  std::snprintf(header.data() + 124, 12, "%011o", static_cast<unsigned>(content.size()));
  header[156] = type;
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

}  // namespace millrace::fuzz
