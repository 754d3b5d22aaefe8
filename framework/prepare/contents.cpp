#include "prepare/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "data/sample_order.h"
#include "millrace/detail/random.h"
#include "millrace/source.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/on_threads.h"
#include "millrace/util/text.h"
#include "prepare/frugal_reader.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMaxSamples = 64;  // that are read, spread over the listing
constexpr std::size_t kMaxClasses = 128;   // of which one sample more is read
constexpr std::uint64_t kMaxParts = 256;   // of the listing, each with a hash of its files' sizes

std::uint64_t hash_of(const Sample& sample) {
  const ImageView image = sample.image();  // if the source returns no bytes
  const bool is_drawn = sample.encoded.size() == 0 && image.data != nullptr;
  const std::uint64_t hash =
      is_drawn ? hash_bytes(image.data, image.shape.bytes()) : hash_bytes(sample.encoded.data(), sample.encoded.size());
  return hash_bytes(sample.encoded_target.data(), sample.encoded_target.size(), hash);
}

// Start of part `i` of `parts`.
std::uint64_t part_begin(std::uint64_t i, std::uint64_t parts, std::uint64_t size) {
  return i * (size / parts) + std::min(i, size % parts);
}

// By part of the listing. Empty if the source does not know all sizes.
std::vector<std::uint64_t> hashes_of_sizes(const Source& source) {
  const auto* const sizes = dynamic_cast<const KnowsFileSizes*>(&source);
  if (sizes == nullptr) return {};
  const std::uint64_t size = source.size();
  std::vector<std::uint64_t> hashes(std::min(kMaxParts, size));
  for (std::uint64_t part = 0; part < hashes.size(); ++part) {
    for (std::uint64_t i = part_begin(part, hashes.size(), size); i < part_begin(part + 1, hashes.size(), size); ++i) {
      const std::uint32_t bytes = sizes->file_bytes(i);
      if (bytes == 0) return {};
      hashes[part] = combine(hashes[part], bytes);
    }
  }
  return hashes;
}

// The first part of `now` that differs from `then`; empty if none differs or either is unknown.
std::optional<std::size_t> first_other(const std::vector<std::uint64_t>& then, const std::vector<std::uint64_t>& now) {
  if (then.size() != now.size()) return std::nullopt;
  const auto [was, is] = std::ranges::mismatch(then, now);
  return was == then.end() ? std::nullopt : std::optional(static_cast<std::size_t>(was - then.begin()));
}

// Spread over the listing, and one of each class that has none among them, the rarest classes first: else a small class that was
// replaced would be seen by chance alone.
std::vector<std::uint64_t> chosen_samples(const Source& source, std::uint64_t salt) {
  const SampleOrder order(source, 0);
  const std::uint64_t listed = order.listed(), count = std::min(kMaxSamples, listed);
  std::vector<std::uint64_t> chosen;
  std::map<std::int32_t, std::uint64_t> left;  // by class, how many samples it has
  for (std::uint64_t i = 0; i < listed; ++i) ++left[source.label(order.listed(i))];
  left.erase(-1);  // not known
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = part_begin(i, count, listed), end = part_begin(i + 1, count, listed);
    chosen.push_back(order.listed(begin + combine(salt, i) % (end - begin)));
    left.erase(source.label(chosen.back()));
  }
  std::vector<std::pair<std::uint64_t, std::int32_t>> rare;
  for (const auto& [label, samples] : left) rare.emplace_back(samples, label);
  std::ranges::sort(rare);
  rare.resize(std::min(rare.size(), kMaxClasses));
  std::map<std::int32_t, std::uint64_t> before;  // by class, how many of its samples come before the one that is chosen
  for (const auto& [samples, label] : rare) before[label] = combine(salt, static_cast<std::uint64_t>(label)) % samples;
  std::size_t at = 0;  // by turns: of large files few are read
  for (std::uint64_t i = 0; i < listed && !before.empty(); ++i) {
    const auto found = before.find(source.label(order.listed(i)));
    if (found == before.end() || found->second-- > 0) continue;
    at = std::min(at + 1, chosen.size());
    chosen.insert(chosen.begin() + static_cast<std::ptrdiff_t>(at++), order.listed(i));
    before.erase(found);
  }
  return chosen;
}

std::string place_of(const GraphBuild& build, std::uint64_t index) {
  Sample sample;
  return build.data().read_sample(index, sample).empty() ? line_text(sample.place()) : fmt::format("number {}", index + 1);
}

}  // namespace

SavedState::Contents look_into(const GraphBuild& build, std::uint64_t salt, const SavedState::Contents* like) {
  const Source& source = *build.data().source;
  SavedState::Contents found{.sizes = hashes_of_sizes(source)};
  std::vector<std::uint64_t> chosen;
  if (like != nullptr) {
    for (const auto& [index, hash] : like->samples) chosen.push_back(index);
  } else {
    chosen = chosen_samples(source, salt);
  }
  FrugalReader reader;
  Sample sample;
  for (const std::uint64_t index : chosen) {
    if (index < source.size() && reader.read(build, index, sample)) found.samples[index] = hash_of(sample);
  }
  return found;
}

std::string difference_of_contents(const GraphBuild& build, const SavedState::Contents& then, const SavedState::Contents& now) {
  std::size_t compared = 0, other = 0;
  std::uint64_t first = 0;
  for (const auto& [index, hash] : then.samples) {
    const auto same = now.samples.find(index);
    if (same == now.samples.end()) continue;
    ++compared;
    if (same->second != hash && other++ == 0) first = index;
  }
  if (other > 0) {
    return fmt::format("{} of {} samples that were compared hold{} other bytes, such as '{}'", other, compared,
                       other == 1 ? "s" : "", place_of(build, first));
  }
  const auto between = [&](std::size_t part, std::size_t parts, std::uint64_t size, const auto& index, const char* has) {
    const std::uint64_t begin = part_begin(part, parts, size), last = part_begin(part + 1, parts, size) - 1;
    if (begin == last) return fmt::format("the file '{}' {}", place_of(build, index(begin)), has);
    return fmt::format("a file from '{}' to '{}' {}", place_of(build, index(begin)), place_of(build, index(last)), has);
  };
  const auto listed = [](std::uint64_t i) { return i; };
  if (const auto part = first_other(then.sizes, now.sizes))
    return between(*part, now.sizes.size(), build.data().source->size(), listed, "has another size");
  if (const auto part = first_other(then.whole, now.whole)) {
    const SampleOrder order(*build.data().source, 0);
    const auto chosen = [&](std::uint64_t i) { return order.listed(i); };
    return between(*part, now.whole.size(), order.listed(), chosen, "holds other bytes");
  }
  return {};
}

std::vector<std::uint64_t> hash_all(const GraphBuild& build, std::size_t threads) {
  const SampleOrder order(*build.data().source, 0);
  const auto parts = static_cast<std::size_t>(std::min(kMaxParts, order.listed()));
  std::vector<std::uint64_t> hashes(parts);
  on_threads(parts, threads, [&](std::size_t part) {
    Sample sample;
    for (std::uint64_t i = part_begin(part, parts, order.listed()); i < part_begin(part + 1, parts, order.listed()); ++i) {
      const bool is_read = build.data().read_sample(order.listed(i), sample).empty();
      hashes[part] = combine(hashes[part], is_read ? hash_of(sample) : 0);
    }
  });
  return hashes;
}

}  // namespace millrace
