#include "millrace/util/files.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr std::size_t kMaxFolders = std::size_t{1} << 24;

}  // namespace

Storage& storage_for(const StageSite& site, std::string_view key, const std::string& url, Storage::Kind expected) {
  if (url.empty()) fail(ErrorKind::usage, "{}: expected a path or a URL, found an empty text", key);
  try {
    Storage& storage = storage_of(*site.registry, url);
    const Storage::Kind kind = storage.kind(url);
    const bool known = kind != Storage::Kind::unknown && expected != Storage::Kind::unknown;
    if (known && kind != expected) {
      fail(ErrorKind::data, "'{}' is {}", url, expected == Storage::Kind::folder ? "not a folder" : "a folder, not a file");
    }
    return storage;
  } catch (Error& error) {
    throw error.in(std::string(key));
  }
}

void read_sample_file(Storage& storage, const std::string& url, ByteBuffer& out) {
  try {
    storage.read(url, out);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    throw Error(ErrorKind::content, error.what());
  }
  if (out.size() == 0) fail(ErrorKind::content, "the file is empty");
}

std::uint64_t fingerprint_of(const Storage::Object& object) {
  return combine(combine(hash_text(object.name), object.bytes), hash_text(object.version));
}

Extensions::Extensions(const std::vector<std::string>& names) : names_(names) {
  for (std::string& name : names_) {
    std::transform(name.begin(), name.end(), name.begin(), lower);
    if (name.empty() || name == ".") fail(ErrorKind::usage, "extensions: an empty one would match every file");
    if (name.front() != '.') name.insert(0, 1, '.');
  }
  if (names_.empty()) fail(ErrorKind::usage, "extensions: expected at least one, such as [\"jpg\"]");
}

bool Extensions::match(std::string_view name) const {
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  const auto has = [name](std::string_view end) {
    return name.size() > end.size() && std::equal(end.begin(), end.end(), name.end() - static_cast<std::ptrdiff_t>(end.size()),
                                                  [](char a, char b) { return a == lower(b); });
  };
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& end) { return has(end) || (end == ".jpeg" && (has(".jfif") || has(".jpe"))); });
}

std::string Extensions::text() const { return fmt::format("{}", fmt::join(names_, ", ")); }

const Extensions& usual_images() {
  static const Extensions images({"jpg", "jpeg", "png"});
  return images;
}

bool seems_to_be_an_image(std::string_view name) {
  static const Extensions others(
      {"avif", "bmp", "gif", "heic", "heif", "jfif", "jp2", "jpe", "jxl", "pbm", "pgm", "ppm", "tga", "tif", "tiff", "webp"});
  if (others.match(name)) return true;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  const auto has = [&](std::string_view ending) { return small.find(ending, 1) != small.npos; };
  const bool is_bare = small.find('.', 1) == small.npos && small.find_first_of("0123456789") != small.npos;
  return is_bare || has(".jpg") || has(".jpeg") || has(".png");
}

void LeftOut::add(const Reason& reason, std::string_view example, std::uint64_t count) {
  if (count == 0) return;
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.reason.one == reason.one; });
  if (known != entries_.end()) {
    known->count += count;
  } else {
    entries_.push_back({reason, std::string(example), count});
  }
}

std::string LeftOut::list() const {
  std::string text;
  for (const Entry& entry : entries_) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} {}, {}'{}'", entry.count, entry.count == 1 ? entry.reason.one : entry.reason.several,
                        entry.count == 1 ? "" : "such as ", line_text(entry.example));
  }
  return text;
}

std::string LeftOut::text(std::string_view where) const { return fmt::format("left out of '{}': {}", line_text(where), list()); }

std::uint64_t PathList::folder_number(std::string_view folder) {
  if (folder == folders_.back()) return folders_.size() - 1;
  if (folder.empty()) return 0;
  const auto [known, is_new] = known_.try_emplace(std::string(folder), static_cast<std::uint32_t>(folders_.size()));
  if (is_new) folders_.emplace_back(folder);
  return known->second;
}

