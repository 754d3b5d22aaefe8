#include "mix_images.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/util/centre.h"

namespace millrace {

namespace {

// Uses the logarithm because variates of a small alpha are too small for a double.
double draw_log_gamma(Draw& draw, double alpha) {
  if (alpha < 1) return draw_log_gamma(draw, alpha + 1) + std::log(1 - draw.uniform()) / alpha;
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draw.normal(), root = 1 + c * x, v = root * root * root;
    if (root <= 0) continue;
    if (std::log(1 - draw.uniform()) < 0.5 * x * x + d * (1 - v + std::log(v))) return std::log(d * v);
  }
}

void describe_rule(ParamSet<MixImages::Rule>& set) {
  set.add("chance", &MixImages::Rule::chance).range(0, 1).text("probability per batch");
  set.add("alpha", &MixImages::Rule::alpha)
      .range(0.001, 1000)
      .text("alpha of the shares' beta distribution: 1 is uniform, less favours extremes");
}

struct Box {
  int top = 0, left = 0, height = 0, width = 0;
};

// A box that covers 1 - share of the window if it lies wholly within; its middle is drawn, and it is clipped at the edges.
Box draw_box(Draw& draw, ImageShape window, double share) {
  const double side = std::sqrt(1 - share);
  const auto middle_y = static_cast<int>(draw.integer(0, window.height - 1));
  const auto middle_x = static_cast<int>(draw.integer(0, window.width - 1));
  const auto span = [](int middle, int length, int extent) {
    const int begin = std::max(middle - length / 2, 0);
    return std::pair(begin, std::min(middle - length / 2 + length, extent) - begin);
  };
  const auto [top, height] = span(middle_y, static_cast<int>(std::lround(side * window.height)), window.height);
  const auto [left, width] = span(middle_x, static_cast<int>(std::lround(side * window.width)), window.width);
  return {top, left, height, width};
}

// image = (own * image + (256 - own) * other) / 256, rounded.
void blend(std::uint8_t* image, const std::uint8_t* other, std::size_t bytes, int own) {
  const auto mine = static_cast<std::uint16_t>(own), theirs = static_cast<std::uint16_t>(256 - own);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto sum = static_cast<std::uint16_t>(image[i] * mine + other[i] * theirs + 128);
    image[i] = static_cast<std::uint8_t>(sum >> 8);
  }
}

// Copies the box's pixels from the other image. Both images have this shape.
void paste(std::uint8_t* image, const std::uint8_t* other, ImageShape shape, const Box& box) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t stride = static_cast<std::size_t>(shape.width) * channels;
  std::size_t at = static_cast<std::size_t>(box.top) * stride + static_cast<std::size_t>(box.left) * channels;
  for (int row = 0; row < box.height; ++row, at += stride) {
    std::memcpy(image + at, other + at, static_cast<std::size_t>(box.width) * channels);
  }
}

}  // namespace

void execute_records(Batch& batch) {
  thread_local std::vector<std::uint8_t> moved;
  const std::size_t bytes = batch.image.bytes();
  moved.resize(bytes);
  const int right = centred(batch.image.width, batch.window.width), down = centred(batch.image.height, batch.window.height);
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    AugmentationRecord record = batch.records[slot];
    // From the window's first pixel to the image's.
    record.x = static_cast<std::int16_t>(record.x - record.step_x * right);
    record.y = static_cast<std::int16_t>(record.y - record.step_y * down);
    std::uint8_t* const pixels = batch.change_pixels() + slot * bytes;
    if (!record.is_identity()) {
      apply_record(record, {pixels, batch.image}, batch.image, moved.data());
      std::memcpy(pixels, moved.data(), bytes);
    }
    batch.records[slot] = AugmentationRecord{.x = static_cast<std::int16_t>(right),
                                             .y = static_cast<std::int16_t>(down),
                                             .noise = record.noise,
                                             .noise_seed = record.noise_seed};
  }
}

double draw_beta(Draw& draw, double alpha) {
  const double first = draw_log_gamma(draw, alpha), second = draw_log_gamma(draw, alpha);
  return 1 / (1 + std::exp(second - first));
}

void MixImages::describe(StageDescription<Params>& d) {
  d.name("mix_images").text("Mixes the images of a batch, and their labels.");
  d.input(payload::kBatch).output(payload::kBatch);
  d.params.add_table("mixup", &Params::mixup, describe_rule).text("blends two images");
  d.params.add_table("cutmix", &Params::cutmix, describe_rule).text("pastes a rectangle of another image");
}

MixImages::MixImages(const Params& params, const DataContext& context)
    : seed_(context.seed), name_hash_(hash_text(context.name)) {
  if (!params.mixup && !params.cutmix) fail(ErrorKind::usage, "how to mix: expected 'mixup', 'cutmix' or both, found neither");
  if (params.mixup) mixup_ = *params.mixup;
  if (params.cutmix) cutmix_ = *params.cutmix;
  if (mixup_.chance + cutmix_.chance > 1 + 1e-9) {
    fail(ErrorKind::usage, "mixup.chance and cutmix.chance: a batch is mixed one way, expected at most 1 in all, found {} and {}",
         mixup_.chance, cutmix_.chance);
  }
  if (context.group != nullptr) {
    fail(ErrorKind::usage, "pairs are drawn from the whole batch, but each process has only a part of it: run one process");
  }
  if (context.target.kind != TargetSpec::Kind::none) {
    fail(ErrorKind::usage, "mixing needs labels, but images of [{}] have targets: remove the stage from flow", context.graph);
  }
}

void MixImages::process(Batch& batch, const Packet& packet, Output& output) {
  if (batch.numbers_per_sample > 0) fail(ErrorKind::usage, "mixing needs labels, but these images have numbers to predict");
  if (batch.count > 1) mix(batch);
  output.emit(0, packet);
}

void MixImages::mix(Batch& batch) const {
  thread_local std::vector<std::uint8_t> first;
  Draw draw(seed_, {batch.epoch, batch.step, 0, 0}, name_hash_);
  const double which = draw.uniform();
  const auto shift = static_cast<std::uint32_t>(draw.integer(1, batch.count - 1));
  const bool by_blending = which < mixup_.chance;
  const bool mixes = by_blending || which < mixup_.chance + cutmix_.chance;
  if (mixes) {
    double share = draw_beta(draw, by_blending ? mixup_.alpha : cutmix_.alpha);
    const auto own = static_cast<int>(std::lround(256 * share));
    Box box;
    if (by_blending) {
      share = own / 256.0;
    } else {
      box = draw_box(draw, batch.window, share);
      share = 1 - static_cast<double>(box.height) * box.width / (static_cast<double>(batch.window.height) * batch.window.width);
      box.top += centred(batch.image.height, batch.window.height);
      box.left += centred(batch.image.width, batch.window.width);
    }
    const std::size_t bytes = batch.image.bytes();
    execute_records(batch);
    first.resize(bytes);
    for_each_pair(batch, shift, first.data(), [&](std::uint32_t slot, std::uint32_t partner, const std::uint8_t* other) {
      std::uint8_t* const image = batch.change_pixels() + slot * bytes;
      by_blending ? blend(image, other, bytes, own) : paste(image, other, batch.image, box);
      batch.second_labels[slot] = batch.labels[partner];
      batch.shares[slot] = static_cast<float>(share);
    });
  }
  batch.stream_hash += combine(draw.hash(), batch.step);
}

}  // namespace millrace

MILLRACE_PLUGIN("mix_images", "1.0", "MixUp and CutMix.") { registry.add_stage<millrace::MixImages>(); }
