// The shared part of sources of files: storages, image extensions, skipped files, compact lists of paths, and classes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "millrace/stage.h"
#include "millrace/storage.h"

namespace millrace {

// The storage for `url`, the stage's parameter `key`. Reports mistakes that can be found at once: nothing is there, or not the
// expected kind. REQUIRES: site.registry, which owns the storage.
Storage& storage_for(const StageSite& site, std::string_view key, const std::string& url,
                     Storage::Kind expected = Storage::Kind::unknown);

// Reads the whole file of one sample. A missing, empty or unreadable file is a bad sample: ErrorKind::content. A storage fault
// that persists after retries stays ErrorKind::storage or ErrorKind::unreachable.
void read_sample_file(Storage& storage, const std::string& url, ByteBuffer& out);

// Changes with the object's name, size or version. For Source::fingerprint().
std::uint64_t fingerprint_of(const Storage::Object& object);

// Decides by its extension whether a file is an image. Case does not matter, and jpeg includes .jfif and .jpe, which browsers and
// old systems write.
class Extensions {
 public:
  explicit Extensions(const std::vector<std::string>& names);  // "jpg", ".PNG"; ErrorKind::usage for an empty list or name
  bool match(std::string_view name) const;
  std::string text() const;  // ".jpg, .png"

 private:
  std::vector<std::string> names_;  // lower case, with the dot
};

const Extensions& usual_images();  // .jpg, .jpeg and .png: the default of sources

// Whether a file with an unsupported ending looks like an image all the same: it has the ending of another kind of image
// ("a.webp"), text after an image's ending ("a.jpg.1", "a.png~"), or no ending and a number ("IMG_0001").
bool seems_to_be_an_image(std::string_view name);

// Collects the files that a source skips, with reasons: one line for RunServices::warn() after it has listed its samples.
//
//   left_out.add({"broken link", "broken links"}, "cat/1.jpg");
//   left_out.text("data")   "left out of 'data': 2 broken links, such as 'cat/1.jpg'; 1 empty file, 'cow/7.jpg'"
class LeftOut {
 public:
  struct Reason {
    std::string one, several;
  };
  void add(const Reason& reason, std::string_view example, std::uint64_t count = 1);
  bool empty() const { return entries_.empty(); }
  std::string text(std::string_view where) const;  // reasons in order of first use
  std::string list() const;                        // the part after the colon

 private:
  struct Entry {
    Reason reason;
    std::string example;
    std::uint64_t count = 0;
  };
  std::vector<Entry> entries_;
};

// A compact list of paths: a million take about 30 MB, because a folder's name is stored once. Read-only after finish(); then
// thread-safe.
class PathList {
 public:
  void add(std::string_view path);  // parts separated by '/'; REQUIRES: no zero byte in it
  void finish();                    // frees memory that only add() needs

  std::size_t size() const { return files_.size(); }
  void append(std::size_t index, std::string& to) const;  // REQUIRES: index < size()
  std::string operator[](std::size_t index) const;
  std::uint64_t hash() const;  // of all paths, in order. For Source::listing_hash()
  std::size_t memory() const;  // bytes

 private:
  struct File {
    std::uint64_t name : 40;    // where it starts in names_; it ends with a zero
    std::uint64_t folder : 24;  // index into folders_
  };
  std::uint64_t folder_number(std::string_view folder);

  std::vector<char> names_;
  std::vector<std::string> folders_{std::string()};  // with the last '/'; the first is empty
  std::vector<File> files_;
  std::unordered_map<std::string, std::uint32_t> known_;  // folders, while paths are added
};

// For RunServices::warn(): "class 'cow' has no image in 'data'", or for several "3 of the 10 classes have no image in 'data',
// such as 'cow'". "" if each has some. `what`: "image". `counts`: by class.
std::string classes_without(std::string_view what, const std::vector<std::string>& classes,
                            const std::vector<std::uint64_t>& counts, std::string_view where);

// Numbers classes by their position in the user's list, or by the bytewise order of all names found. A name that is not UTF-8
// becomes its utf8_text() (text.h), by which files, checkpoints and weights can name it.
class ClassNumbers {
 public:
  explicit ClassNumbers(std::vector<std::string> given = {});  // ErrorKind::usage for a name listed twice

  // A temporary number that finish() turns into a label; -1 for a name that is not in the given list.
  std::int32_t add(std::string_view name);
  std::string hint(std::string_view name) const;  // ": did you mean 'cat'?", or ""

  // Replaces every number in `labels` by its label; negative ones stay. Afterwards names() and counts() are in order of labels.
  void finish(std::vector<std::int32_t>& labels);
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }  // occurrences of each label in `labels`

 private:
  bool given_;
  std::vector<std::string> names_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
  std::vector<std::uint64_t> counts_;
};

}  // namespace millrace
