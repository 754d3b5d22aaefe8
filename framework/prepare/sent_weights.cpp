#include "prepare/sent_weights.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "files/crc64.h"
#include "millrace/error.h"
#include "weight_files/fetched_weights.h"

namespace millrace {
namespace {

enum class Has : std::uint8_t { nothing_to_read, file, no_copy };

Has state_of(const std::string& path) {
  if (path.empty() || is_remote(path)) return Has::nothing_to_read;
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? Has::file : Has::no_copy;
}

std::vector<std::byte> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0).read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) fail(ErrorKind::storage, "the weights '{}' cannot be read: {}", path, std::strerror(errno));
  return bytes;
}

}  // namespace

SentWeights::SentWeights(const std::string& path, Group& group) : path_(path) {
  const Has mine = state_of(path);
  const auto told = static_cast<std::byte>(mine);
  const auto all = group.all_gather(Group::kRun, std::span(&told, 1));
  const auto has = [&](std::size_t rank, Has state) { return all[rank] == std::vector{static_cast<std::byte>(state)}; };
  std::size_t owner = 0;
  while (owner < all.size() && !has(owner, Has::file)) ++owner;
  if (owner == all.size()) return;
  if (static_cast<std::size_t>(group.rank()) == owner) {
    std::vector<std::byte> bytes;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!has(rank, Has::no_copy)) continue;
      if (bytes.empty()) bytes = bytes_of_file(path);
      group.send(static_cast<int>(rank), Group::kRun, bytes);
    }
  }
  if (mine != Has::no_copy) return;
  std::vector<std::byte> bytes;
  group.receive(static_cast<int>(owner), Group::kRun, bytes);
  keep(bytes);
}

void SentWeights::keep(const std::vector<std::byte>& bytes) {
  copy_.emplace("weights");
  path_ = copy_->path() / std::filesystem::path(path_).filename();
  std::ofstream file(path_, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush())
    fail(ErrorKind::storage, "the weights that another rank sends cannot be kept in '{}': {}", path_, std::strerror(errno));
}

std::string checksum_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(1U << 20U);
  Crc64 sum;
  while (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || file.gcount() > 0) {
    sum.add(bytes.data(), static_cast<std::size_t>(file.gcount()));
  }
  return sum.text();
}

}  // namespace millrace
