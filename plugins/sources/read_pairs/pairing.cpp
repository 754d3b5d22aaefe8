#include "pairing.h"

#include <algorithm>
#include <map>

#include "millrace/error.h"
#include "millrace/random.h"

namespace millrace {

namespace {

using ByStem = std::map<std::string, Storage::Object>;

// "a/1" of "a/1_L.png" with the suffix "_L"; none when the name does not end so.
std::optional<std::string> stem_of(const std::string& name, const std::string& suffix) {
  std::string stem = name.substr(0, name.rfind('.'));
  if (!stem.ends_with(suffix)) return {};
  stem.resize(stem.size() - suffix.size());
  return stem;
}

ByStem list(const PairingFolder& folder, const Extensions& extensions) {
  ByStem found;
  folder.storage.list(folder.url, [&](const Storage::Object& object) {
    if (!extensions.match(object.name)) return;
    const auto stem = stem_of(object.name, folder.suffix);
    if (!stem) return;
    const auto [same, is_new] = found.emplace(*stem, object);
    if (is_new) return;
    fail(ErrorKind::data, "'{}' and '{}' in '{}' have the same name: which is it?", same->second.name, object.name, folder.url);
  });
  if (found.empty()) {
    const std::string end = folder.suffix.empty() ? "that end in" : fmt::format("whose names end in '{}' before", folder.suffix);
    fail(ErrorKind::data, "no image in '{}': files {} {} are looked for", folder.url, end, extensions.text());
  }
  return found;
}

void take(Pairing& pairs, const Storage::Object& object) {
  pairs.fingerprint = combine(pairs.fingerprint, fingerprint_of(object));
}

}  // namespace

Pairing pair_files(const PairingFolder& images, const std::optional<PairingFolder>& targets, const Extensions& extensions) {
  const ByStem of_images = list(images, extensions);
  ByStem of_targets = targets ? list(*targets, extensions) : ByStem();
  std::vector<const ByStem::value_type*> in_order;
  for (const auto& entry : of_images) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(), [](auto* a, auto* b) { return a->second.name < b->second.name; });
  Pairing pairs;
  for (const auto* entry : in_order) {
    const auto& [stem, image] = *entry;
    std::uint64_t bytes = image.bytes;
    if (targets) {
      const auto partner = of_targets.find(stem);
      if (partner == of_targets.end()) {
        pairs.left_out.push_back(join_url(images.url, image.name));
        continue;
      }
      pairs.targets.add(partner->second.name);
      take(pairs, partner->second);
      bytes += partner->second.bytes;
      of_targets.erase(partner);
    }
    pairs.images.add(image.name);
    take(pairs, image);
    pairs.largest = std::max(pairs.largest, static_cast<std::size_t>(bytes));
  }
  for (const auto& [stem, target] : of_targets) pairs.left_out.push_back(join_url(targets->url, target.name));
  pairs.images.finish();
  pairs.targets.finish();
  return pairs;
}

}  // namespace millrace
