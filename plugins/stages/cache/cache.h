#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cache_file.h"
#include "entry.h"
#include "file_claim.h"
#include "memory_store.h"
#include "millrace/stage.h"
#include "millrace/util/sample_cache.h"

namespace millrace {

// Remembers samples as they are when they come to it, so that from the second epoch on neither the source nor the stages before
// it have anything to do. Two stage types: `cache` holds decoded pixels, `cache_encoded` stands between the source and
// decode_image and holds files' bytes.
//
//   flow = ["read", "decode_image", "cache", "augment", "batch", ...]
//   [train.cache]
//   memory = "4 GiB"                   # and / or
//   file   = "cache/cifar10.cache"     # one file, for this run and later ones
//   device = true                      # devices keep the images too
//
// With `device = true` (of `cache`) each device keeps the images in its own memory, from the first time that one comes there:
// from the second epoch on no pixels are copied to a device that has them, and what `memory` or `file` has is neither read nor
// decoded. Several devices share out the samples of each epoch again, so that in time each has all of them. It is a parameter of
// this stage, not of the batch or the run, because where the stage stands says which pixels stay the same. Flips and shifts by
// whole pixels after it are executed on the device, from the record, as ever; a stage after it that changes pixels on the host
// is a mistake; MixUp and CutMix, after `batch`, send the pixels that they mixed. Order, draws and results are the same as
// without. Backend `cpu` reads batches where they lie.
//
// Ports: in, out: ImageChunk (cache) or SampleChunk (cache_encoded).
// Memory fills up to its budget and then stays as it is: under shuffling every sample is as likely to be wanted as any other, so
// nothing is thrown out for another. What does not fit is read as if there were no cache.
// The file is written while the first epoch runs, under a temporary name, and gets its own when every sample is in it or a second
// epoch begins, of which no sample may come here where all are in memory: then at the end. A later run with the same listing
// (sizes and modification times) and the same stages before the cache, of the same versions, reads it instead. Of anything else
// in its place a new one is made. What a file lacks (samples that were bad) is read as ever, and so is what is damaged in it or
// cannot be read of it, which a warning names once: each entry has a checksum. Each cache of a run needs a file of its own: a
// second one is ErrorKind::usage. Of a file that has none of the first samples, as one of another part of the listing, a warning
// says so. Samples are kept by index, with the hash of their encoded bytes: an epoch's stream hash is the same with and without a
// cache. Bad samples are not kept: they are read, and counted, again. Threading: parallel; finding a sample takes no lock, and
// keeping one takes none but when a block of memory is full. Errors: random changes before a cache would be frozen:
// ErrorKind::usage when a sample with draws arrives. Images that do not fit on a device: ErrorKind::usage, from the device. A
// stage after that changes them: ErrorKind::usage, before the run where its SampleTransform::changes_pixels() says so, else from
// `batch`. A file that cannot be used is replaced, with a warning. A disk that is full: ErrorKind::storage.
class Cache : public SampleTransform, public SampleCache {
 public:
  struct Params {
    std::string memory;
    std::string file;
    bool device = false;
  };
  static constexpr const char* kDefaultMemory = "1 GiB";  // where neither is said

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
  std::uint64_t samples_;  // of an epoch; a file is whole when it has so many
  std::uint64_t fingerprint_;
  ImageShape window_;
  bool on_device_;
  const StageSite site_;
  bool is_dry_run() const { return site_.run != nullptr && site_.run->is_dry_run(); }  // whose samples come again
  void note_pass(const SampleKey& key);
  void write(const Sample& sample);
  void count_missing();
  void name_damage(std::uint64_t index);

  std::string path_;
  std::optional<FileClaim> claim_;  // from open() on
  std::unique_ptr<MemoryStore> memory_;
  std::unique_ptr<CacheReader> owned_reader_;
  std::atomic<CacheReader*> reader_{nullptr};  // of owned_reader_, when that is ready
  std::atomic<bool> is_of_use_{false};         // the file that open() found has had a sample
  std::atomic<int> missing_{0};                // samples that it has not had, as long as it had none
  std::unique_ptr<CacheWriter> writer_;
  std::atomic<std::uint64_t> first_position_{kNone};  // of the pass during which the file is written
  std::atomic<std::uint64_t> first_asked_{kNone};     // position that fetch() was called with, where a later pass begins too
  std::atomic<bool> has_second_pass_{false};
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::mutex mutex_;
  std::set<std::uint64_t> damaged_;  // entries of the file that were named; under mutex_
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
