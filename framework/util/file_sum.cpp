#include "util/file_sum.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/bytes.h"
#include "millrace/util/sha256.h"

namespace millrace {

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 sum;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0)
    sum.add(buffer.data(), static_cast<std::size_t>(file.gcount()));
  if (!file.eof()) fail(ErrorKind::storage, "'{}' cannot be read: {}", path, std::strerror(errno));
  return hex_text(sum.finish());
}

}  // namespace millrace
