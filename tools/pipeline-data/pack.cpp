// pipeline-data pack: writes the samples of a graph's source as tar shards, for read_tar.
#include <fmt/format.h>
#include <png_file.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "counter.h"
#include "data_parts.h"
#include "image_bytes.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/bytes.h"
#include "millrace/util/image_facts.h"
#include "millrace/util/paths.h"
#include "millrace/util/resample.h"
#include "millrace/util/standard_error.h"
#include "shard_writer.h"
#include "stop_signal.h"
#include "verbs.h"

namespace millrace {

namespace {

struct PackRecipe {
  std::int64_t short_side = 0;  // images with a longer shorter side are resized to it; 0: no resizing
  std::int64_t quality = 0;     // JPEG quality; 0: files are unchanged unless resized, then 90
  bool decode = false;          // decodes every image and target, to find broken ones, even if files are unchanged
};

// Members of a sample's archive. A file is copied byte by byte if it may stay unchanged; pixels without a file become PNG. Label
// images are decoded, so that their values are class numbers, and become PNG.
class MemberMaker {
 public:
  // `target`: the source's. Decodes with the stage "decode_image", which is looked up in the registry if needed.
  MemberMaker(const PackRecipe& recipe, const TargetSpec& target, const Registry& registry);

  // Appends the members of `sample`, as received from its source, under the name "000000123" for number 123. Called on many
  // threads, each with its own sample. ErrorKind::content if it is not an image.
  void append(Sample& sample, std::uint64_t number, std::string& archive) const;

 private:
  bool has_classes() const { return target_.kind == TargetSpec::Kind::classes; }
  bool decode(Sample& sample) const;  // true when it was resized
  ImageFacts::Origin origin_of(const Sample& sample) const;
  // `origin`: of an image that has changed.
  std::string image_member(Sample& sample, const ImageFacts::Origin* origin, std::string& extension) const;

