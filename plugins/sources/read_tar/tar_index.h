// The contents of a shard, sample by sample: built once, stored in a file, and used in place in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "label.h"

namespace millrace {

// Identifies the contents of one shard, read with certain settings.
struct IndexKey {
  std::uint64_t shard_bytes = 0;
  std::uint64_t shard_version = 0;  // hash of Storage::Object::version
  std::uint64_t settings = 0;       // hash of IndexSettings
};

// Members of the shard that the index omits, by reason.
struct PassedOver {
  enum Reason {
    dots,
    unlabelled_dots,  // images with a dot in their names, whose label belongs to the name without it
    other_images,
    labels,  // unusable labels; the example shows one
    kReasons
  };
  struct Members {
    std::uint64_t count = 0;
    std::string example;
  };
  Members members[kReasons];
  std::uint64_t zeros = 0;  // bytes of zeros after the last member; 0 if the archive lacks its end
};

// 24 bytes and a name for each sample, in one piece. Immutable; thread-safe.
//
// The file: a header (magic, checksum of all that follows, the key, counts), then by sample: entries; targets, if any; numbers,
// if any; then the names of the images one after the other; the class names and the examples of skipped members, each ended by a
// zero. Little-endian.
class TarIndex {
 public:
  struct Member {
    std::uint64_t offset = 0;  // 0 if there is none; no member's bytes begin there
    std::uint32_t bytes = 0;
  };
  static constexpr std::int32_t kNoLabel = -1, kUnreadable = -2, kFirstName = -3;  // the next name is kFirstName - 1, and so on

  TarIndex() = default;
  // Takes a file's bytes. Throws ErrorKind::data if they are not a complete index, or have another key.
  TarIndex(std::vector<std::uint8_t> bytes, const IndexKey& key);

  std::size_t size() const { return static_cast<std::size_t>(header_.samples); }
  Member image(std::size_t at) const { return {entry(at).offset, entry(at).bytes}; }
  Member target(std::size_t at) const;
  std::int32_t label(std::size_t at) const { return entry(at).label; }  // a class index, or one of the constants
  std::string_view name(std::size_t at) const;                          // name of the image's member
  std::uint32_t numbers() const { return header_.numbers; }             // numbers to predict per sample
  void numbers(std::size_t at, std::vector<float>& out) const;
  const std::vector<std::string>& class_names() const { return class_names_; }  // labels refer to these
  std::int32_t largest_label() const { return largest_label_; }                 // -1 if no label is a number
  std::size_t largest() const { return largest_; }                              // largest image with target, in bytes
  const PassedOver& passed_over() const { return passed_over_; }
  std::span<const std::uint8_t> bytes() const { return bytes_; }  // the file's bytes

 private:
  friend class IndexWriter;
  struct Header {
    char magic[8];
    std::uint64_t checksum;
    IndexKey key;
    std::uint64_t samples, name_bytes, class_bytes;
    std::uint32_t numbers, has_targets;
    std::uint64_t example_bytes, passed_over[PassedOver::kReasons], zeros;
  };
  struct Entry {
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint32_t name_end;  // end of the name in the names section
    std::int32_t label;
    std::uint32_t zero;
  };
  struct Target {
    std::uint64_t offset;
    std::uint32_t bytes, zero;
  };

  template <class T>
  T load(std::size_t section, std::size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + section + at * sizeof(T), sizeof(T));
    return value;
  }
  Entry entry(std::size_t at) const { return load<Entry>(sizeof(Header), at); }
  void check_sizes(const IndexKey& key);
  void check_samples();
  void check_passed_over();

  std::vector<std::uint8_t> bytes_;
  Header header_{};
  std::size_t targets_ = 0, numbers_ = 0, names_ = 0;  // beginnings of these sections
  std::vector<std::string> class_names_;
  PassedOver passed_over_;
  std::int32_t largest_label_ = -1;
  std::size_t largest_ = 0;
};

// Collects samples into an index.
class IndexWriter {
 public:
  struct Sample {
    std::string name;
    TarIndex::Member image, target;
    Label label;
    std::vector<float> numbers;  // the same count in all samples
  };
  void add(const Sample& sample);
  std::size_t size() const { return entries_.size(); }
  TarIndex finish(const IndexKey& key, bool with_targets, const PassedOver& passed_over = {}) &&;

 private:
  std::int32_t code(const Label& label);

  std::vector<TarIndex::Entry> entries_;
  std::vector<TarIndex::Target> targets_;
  std::vector<float> numbers_;
  std::string names_;
  std::string class_names_;
  std::unordered_map<std::string, std::int32_t> class_codes_;
};

}  // namespace millrace
