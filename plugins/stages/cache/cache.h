#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cache_file.h"
#include "entry.h"
#include "memory_store.h"
#include "millrace/stage.h"
#include "millrace/util/sample_cache.h"

namespace millrace {

// Claims a file for one cache while this object lives. Graphs have different samples, or different parts of them: if two caches
// of a run shared a file, the last to end would replace the other's file in every run. Thread-safe.
class FileClaim {
 public:
  // Throws Error(usage) if another cache of the same run has it.
  FileClaim(const std::filesystem::path& path, const StageSite& site);
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;
  ~FileClaim();

 private:
  const std::filesystem::path path_;
  const RunServices* const run_;
};

// Keeps samples in the state in which they arrive, so that from the second epoch on neither the source nor the stages before it
// have work to do. Two stage types: `cache` holds decoded pixels; `cache_encoded` stands between the source and decode_image and
// holds the files' bytes.
//
//   flow = ["read", "decode_image", "cache", "augment", "batch", ...]
//   [train.cache]
//   memory = "4 GiB"                   # and / or
//   file   = "cache/cifar10.cache"     # one file, for this run and later ones
//   device = true                      # devices keep the images too
//
// With `device = true` (only `cache`) each device keeps each image in its own memory from its first arrival: from the second
// epoch on, no pixels are copied to a device that has them, and nothing is read from `memory` or `file` or decoded. Several
// devices share out the samples of each epoch anew, so that in time each has all of them. The key belongs to this stage, not to
// the batch or the run, because the stage's position determines which pixels stay the same. Flips and shifts by whole pixels
// after it still execute on the device, from the record; a later stage that changes pixels on the host is an error; MixUp and
// CutMix, after `batch`, send the mixed pixels. Order, draws and results do not change. Backend `cpu` reads batches in place.
//
// Ports: in, out: ImageChunk (cache) or SampleChunk (cache_encoded). Memory fills up to its budget and is never evicted: under
// shuffling every sample is equally likely to be needed. Samples that do not fit are read as without a cache. The file is written
// under a temporary name during the first epoch, and renamed when it is complete or a second epoch begins; if all samples are in
// memory, none may arrive here then, so it is renamed at the end. A later run reads the file if the listing (sizes and
// modification times) and the stages before the cache, with their versions, are the same; otherwise it makes a new one. Samples
// missing from the file (bad ones) or damaged there are read as usual; a warning names each damaged one once: each entry has a
// checksum. Each cache of a run needs a separate file: sharing one is ErrorKind::usage. A warning reports a file that has none of
// the first samples, such as one of another part of the listing. Samples are kept by index, with the hash of their encoded bytes:
// an epoch's stream hash is the same with and without a cache. Bad samples are not kept: they are read and counted again.
// Threading: parallel; lookups take no lock, and additions only when a block of memory is full. Errors: random changes before a
// cache, which would freeze them: ErrorKind::usage when a sample with draws arrives. Images that do not fit on a device:
// ErrorKind::usage, from the device. A later stage that changes them: ErrorKind::usage, before the run if its
// SampleTransform::changes_pixels() is true, else from `batch`. An unusable file is replaced, with a warning. A full disk:
// ErrorKind::storage.
class Cache : public SampleTransform, public SampleCache {
 public:
  struct Params {
    std::string memory;
    std::string file;
    bool device = false;
  };
  static constexpr const char* kDefaultMemory = "1 GiB";  // if neither memory nor file is set

  Cache(const Params& params, const DataContext& context);
  ~Cache() override;
  void open() override;
  void process(Sample& sample, Draw& draw) override;
  bool fetch(Sample& sample) override;
  bool on_device() const override { return on_device_; }
  std::size_t memory_bound() const override;

  static void describe_params(StageDescription<Params>& description);

 private:
  std::size_t budget_;
  std::uint64_t samples_;  // samples per epoch; the file is complete when it has all
  std::uint64_t fingerprint_;
  ImageShape window_;
  bool on_device_;
  const StageSite site_;
  bool is_dry_run() const { return site_.run != nullptr && site_.run->is_dry_run(); }  // samples come again
  void note_pass(const SampleKey& key);
  void write(const Sample& sample);
  void count_missing();
  void name_damage(std::uint64_t index);

  std::string path_;
  std::optional<FileClaim> claim_;  // set by open()
  std::unique_ptr<MemoryStore> memory_;
  std::unique_ptr<CacheReader> owned_reader_;
  std::atomic<CacheReader*> reader_{nullptr};  // owned_reader_ once it is ready
  std::atomic<bool> is_of_use_{false};         // the existing file had at least one sample
  std::atomic<int> missing_{0};                // samples not found while the file had none
  std::unique_ptr<CacheWriter> writer_;
  std::atomic<std::uint64_t> first_position_{kNone};  // first position of the pass that writes the file
  std::atomic<std::uint64_t> first_asked_{kNone};     // first position passed to fetch(), at which later passes begin too
  std::atomic<bool> has_second_pass_{false};
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::mutex mutex_;
  std::set<std::uint64_t> damaged_;  // damaged entries already reported; guarded by mutex_
};

class ImageCache : public Cache {
 public:
  using Cache::Cache;
  static void describe(StageDescription<Params>& description);
};

class EncodedCache : public Cache {
 public:
  using Cache::Cache;
  static void describe(StageDescription<Params>& description);
};

}  // namespace millrace