  PackRecipe recipe_;
  TargetSpec target_;
  std::shared_ptr<SampleTransform> decoder_;  // null if nothing is to be decoded
};

constexpr int kPackedQuality = 90;

std::shared_ptr<SampleTransform> make_decoder(const Registry& registry, const TargetSpec& target) {
  const StageType* type = registry.stages().find("decode_image");
  if (type == nullptr) fail(ErrorKind::usage, "images cannot be decoded: no plugin provides the stage decode_image");
  StepContext context;
  context.graph = "pack";
  context.name = "decode_image";
  context.target = target;
  context.registry = &registry;
  Diagnostics errors;
  const std::shared_ptr<Stage> stage = type->create(Value(), context, errors);
  errors.throw_if_any();
  stage->open();
  return std::dynamic_pointer_cast<SampleTransform>(stage);
}

// The shape scaled to this shorter side.
ImageShape shrunk(ImageShape shape, std::int64_t short_side) {
  const double factor = static_cast<double>(short_side) / std::min(shape.height, shape.width);
  const auto scaled = [&](std::int32_t extent) { return std::max(1, static_cast<std::int32_t>(std::lround(factor * extent))); };
  return {scaled(shape.height), scaled(shape.width), shape.channels};
}

void shrink(Sample& sample, std::int64_t short_side, ResampleFilter of_target) {
  thread_local Resampler resampler;
  const auto resize = [&](const ImageView& from, ResampleFilter filter, const Image& to) {
    const Box whole{0, 0, static_cast<float>(from.shape.width), static_cast<float>(from.shape.height)};
    resampler.resize(rows_of(from), whole, filter, to.shape, to.data);
  };
  const ImageShape to = shrunk(sample.image().shape, short_side);
  if (sample.target().data != nullptr) {
    const Image target = sample.new_target(sample.target_spec().shape(to));
    resize(sample.target(), of_target, target);
    sample.set_target(target);
  }
  const Image image = sample.new_image(to);
  resize(sample.image(), ResampleFilter::bicubic, image);
  sample.set_image(image);
}

std::string_view text(const ByteBuffer& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

MemberMaker::MemberMaker(const PackRecipe& recipe, const TargetSpec& target, const Registry& registry)
    : recipe_(recipe), target_(target) {
  if (recipe_.short_side > 0 || recipe_.quality > 0 || recipe_.decode || has_classes())
    decoder_ = make_decoder(registry, target_);
}

bool MemberMaker::decode(Sample& sample) const {
  Draw none(0, sample.key, 0);
  decoder_->process(sample, none);
  const ImageShape shape = sample.image().shape;
  if (recipe_.short_side == 0 || std::min(shape.height, shape.width) <= recipe_.short_side) return false;
  shrink(sample, recipe_.short_side, has_classes() ? ResampleFilter::nearest : ResampleFilter::bicubic);
  return true;
}

// REQUIRES: the sample is as its source gave it. What has been packed before keeps its first origin.
ImageFacts::Origin MemberMaker::origin_of(const Sample& sample) const {
  const auto* const decoder = dynamic_cast<const KnowsImageFacts*>(decoder_.get());
  if (decoder == nullptr) return {};
  const ImageFacts facts = decoder->facts(sample);
  return facts.origin.height > 0 ? facts.origin : ImageFacts::Origin{facts.height, facts.width, facts.channels, facts.bits};
}

std::string MemberMaker::image_member(Sample& sample, const ImageFacts::Origin* origin, std::string& extension) const {
  extension = "jpg";
  if (origin != nullptr)
    return jpeg_bytes(sample.image(), recipe_.quality > 0 ? static_cast<int>(recipe_.quality) : kPackedQuality,
                      origin_comment(*origin));
  extension = "png";
  if (sample.decoded.is_static()) return png_bytes({sample.encoded.data(), sample.decoded});
  extension = image_extension(sample.encoded);
  if (extension.empty()) fail(ErrorKind::content, "this is neither a JPEG nor a PNG file");
  return std::string(text(sample.encoded));
}

void MemberMaker::append(Sample& sample, std::uint64_t number, std::string& archive) const {
  const bool may_change = recipe_.short_side > 0 || recipe_.quality > 0;
  const ImageFacts::Origin origin = may_change ? origin_of(sample) : ImageFacts::Origin();
  const bool resized = decoder_ && decode(sample);
  std::string extension;
  const std::string image = image_member(sample, resized || recipe_.quality > 0 ? &origin : nullptr, extension);
  const std::string key = fmt::format("{:09}", number);  // members in the order of their names
  if (sample.label >= 0) append_member(archive, key + ".cls", std::to_string(sample.label));
  append_member(archive, key + "." + extension, image);
  if (!sample.numbers.empty())
    append_member(archive, key + ".json", fmt::format("{{\"numbers\": [{}]}}", fmt::join(sample.numbers, ", ")));
  if (has_classes()) {
    append_member(archive, key + ".label.png", png_bytes(sample.target()));
  } else if (sample.encoded_target.size() > 0) {
    const std::string_view kind = resized ? "png" : image_extension(sample.encoded_target);
    if (kind.empty()) fail(ErrorKind::content, "its target is neither a JPEG nor a PNG file");
    append_member(archive, fmt::format("{}.target.{}", key, kind),
                  resized ? png_bytes(sample.target()) : std::string(text(sample.encoded_target)));
  }
}

constexpr std::uint64_t kSamplesAtOnce = 16;  // samples that a thread makes before its turn to write

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
    const std::uint64_t blocks = (line_.order().listed() + kSamplesAtOnce - 1) / kSamplesAtOnce;
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
    const std::uint64_t end = std::min((block + 1) * kSamplesAtOnce, line_.order().listed());
    for (std::uint64_t at = block * kSamplesAtOnce; at < end && stop_signal == 0; ++at) {
      made.emplace_back();
      if (const std::string cause = make(at, sample, made.back()); !cause.empty()) {
        const std::string text = fmt::format("'{}': {}", sample.place(), cause);
        if (!options_.skip_bad) fail(ErrorKind::content, "{}; --skip-bad skips such samples", text);
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
    fail(ErrorKind::usage, "class '{}' cannot be a line of classes.txt: give `classes` other names", name);
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
    print_to_stderr("stopped: '{}' is unchanged\n", options.out);
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
