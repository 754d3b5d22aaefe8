// pipeline-data pack: writes the samples of a graph's source as tar shards, for read_tar.
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "counter.h"
#include "data_parts.h"
#include "millrace/error.h"
#include "millrace/util/bytes.h"
#include "millrace/util/paths.h"
#include "millrace/util/standard_error.h"
#include "pack_members.h"
#include "shard_writer.h"
#include "stop_signal.h"
#include "verbs.h"

namespace millrace {
namespace {

constexpr std::uint64_t kBlock = 16;  // samples that a thread makes before its turn to write

struct PackOptions {
  DataSetOptions data;
  std::string out;
  std::uint64_t shard_bytes = 0;
  PackRecipe recipe;
  bool force = false, skip_bad = false;
};

// Assigns blocks of samples to threads, which write in the order of the blocks.
class Packer {
 public:
  Packer(const PackOptions& options, const DataSet& data, ShardWriter& writer)
      : options_(options),
        data_(data),
        line_(data.line()),
        writer_(writer),
        maker_(options.recipe, data.build().data().target, data.registry()),
        counter_("packed", line_.order().listed()) {}

  void run() {
    const std::uint64_t blocks = (line_.order().listed() + kBlock - 1) / kBlock;
    const unsigned threads = options_.data.thread_count();
    std::vector<Sample> samples(threads);
    for_each_sample(blocks, threads, [&](std::uint64_t block, unsigned thread) {
      try {
        pack(block, samples[thread]);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failed_ = true;  // before another thread waits for this block
        turned_.notify_all();
        throw;
      }
    });
  }
  std::uint64_t bad() const { return bad_; }

 private:
  void pack(std::uint64_t block, Sample& sample) {
    std::vector<std::string> made;
    std::vector<std::string> complaints;
    const std::uint64_t end = std::min((block + 1) * kBlock, line_.order().listed());
    for (std::uint64_t at = block * kBlock; at < end && stop_signal == 0; ++at) {
      made.emplace_back();
      if (const std::string cause = make(at, sample, made.back()); !cause.empty()) {
        const std::string text = fmt::format("'{}': {}", sample.place(), cause);
        if (!options_.skip_bad) fail(ErrorKind::content, "{}; --skip-bad leaves such samples out", text);
        made.pop_back();
        complaints.push_back(text);
      }
      counter_.add();
    }
    std::unique_lock lock(mutex_);
    turned_.wait(lock, [&] { return turn_ == block || failed_; });
    if (failed_) return;
    for (const std::string& complaint : complaints) print_to_stderr("left out: {}\n", complaint);
    if (stop_signal == 0) {
      for (const std::string& members : made) writer_.add(members);
    }
    bad_ += complaints.size();
    ++turn_;
    turned_.notify_all();
  }

  // Returns the error of the sample, or "".
  std::string make(std::uint64_t at, Sample& sample, std::string& members) const {
    data_.load({0, at, line_.order().listed(at), 0}, DataLine::Depth::encoded, sample);
    if (sample.fault) return sample.fault->cause;
    try {
      maker_.append(sample, at, members);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::content) throw;
      return error.what();
    }
    return {};
  }

  const PackOptions& options_;
  const DataSet& data_;
  const DataLine& line_;
  ShardWriter& writer_;
  MemberMaker maker_;
  Counter counter_;
  std::mutex mutex_;
  std::condition_variable turned_;
  std::uint64_t turn_ = 0, bad_ = 0;
  bool failed_ = false;
};

void check_classes(const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    if (!name.empty() && name.find_first_of("\r\n") == name.npos) continue;
    fail(ErrorKind::usage, "class '{}' cannot stand on a line of classes.txt: give `classes` other names", name);
  }
}

int pack(const PackOptions& options) {
  install_signal_handlers();
  const DataSet data(options.data, DataSet::Stages::source);
  warn_of_other_parts(data, options.data);
  const std::vector<std::string> classes = data.line().order().classes();
  check_classes(classes);
  if (data.line().source().has_rows()) {
    fail(ErrorKind::usage, "shards hold one row of numbers a sample, and these samples have any number of rows (`join`)");
  }
  ShardWriter writer(options.out, options.shard_bytes, options.force);
  Packer packer(options, data, writer);
  packer.run();
  const std::uint64_t packed = data.line().order().listed() - packer.bad();
  if (stop_signal != 0) {
    print_to_stderr("stopped: '{}' is as it was\n", options.out);
    return 128 + stop_signal;
  }
  if (packed == 0) fail(ErrorKind::data, "not one of {} samples is good", data.line().order().listed());
  writer.finish(classes);
  fmt::print("{} samples of {} classes, {} shard{}, {:.1f} MB in {}{}\n", packed, classes.size(), writer.shards(),
             writer.shards() == 1 ? "" : "s", static_cast<double>(writer.bytes()) / 1e6, options.out,
             packer.bad() > 0 ? fmt::format("; {} bad left out", packer.bad()) : "");
  return 0;
}

}  // namespace

int pack_verb(int count, const char* const* arguments) {
  PackOptions options;
  std::string shard_size = "256MB", short_side, quality;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data pack", "PIPELINE.toml --out DIR [options]",
      "Writes the samples of a graph's source as tar shards, in the order of its listing: 000000123.jpg (or .png),\n"
      ".cls, .json with target numbers, .label.png with class numbers; and classes.txt. Files are copied byte by\n"
      "byte unless resized or encoded again. stage = \"read_tar\" reads them.\n"
      "Unreadable files, and files without the start of a JPEG or PNG file, end it; damage further on is found only\n"
      "by decoding: with --skip-bad, --short-side, --quality, and in label images.");
  options.data.declare(reader);
  options.data.declare_threads(reader);
  reader.option("--out", "DIR", "folder for the shards", options.out)
      .option("--shard-size", "BYTES", "approximate shard size: 512 MiB, 1GB (256MB)", shard_size)
      .option("--short-side", "PIXELS", "shrink images with a longer short side (bicubic; label images: nearest neighbour)",
              short_side)
      .option("--quality", "Q", "encode all images as JPEG of this quality, 1 to 100 (shrunken ones: 90)", quality)
      .flag("--skip-bad", "decode every sample, skip and report bad ones", options.skip_bad)
      .flag("--force", "replace the shards in a folder that is not empty", options.force);
  if (!reader.read(count, arguments, rest)) return 0;
  options.data.file = only_file(rest, "pipeline-data pack");
  if (options.out.empty()) fail(ErrorKind::usage, "expected --out and a folder to write into; see pipeline-data pack --help");
  options.out = local_path("--out", options.out);
  options.recipe.decode = options.skip_bad;
  options.shard_bytes = parse_bytes(shard_size);
  if (options.shard_bytes == 0)
    fail(ErrorKind::usage, "--shard-size: expected a number of bytes such as 256MB, found '{}'", shard_size);
  if (!short_side.empty()) options.recipe.short_side = integer("--short-side", short_side, 1, 1 << 15);
  if (!quality.empty()) options.recipe.quality = integer("--quality", quality, 1, 100);
  options.data.whole = options.data.graph.empty();
  return pack(options);
}

}  // namespace millrace
