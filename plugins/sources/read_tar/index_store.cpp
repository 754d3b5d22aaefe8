#include "index_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/files.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"
#include "tar_reader.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargestText = std::uint64_t{16} << 20;  // for a .cls or .json member
constexpr std::uint64_t kFormat = 5;                             // must be increased when the same shard yields another index

enum class Role { none, image, label, json, target };

struct NameParts {
  std::string_view key;
  std::string extension;  // in lower case
};

NameParts split_name(std::string_view name, bool last_dot) {
  const std::size_t slash = name.rfind('/');
  const std::size_t last = slash == name.npos ? 0 : slash + 1;
  const std::size_t dot = last_dot ? name.rfind('.') : name.find('.', last);
  if (dot == name.npos || dot <= last || name[last] == '.') return {};  // no extension, or hidden
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return {name.substr(0, dot), std::move(extension)};
}

class Builder {
 public:
  Builder(Window& shard, const IndexSettings& settings) : shard_(shard), settings_(settings) {}

  void add(const TarMember& member) {
    if (member.kind == TarMember::Kind::other) return;
    const NameParts parts = split_name(member.name, settings_.last_dot);
    if (parts.key.empty()) return;
    if (parts.key != group_) settle();
    group_ = parts.key;
    const Role role = role_of(parts.extension);
    if (role == Role::none) return pass_over(member, parts.extension);
    if (member.kind == TarMember::Kind::link) {
      fail(ErrorKind::data, "member '{}' at byte {} is a link: pack it with --dereference --hard-dereference", shown(member.name),
           member.header);
    }
    if (!open_ || parts.key != key_) begin(parts.key, member);
    take(role, member);
  }

  TarIndex finish(const IndexKey& key, std::uint64_t zeros) && {
    settle();
    end();
    check_keys();
    passed_over_.zeros = zeros;
    return std::move(writer_).finish(key, !settings_.target.empty(), passed_over_);
  }

 private:
  struct Seen {
    std::string key;
    std::uint64_t header;
  };
  struct Waiting {
    PassedOver::Reason reason;
    bool is_word;  // the part after the key begins with a letter
    std::string name;
  };

  static unsigned bit(Role role) { return 1U << static_cast<unsigned>(role); }
  static bool is_image(std::string_view extension) { return extension == "jpg" || extension == "jpeg" || extension == "png"; }

  bool is_target(std::string_view extension) const {
    const std::string& name = settings_.target;
    return !name.empty() && extension.size() > name.size() && extension.starts_with(name) && extension[name.size()] == '.' &&
           is_image(extension.substr(name.size() + 1));
  }

  Role role_of(const std::string& extension) const {
    if (is_image(extension)) return Role::image;
    if (is_target(extension)) return Role::target;
    if (extension == "cls" && settings_.label.empty()) return Role::label;
    if (extension == "json" && !(settings_.label.empty() && settings_.numbers.empty())) return Role::json;
    return Role::none;
  }

  // An image without a place in the sample waits until all members of its key are known.
  void pass_over(const TarMember& member, std::string_view extension) {
    if (member.kind != TarMember::Kind::file) return;
    const std::size_t dot = extension.rfind('.') + 1;  // npos + 1 is 0
    const bool image = is_image(extension.substr(dot));
    if (!image && !(dot == 0 && seems_to_be_an_image(member.name))) return;
    const bool is_word = (extension.front() >= 'a' && extension.front() <= 'z');
    waiting_.push_back({dot > 0 ? PassedOver::dots : PassedOver::other_images, is_word, member.name});
  }

  // 000017.depth.png and 000017.webp are companions of 000017.jpg; 000017.1.jpg is another image. Without an image, all are other
  // images.
  void settle() {
    const bool has_image = open_ && key_ == group_ && sample_.image.offset != 0;
    const bool has_label = open_ && key_ == group_ && (taken_ & (bit(Role::label) | bit(Role::json))) != 0;
    for (Waiting& each : waiting_) {
      if (has_image && each.is_word) continue;
      const bool parted = each.reason == PassedOver::dots && has_label && !has_image;
      PassedOver::Members& members = passed_over_.members[parted ? PassedOver::unlabelled_dots : each.reason];
      if (members.count++ == 0) members.example = std::move(each.name);
    }
    waiting_.clear();
  }

