#include "millrace/files.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/random.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr std::size_t kMostFolders = std::size_t{1} << 24;

}  // namespace

Storage& storage_for(const StageContext& context, std::string_view key, const std::string& url, Storage::Kind expected) {
  if (url.empty()) fail(ErrorKind::usage, "{}: expected a path or a URL, found an empty text", key);
  try {
    Storage& storage = context.registry->storage(url);
    const Storage::Kind kind = storage.look(url);
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
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& end) {
    return name.size() > end.size() && std::equal(end.begin(), end.end(), name.end() - static_cast<std::ptrdiff_t>(end.size()),
                                                  [](char a, char b) { return a == lower(b); });
  });
}

std::string Extensions::text() const { return fmt::format("{}", fmt::join(names_, ", ")); }

std::uint64_t PathList::folder_number(std::string_view folder) {
  if (folder == folders_.back()) return folders_.size() - 1;
  if (folder.empty()) return 0;
  const auto [known, is_new] = known_.try_emplace(std::string(folder), static_cast<std::uint32_t>(folders_.size()));
  if (is_new) folders_.emplace_back(folder);
  return known->second;
}

void PathList::add(std::string_view path) {
  std::size_t name = path.rfind('/') + 1;         // npos + 1 is 0
  if (folders_.size() == kMostFolders) name = 0;  // so many that a folder's name is no longer worth keeping apart
  const std::uint64_t folder = folder_number(path.substr(0, name));
  files_.push_back({names_.size() & ((std::uint64_t{1} << 40) - 1), folder & (kMostFolders - 1)});
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
    if (!numbers_.emplace(names_[i], static_cast<std::int32_t>(i)).second) {
      fail(ErrorKind::usage, "classes: '{}' stands there twice", names_[i]);
    }
  }
}

std::int32_t ClassNumbers::add(std::string_view name) {
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