void PathList::add(std::string_view path) {
  std::size_t name = path.rfind('/') + 1;         // npos + 1 is 0
  if (folders_.size() == kMaxFolders) name = 0;  // with this many folders, storing names separately no longer pays
  const std::uint64_t folder = folder_number(path.substr(0, name));
  files_.push_back({names_.size() & ((std::uint64_t{1} << 40) - 1), folder & (kMaxFolders - 1)});
  names_.insert(names_.end(), path.begin() + static_cast<std::ptrdiff_t>(name), path.end());
  names_.push_back('\0');
}

void PathList::finish() {
  known_ = {};
  names_.shrink_to_fit();
  files_.shrink_to_fit();
}

void PathList::append(std::size_t index, std::string& to) const {
  const File file = files_[index];
  to.append(folders_[file.folder]).append(names_.data() + file.name);
}

std::string PathList::operator[](std::size_t index) const {
  std::string path;
  append(index, path);
  return path;
}

std::uint64_t PathList::hash() const {
  std::uint64_t hash = mix64(files_.size());
  std::string path;
  for (std::size_t index = 0; index < files_.size(); ++index) {
    path.clear();
    append(index, path);
    hash = combine(hash, hash_text(path));
  }
  return hash;
}

std::size_t PathList::memory() const {
  std::size_t bytes = names_.capacity() + files_.capacity() * sizeof(File) + folders_.capacity() * sizeof(std::string);
  for (const std::string& folder : folders_) bytes += folder.capacity();
  return bytes;
}

ClassNumbers::ClassNumbers(std::vector<std::string> given) : given_(!given.empty()), names_(std::move(given)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto [before, is_new] = numbers_.emplace(names_[i], static_cast<std::int32_t>(i));
    if (!is_new) fail(ErrorKind::usage, "classes[{}]: '{}' is listed twice, as classes[{}] too", i, names_[i], before->second);
  }
}

std::string classes_without(std::string_view what, const std::vector<std::string>& classes,
                            const std::vector<std::uint64_t>& counts, std::string_view where) {
  std::uint64_t lacking = 0;
  std::size_t first = 0;
  for (std::size_t label = classes.size(); label-- > 0;) {
    if (counts[label] > 0) continue;
    ++lacking;
    first = label;
  }
  if (lacking == 0) return {};
  const std::string name = line_text(classes[first]);
  if (lacking == 1 && first == 0 && name == "0" && classes.size() > 1)
    return fmt::format("class '0' has no {} in '{}', but all others have some: do its labels begin with 1?", what, where);
  if (lacking == 1) return fmt::format("class '{}' has no {} in '{}'", name, what, where);
  return fmt::format("{} of the {} classes have no {} in '{}', such as '{}'", lacking, classes.size(), what, where, name);
}

std::int32_t ClassNumbers::add(std::string_view name) {
  if (!is_utf8(name)) return add(utf8_text(name));
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  if (given_) return -1;
  const auto number = static_cast<std::int32_t>(numbers_.size());
  numbers_.emplace(name, number);
  return number;
}

std::string ClassNumbers::hint(std::string_view name) const {
  const auto nearest = nearest_name(name, names_);
  return nearest ? fmt::format(": did you mean '{}'?", *nearest) : "";
}

void ClassNumbers::finish(std::vector<std::int32_t>& labels) {
  std::vector<std::int32_t> label_of(numbers_.size());
  if (!given_) names_.clear();
  for (const auto& [name, number] : numbers_) {  // in bytewise order
    label_of[static_cast<std::size_t>(number)] = given_ ? number : static_cast<std::int32_t>(names_.size());
    if (!given_) names_.push_back(name);
  }
  counts_.assign(names_.size(), 0);
  for (std::int32_t& label : labels) {
    if (label < 0) continue;
    label = label_of[static_cast<std::size_t>(label)];
    ++counts_[static_cast<std::size_t>(label)];
  }
}

}  // namespace millrace