  void begin(std::string_view key, const TarMember& member) {
    end();
    open_ = true;
    key_ = key;
    ascending_ = ascending_ && (seen_.empty() || seen_.back().key < key_);
    seen_.push_back({key_, member.header});
    sample_ = {};
    sample_.name = member.name;
    taken_ = 0;
  }

  void end() {
    if (!open_) return;
    const std::size_t wanted = writer_.size() == 0 ? sample_.numbers.size() : numbers_;
    if (!settings_.numbers.empty() && (sample_.numbers.empty() || sample_.numbers.size() != wanted)) {
      fail(ErrorKind::data, "sample '{}' has {} numbers in '{}' of its .json, expected {}", shown(key_), sample_.numbers.size(),
           settings_.numbers, wanted == 0 ? "at least one" : std::to_string(wanted));
    }
    numbers_ = wanted;
    writer_.add(sample_);
    open_ = false;
  }

  void take(Role role, const TarMember& member) {
    if ((taken_ & bit(role)) != 0) {
      fail(ErrorKind::data, "sample '{}' has two {}: member '{}' at byte {} is one too many", shown(key_),
           role == Role::image    ? "images"
           : role == Role::target ? "targets"
                                  : "labels",
           shown(member.name), member.header);
    }
    taken_ |= bit(role);
    if (role == Role::image || role == Role::target) {
      if (member.bytes > std::numeric_limits<std::uint32_t>::max()) {
        fail(ErrorKind::data, "member '{}' at byte {} has {} bytes: no image is that large", shown(member.name), member.header,
             member.bytes);
      }
      (role == Role::image ? sample_.image : sample_.target) = {member.offset, static_cast<std::uint32_t>(member.bytes)};
      if (role == Role::image) sample_.name = member.name;
      return;
    }
    if (member.bytes > kLargestText) {
      fail(ErrorKind::data, "member '{}' at byte {} has {} bytes: no label is that long", shown(member.name), member.header,
           member.bytes);
    }
    const auto content = shard_.at(member.offset, static_cast<std::size_t>(member.bytes));
    if (role == Role::label) sample_.label = label_of_text({reinterpret_cast<const char*>(content.data()), content.size()});
    if (role == Role::json && !settings_.label.empty()) sample_.label = label_of_json(content, settings_.label);
    const bool names_class = role == Role::label || !settings_.label.empty();
    if (names_class && sample_.label.kind == Label::Kind::unreadable) {
      PassedOver::Members& members = passed_over_.members[PassedOver::labels];
      if (members.count++ == 0) members.example = fmt::format("'{}' has {}", shown(member.name), sample_.label.name);
    }
    if (role == Role::json && !settings_.numbers.empty()) sample_.numbers = numbers_of_json(content, settings_.numbers);
  }

  void check_keys() {
    if (ascending_) return;  // then keys are unique
    std::stable_sort(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) { return a.key < b.key; });
    const auto twice =
        std::adjacent_find(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) { return a.key == b.key; });
    if (twice == seen_.end()) return;
    fail(ErrorKind::data,
         "sample '{}' is duplicated, or its members are not adjacent: at byte {} and again at byte {}; pack the shard "
         "again, sorted by name (tar --sort=name)",
         shown(twice->key), twice->header, std::next(twice)->header);
  }

  Window& shard_;
  const IndexSettings& settings_;
  IndexWriter writer_;
  IndexWriter::Sample sample_;  // the sample of key_, while open_
  std::string key_;
  bool open_ = false;
  std::string group_;  // the key of the last member with one
  std::vector<Waiting> waiting_;
  PassedOver passed_over_;
  unsigned taken_ = 0;       // roles, as bits
  std::size_t numbers_ = 0;  // per sample
  std::vector<Seen> seen_;
  bool ascending_ = true;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// The largest index to read. An index entry is shorter than the sample's members in the shard; only numbers may be twice as long
