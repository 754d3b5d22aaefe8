#include "pack_members.h"

#include <fmt/format.h>
#include <png_file.h>

#include <algorithm>
#include <cmath>

#include "image_bytes.h"
#include "millrace/error.h"
#include "shard_writer.h"

namespace millrace {

namespace {

constexpr int kQuality = 90;

std::shared_ptr<SampleTransform> make_decoder(const Registry& registry, const TargetSpec& target) {
  const StageType* type = registry.stages().find("decode_image");
  if (type == nullptr) fail(ErrorKind::usage, "images cannot be decoded: there is no plugin with the stage decode_image");
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

}  // namespace

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
    return jpeg_bytes(sample.image(), recipe_.quality > 0 ? static_cast<int>(recipe_.quality) : kQuality,
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

}  // namespace millrace
