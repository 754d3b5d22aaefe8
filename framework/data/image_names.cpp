#include "millrace/util/image_names.h"

#include <algorithm>
#include <utility>

#include "millrace/util/files.h"

namespace millrace {

namespace {

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0
std::string_view without_extension(std::string_view path) { return path.substr(0, path.rfind('.')); }

// The number of parts in which two paths agree, from the end; `all`: one of them ends there.
std::pair<std::size_t, bool> common_parts(std::string_view a, std::string_view b) {
  for (std::size_t parts = 0;; ++parts) {
    if (a.empty() || b.empty()) return {parts, true};
    const std::string_view last_a = last_part(a), last_b = last_part(b);
    if (last_a != last_b) return {parts, false};
    a.remove_suffix(std::min(a.size(), last_a.size() + 1));
    b.remove_suffix(std::min(b.size(), last_b.size() + 1));
  }
}

// With '/' between parts, without empty parts, "." and "..". Returns true for a path that leads out of its folder, or is
// absolute.
bool normalise(std::string_view name, std::string& path) {
  std::string slashed(name);
  std::ranges::replace(slashed, '\\', '/');
  bool leads_out = slashed.starts_with('/') || (slashed.size() > 1 && slashed[1] == ':') || name.find("://") != name.npos;
  for (std::string_view rest = slashed; !rest.empty();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (part == "..") leads_out = true;
    if (part.empty() || part == "." || part == "..") continue;
    if (!path.empty()) path += '/';
    path += part;
  }
  return leads_out;
}

}  // namespace

void ImageNames::add(std::string path) {
  const auto image = static_cast<std::uint32_t>(paths_.size());
  const std::string_view last = last_part(path);
  by_last_.emplace(last, image);
  by_stem_.emplace(without_extension(last), image);
  paths_.push_back(std::move(path));
}

ImageNames::Found ImageNames::find_in(const std::unordered_multimap<std::string, std::uint32_t>& images, const std::string& last,
                                      const std::string& name, bool last_suffices, bool without_ending) const {
  Found best;
  std::size_t most = 0;
  const auto [begin, end] = images.equal_range(last);
  for (auto entry = begin; entry != end; ++entry) {
    const std::string_view path = paths_[entry->second];
    if (path == name) return {entry->second, ""};
    const auto [parts, fits] = common_parts(without_ending ? without_extension(path) : path, name);
    if ((!fits && !last_suffices) || parts < most) continue;
    best.other = parts == most && best.image ? paths_[*best.image] : "";
    most = parts;
    best.image = entry->second;
  }
  if (!best.other.empty()) best.image.reset();
  return best;
}

std::string ImageNames::path_of(std::string_view name) {
  std::string path;
  normalise(name, path);
  return path.substr(path.size() > 1 && path[1] == ':' ? std::min<std::size_t>(path.size(), 3) : 0);
}

ImageNames::Found ImageNames::find(std::string_view name) const {
  std::string path;
  const bool leads_out = normalise(name, path);
  const std::string last(last_part(path));
  if (last.empty()) return {};
  const Found found = find_in(by_last_, last, path, leads_out, false);
  if (found.image || !found.other.empty() || usual_images().match(last)) return found;
  return find_in(by_stem_, last, path, leads_out, true);
}

}  // namespace millrace
