#include "millrace/util/group.h"

namespace millrace {

std::vector<std::vector<std::byte>> Group::all_gather(std::uint32_t channel, std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(size()));
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) send(other, channel, mine);
  }
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) receive(other, channel, all[static_cast<std::size_t>(other)]);
  }
  all[static_cast<std::size_t>(rank())].assign(mine.begin(), mine.end());
  return all;
}

void Group::broadcast(std::uint32_t channel, int root, std::vector<std::byte>& bytes) {
  if (rank() != root) return receive(root, channel, bytes);
  for (int other = 0; other < size(); ++other) {
    if (other != root) send(other, channel, bytes);
  }
}

}  // namespace millrace
