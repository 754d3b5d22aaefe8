// pipeline-data copy: copies a folder between any two storages.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/arguments.h"
#include "common/last_words.h"
#include "counter.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "stop_signal.h"
#include "util/secrets.h"
#include "verbs.h"

namespace millrace {
namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;  // a thread's share of an object in memory

struct Folder {
  std::string url;
  Storage* storage = nullptr;
};

using Objects = std::map<std::string, Storage::Object>;  // by name

struct Listing {
  Objects objects;
  std::vector<std::string> dangling;  // names of dangling links
};

// Ignores everything below a name with a leading '.'.
Listing list(const Folder& folder) {
  Listing listing;
  folder.storage->list(folder.url, [&](const Storage::Object& object) {
    if (object.is_dangling) {
      listing.dangling.push_back(object.name);
    } else if (!object.name.ends_with('/')) {
      listing.objects[object.name] = object;
    }
  });
  return listing;
}

// Objects from an earlier copy; empty without the folder.
Objects objects_there(const Folder& folder) {
  try {
    return list(folder).objects;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return {};
  }
}

// An object arrives complete and in one version, or not at all: each piece is read on its own.
void copy_object(const Folder& from, const Folder& to, const Storage::Object& object, std::vector<std::uint8_t>& memory) {
  const std::string source = join_url(from.url, object.name);
  const auto writer = to.storage->write(join_url(to.url, object.name));
  for (std::uint64_t at = 0; at < object.bytes;) {
    if (stop_signal != 0) return;  // without commit() nothing of it remains
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, object.bytes - at));
    memory.resize(std::max(memory.size(), piece));
    from.storage->read(source, at, piece, memory.data());
    writer->write(memory.data(), piece);
    at += piece;
  }
  const Storage::Object now = from.storage->stat(source);
  if (now.bytes != object.bytes || now.version != object.version) {
    fail(ErrorKind::storage, "'{}' was replaced while it was copied: copy it again", without_secrets(source));
  }
  writer->commit();
}

class Copy {
 public:
  Copy(Folder from, Folder to) : from_(std::move(from)), to_(std::move(to)) {}

  // Skips objects that exist with the same name and size.
  void plan() {
    const Objects there = objects_there(to_);
    Listing here = list(from_);
    dangling_ = std::move(here.dangling);
    for (auto& [name, object] : here.objects) {
      const auto found = there.find(name);
      if (found != there.end() && found->second.bytes == object.bytes) {
        ++left_;
      } else {
        objects_.push_back(std::move(object));
      }
    }
    if (objects_.empty() && left_ == 0 && dangling_.empty()) fail(ErrorKind::data, "'{}' is empty", without_secrets(from_.url));
  }

  void run(unsigned threads) {
    Counter counter("copied", objects_.size());
    std::vector<std::jthread> pool;
    for (unsigned t = 0; t < std::min<std::size_t>(threads, objects_.size()); ++t) pool.emplace_back([&] { work(counter); });
    pool.clear();
    if (error_) throw Error(*error_);
  }

  // Lists what cannot be copied: the first few names, and how many more. Returns true if there are any.
  bool warn_of_dangling() const {
    if (dangling_.empty()) return false;
    constexpr std::size_t kNamed = 5;
    std::string names;
    for (std::size_t i = 0; i < std::min(kNamed, dangling_.size()); ++i)
      names += fmt::format("{}'{}'", i > 0 ? ", " : "", line_text(dangling_[i]));
    if (dangling_.size() > kNamed) names += fmt::format(" and {} more", dangling_.size() - kNamed);
    print_to_stderr("warning: {} in '{}' and {} not copied: {}\n",
                    dangling_.size() == 1 ? "a link leads nowhere" : fmt::format("{} links lead nowhere", dangling_.size()),
                    line_text(without_secrets(from_.url)), dangling_.size() == 1 ? "is" : "are", names);
    return true;
  }

  std::string text() const {
    return fmt::format("{} object{} copied, {:.1f} MB; {} there already", done_.load(), done_ == 1 ? "" : "s",
                       static_cast<double>(bytes_) / 1e6, left_);
  }

 private:
  void work(Counter& counter) {
    std::vector<std::uint8_t> memory;
    for (std::size_t i = next_++; i < objects_.size() && stop_signal == 0 && !failed_; i = next_++) {
      try {
        copy_object(from_, to_, objects_[i], memory);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = current_error();
        failed_ = true;
        return;
      }
      if (stop_signal != 0) return;
      counter.add();
      ++done_;
      bytes_ += objects_[i].bytes;
    }
  }

  const Folder from_, to_;
  std::vector<Storage::Object> objects_;
  std::vector<std::string> dangling_;
  std::uint64_t left_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0}, bytes_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace

int copy_verb(int count, const char* const* arguments) {
  std::string threads = "8";
  std::vector<std::string> rest;
  Arguments reader("pipeline-data copy", "FROM TO [options]",
                   "Copies everything below a folder to another folder, local or s3://BUCKET/FOLDER. Files of the same name and\n"
                   "size are skipped, so a stopped copy continues when repeated. Names with a part that begins with '.' are\n"
                   "skipped. Broken links are reported; the exit code is then 3.");
  reader.option("--threads", "N", "concurrent objects (8)", threads);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() != 2)
    fail(ErrorKind::usage, "expected two folders, FROM and TO, found {}; see pipeline-data copy --help", rest.size());
  const auto at_once = static_cast<unsigned>(integer("--threads", threads, 1, 256));
  install_signal_handlers();
  Registry registry;
  load_plugins(registry);
  Copy copy({rest[0], &storage_of(registry, rest[0])}, {rest[1], &storage_of(registry, rest[1])});
  copy.plan();
  try {
    copy.run(at_once);
  } catch (Error& error) {
    throw error.in(copy.text());
  }
  if (stop_signal != 0) {
    print_to_stderr("stopped: {}; the same command continues\n", copy.text());
    return 128 + stop_signal;
  }
  fmt::print("{}\n", copy.text());
  return copy.warn_of_dangling() ? exit_code(ErrorKind::content) : 0;
}

}  // namespace millrace
