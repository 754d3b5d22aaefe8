#include "cache.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/bytes.h"

namespace millrace {

namespace {

// The files of all caches in all runs of this process.
struct Claims {
  std::mutex mutex;
  std::map<std::pair<const RunServices*, std::filesystem::path>, std::string> places;  // each cache's place in its pipeline
};

Claims& claims() {
  static Claims all;
  return all;
}

std::filesystem::path place_of(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path : found;
}

std::size_t budget_of(const std::string& text) {
  const std::uint64_t bytes = parse_bytes(text);
  if (bytes == 0)
    fail(ErrorKind::usage, "memory: expected a number of bytes such as \"512 MiB\" or \"4 GB\", found \"{}\"", text);
  return bytes;
}

}  // namespace

FileClaim::FileClaim(const std::filesystem::path& path, const StageSite& site) : path_(place_of(path)), run_(site.run) {
  const std::lock_guard lock(claims().mutex);
  const auto [found, is_new] = claims().places.try_emplace({run_, path_}, fmt::format("[{}.{}]", site.graph, site.name));
  if (is_new) return;
  fail(ErrorKind::usage, "file: '{}' is also used by {}: give each cache its own file", path.string(), found->second);
}

FileClaim::~FileClaim() {
  const std::lock_guard lock(claims().mutex);
  claims().places.erase({run_, path_});
}

void Cache::describe_params(StageDescription<Params>& d) {
  d.params.add("memory", &Params::memory)
      .text("memory limit, such as \"4 GiB\"; default: 1 GiB, or none with a file")
      .may_change();
  d.params.add("file", &Params::file)
      .text("cache file, also for later runs; rewritten when the data or earlier stages change")
      .may_change();
}

void ImageCache::describe(StageDescription<Params>& d) {
  d.name("cache").text("Caches decoded images, in memory or in one file.");
  describe_params(d);
  d.params.add("device", &Params::device)
      .text("also cache images on devices: later epochs copy no pixels; later stages may flip and shift, not recolour");
}

void EncodedCache::describe(StageDescription<Params>& d) {
  d.name("cache_encoded").text("Caches encoded images, in memory or in one file.");
  d.input(payload::kSampleChunk).output(payload::kSampleChunk);
  describe_params(d);
}

Cache::Cache(const Params& params, const DataContext& context)
    : samples_(context.samples_per_epoch),
      fingerprint_(context.fingerprint),
      window_(context.window),
      on_device_(params.device),
      site_(context),
      path_(params.file) {
  if (!params.memory.empty() || path_.empty()) {
    budget_ = budget_of(params.memory.empty() ? kDefaultMemory : params.memory);
    memory_ = std::make_unique<MemoryStore>(budget_);
  }
}

void Cache::open() {
  if (path_.empty() || owned_reader_ || writer_) return;
  if (fingerprint_ == 0) fail(ErrorKind::usage, "file: this source cannot detect changes of its data; use `memory`");
  claim_.emplace(path_, site_);
  std::string why;
  owned_reader_ = CacheReader::open(path_, fingerprint_, why);
  if (!why.empty() && site_.run) site_.run->warn(fmt::format("cache file '{}' is rewritten: {}", path_, why));
  reader_ = owned_reader_.get();
  if (!owned_reader_ && site_.group != nullptr) {  // two epochs, because one may drop samples
    fail(ErrorKind::usage,
         "file '{}' does not exist yet, and several processes would write it: create it with a run of one process and two epochs",
         path_);
  }
  if (!owned_reader_) writer_ = std::make_unique<CacheWriter>(path_, fingerprint_);
}

// Finishes the file although samples are missing: bad ones, or those of a dropped batch, which a second pass did not need.
Cache::~Cache() {
  if (!writer_ || !has_second_pass_) return;
  try {
    writer_->finish();
  } catch (const Error& error) {
    if (site_.run) site_.run->warn(error.what());
  }
}

void Cache::note_pass(const SampleKey& key) {
  if (!writer_ || key.attempt > 0 || is_dry_run()) return;
  std::uint64_t first = kNone;
  if (!first_asked_.compare_exchange_strong(first, key.position) && first == key.position) has_second_pass_ = true;
}

bool Cache::fetch(Sample& sample) {
  note_pass(sample.key);
  if (const CacheReader* reader = reader_.load(std::memory_order_acquire)) {
    const CacheReader::Found found = reader->find(sample.key.index);
    if (read_entry(found.entry, sample)) {
      if (!is_of_use_.load(std::memory_order_relaxed)) is_of_use_ = true;
      return true;
    }
    if (found.is_damaged) name_damage(sample.key.index);
  }
  return memory_ && read_entry(memory_->find(sample.key.index), sample);
}

// The sample's file is unknown before the source has read it.
void Cache::name_damage(std::uint64_t index) {
  constexpr std::size_t kMax = 5;
  const std::lock_guard lock(mutex_);
  if (!site_.run || damaged_.size() > kMax || !damaged_.insert(index).second) return;
  site_.run->warn(
      damaged_.size() > kMax
          ? fmt::format("cache file '{}': further images are damaged; remove the file, and check its disk", path_)
          : fmt::format("cache file '{}': the image of sample {} is damaged, and is read again from its source", path_, index));
}

// Happens if two graphs read different parts of a listing into the same file: the one that ends last overwrites it.
void Cache::count_missing() {
  constexpr int kEnough = 32;
  if (writer_ || !owned_reader_ || site_.run == nullptr || is_of_use_ || ++missing_ != kEnough) return;
  site_.run->warn(
      fmt::format("cache file '{}' has none of the first {} images: it was written by another graph, or for another part of the "
                  "data, and cannot be used here; give each graph its own file, or remove this one",
                  path_, kEnough));
}

void Cache::process(Sample& sample, Draw&) {
  if (sample.hash != sample.first_hash) {
    fail(ErrorKind::usage,
         "a stage before the cache changes images at random, which would be the same change in every epoch: move the cache "
         "before it");
  }
  if (sample.image().data == nullptr && !sample.decoded.is_plain()) {  // entries lack the data to make it again
    fail(ErrorKind::usage,
         "the source returns {} pixels, but only 8-bit images of one frame can be cached: remove the cache from flow",
         to_string(sample.decoded));
  }
  count_missing();
  if (sample.image().data != nullptr) execute_pending(sample, window_);  // entries hold pixels but no record
  if (memory_ && !memory_->full() && !memory_->has(sample.key.index)) {
    if (std::uint8_t* place = memory_->reserve(entry_bytes(sample))) {
      write_entry(sample, place);
      memory_->keep(sample.key.index, place);
    }
  }
  // A rehearsal's repeated samples would look like a second pass, which ends the writing.
  if (writer_ && !is_dry_run() && !reader_.load(std::memory_order_relaxed)) write(sample);
}

void Cache::write(const Sample& sample) {
  const bool is_replacement = sample.key.attempt > 0;  // its original may be bad in each pass
  std::uint64_t first = kNone;
  const bool begins = !is_replacement && first_position_.compare_exchange_strong(first, sample.key.position);
  const bool second_pass = !begins && !is_replacement && first == sample.key.position;
  if (!second_pass && writer_->write(sample) < samples_) return;
  if (!writer_->finish()) return;  // another thread finishes it
  std::string why;
  owned_reader_ = CacheReader::open(path_, fingerprint_, why);
  if (!why.empty() && site_.run) site_.run->warn(fmt::format("cache file '{}' is not used in this run: {}", path_, why));
  reader_.store(owned_reader_.get(), std::memory_order_release);
}

std::size_t Cache::memory_bound() const { return memory_ ? budget_ : 0; }

}  // namespace millrace

MILLRACE_PLUGIN("cache", "1.0", "Samples cached in memory or in one file.") {
  registry.add_stage<millrace::ImageCache>();
  registry.add_stage<millrace::EncodedCache>();
}