// as their text.
std::uint64_t most_bytes(const Shard& shard) { return 2 * shard.bytes + (std::uint64_t{1} << 20U); }

// Empty if the file is missing, unreadable, or larger than `most` bytes.
std::optional<std::vector<std::uint8_t>> read_file(const fs::path& path, std::uint64_t most) {
  const File file(std::fopen(path.c_str(), "rb"));
  std::error_code error;
  const std::uintmax_t size = file ? fs::file_size(path, error) : 0;
  if (!file || error || size > most) return std::nullopt;
  std::vector<std::uint8_t> bytes(size);
  if (std::fread(bytes.data(), 1, size, file.get()) != size) return std::nullopt;
  return bytes;
}

// Writes under a hidden name first: listings skip it, and no reader sees a partial file. Returns false, with errno, on failure.
bool write_file(const fs::path& path, std::span<const std::uint8_t> bytes) {
  static std::atomic<unsigned> number{0};
  const fs::path temporary = path.parent_path() / fmt::format(".{}.{}.{}", path.filename().string(), getpid(), number++);
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  if (std::fclose(file.release()) == 0 && written && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  const int why = errno;
  std::remove(temporary.c_str());
  errno = why;
  return false;
}

}  // namespace

IndexKey index_key(std::uint64_t shard_bytes, std::string_view shard_version, const IndexSettings& settings) {
  std::uint64_t hash = mix64(kFormat);
  for (const std::string* text : {&settings.label, &settings.numbers, &settings.target}) hash = combine(hash, hash_text(*text));
  if (settings.last_dot) hash = combine(hash, 1);
  return {shard_bytes, hash_text(shard_version), hash};
}

TarIndex build_index(Window& shard, const IndexKey& key, const IndexSettings& settings) {
  Builder builder(shard, settings);
  TarReader reader(shard);
  TarMember member;
  while (reader.next(member)) builder.add(member);
  return std::move(builder).finish(key, reader.zeros());
}

IndexStore::IndexStore(IndexSettings settings, std::function<void(const std::string&)> cannot_keep)
    : settings_(std::move(settings)), cannot_keep_(std::move(cannot_keep)) {}

std::vector<fs::path> IndexStore::places(const Shard& shard) const {
  std::vector<fs::path> paths;
  if (shard.version.empty()) return paths;  // another shard may have the same size, which is a multiple of 10,240
  std::string name = shard.url;
  if (url_scheme(shard.url) == "file") {
    name = file_url_path(name);
    paths.emplace_back(name + ".index");
    std::error_code ignored;
    name = fs::absolute(name, ignored).lexically_normal().string();
  }
  if (const fs::path cache = cache_folder("tar"); !cache.empty()) {
    paths.push_back(cache / fmt::format("{}-{:016x}.index", fs::path(name).filename().string(), hash_text(name)));
  }
  return paths;
}

TarIndex IndexStore::open(const Shard& shard) const {
  const IndexKey key = index_key(shard.bytes, shard.version, settings_);
  const std::vector<fs::path> paths = places(shard);
  for (const fs::path& path : paths) {
    std::optional<std::vector<std::uint8_t>> bytes = read_file(path, most_bytes(shard));
    if (!bytes) continue;
    try {
      return {std::move(*bytes), key};
    } catch (const Error&) {
      // has another version, or is damaged: it is rebuilt
    }
  }
  Window window(
      [&](std::uint64_t offset, std::size_t size, std::uint8_t* out) { shard.storage->read(shard.url, offset, size, out); },
      shard.bytes);
  TarIndex index = build_index(window, key, settings_);
  std::string why = shard.version.empty() ? fmt::format("'{}' has no version (ETag, Last-Modified) that shows changes", shard.url)
                                          : "no cache folder: none of MILLRACE_CACHE, XDG_CACHE_HOME and HOME is set";
  for (const fs::path& path : paths) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    if (write_file(path, index.bytes())) return index;
    why = fmt::format("'{}': {}", path.string(), std::strerror(errno));
  }
  cannot_keep_(why);
  return index;
}

}  // namespace millrace
