#include "prepare/same_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "ranks/wire.h"

namespace millrace {
namespace {

// What a rank has listed.
struct Listing {
  std::uint64_t samples = 0, hash = 0;
  std::vector<std::string> classes;
  std::vector<std::uint64_t> counts;  // of the classes

  std::string name(std::size_t index) const {
    return index < classes.size() ? fmt::format("'{}'", shown(classes[index])) : "none";
  }
};

std::vector<std::byte> packed(const GraphBuild& build) {
  WireWriter writer;
  writer.put(build.samples()).put(build.listing_hash()).put(build.classes().size());
  for (const std::string& name : build.classes()) writer.put(std::string_view(name));
  return writer.put(build.class_counts()).bytes();
}

Listing unpacked(const std::vector<std::byte>& bytes) {
  WireReader reader(bytes);
  Listing listing{.samples = reader.get<std::uint64_t>(), .hash = reader.get<std::uint64_t>(), .classes = {}, .counts = {}};
  for (auto count = reader.get<std::size_t>(); count > 0; --count) listing.classes.push_back(reader.get<std::string>());
  listing.counts = reader.list<std::uint64_t>();
  return listing;
}

// "": they are the same.
std::string difference(const Listing& first, const Listing& other, std::size_t rank) {
  for (std::size_t c = 0; c < std::max(first.classes.size(), other.classes.size()); ++c) {
    if (first.name(c) != other.name(c)) {
      return fmt::format("class {} is {} on rank 0 and {} on rank {}", c, first.name(c), other.name(c), rank);
    }
  }
  for (std::size_t c = 0; c < std::min(first.counts.size(), other.counts.size()); ++c) {
    if (first.counts[c] != other.counts[c]) {
      return fmt::format("class {} has {} samples on rank 0 and {} on rank {}", first.name(c), first.counts[c], other.counts[c],
                         rank);
    }
  }
  if (first.samples != other.samples) {
    return fmt::format("there are {} samples on rank 0 and {} on rank {}", first.samples, other.samples, rank);
  }
  if (first.hash == other.hash) return {};
  return fmt::format("rank 0 and rank {} list as many samples, with other names or labels, or in another order", rank);
}

}  // namespace

void require_same_listing(const GraphBuild& build, Group& group) {
  const auto all = group.all_gather(Group::kRun, packed(build));
  const Listing first = unpacked(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::string found = difference(first, unpacked(all[rank]), rank);
    if (!found.empty()) fail(ErrorKind::data, "[{}]: ranks read different data: {}", build.plan().name, found);
  }
}

}  // namespace millrace
