#include "stages/seen_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/stage.h"
#include "millrace/util/sample_cache.h"
#include "sampling/sample_order.h"

namespace millrace {
namespace {

constexpr double kUsualMargin = 8.0 / 7;  // 256 for a middle of 224
constexpr std::uint64_t kLookedAt = 4;    // images
constexpr double kOtherSize = 1.5;        // minimum ratio; evaluating at 1.15 and 1.3 times the training size is usual

const StagePlan* batcher_plan(const GraphBuild& build) {
  const auto found = std::ranges::find_if(build.plan().stages,
                                          [](const StagePlan& stage) { return stage.type->role == StageType::Role::batcher; });
  return found == build.plan().stages.end() ? nullptr : &*found;
}

// The last stage before the batch that sets a size, or else the batch.
const StagePlan* sizing_plan(const GraphBuild& build) {
  const StagePlan* last = nullptr;
  for (const StagePlan& stage : build.plan().stages) {
    if (&stage == batcher_plan(build)) return last != nullptr ? last : &stage;
    if (stage.table.find("size") != nullptr) last = &stage;
  }
  return nullptr;
}

// Whether the stage changes single samples, at random or not.
bool is_transform(const GraphBuild& build, std::size_t index, bool random) {
  if (build.stages()[index].empty()) return false;
  const auto* transform = dynamic_cast<const SampleTransform*>(build.stages()[index].front().get());
  return transform != nullptr && transform->is_random() == random;
}

// A number, or the larger one of [height, width].
std::optional<double> pixels_of_value(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->number();
  if (value->kind() != Value::Kind::array || value->array().size() != 2) return std::nullopt;
  const Array& both = value->array();
  if (!both[0].is_number() || !both[1].is_number()) return std::nullopt;
  return std::max(both[0].number(), both[1].number());
}

struct OtherSize {
  std::string key;
  const StagePlan *trained, *other;
  double of_trained, of_other;
};

std::optional<OtherSize> first_other_size(const StagePlan& trained, const StagePlan& other) {
  for (const ParamInfo& parameter : trained.type->params) {
    if (parameter.unit != "pixels") continue;
    const auto before = pixels_of_value(trained.table.find(parameter.name)),
               now = pixels_of_value(other.table.find(parameter.name));
    if (!before || !now || std::min(*before, *now) < 1) continue;
    if (std::max(*before, *now) >= kOtherSize * std::min(*before, *now))
      return OtherSize{parameter.name, &trained, &other, *before, *now};
  }
  return std::nullopt;
}

// Rows or columns of input per output of the layer.
std::int64_t stride_of(const Layer& layer) {
  if (layer.op == "conv") return std::max(layer.as<ConvAttributes>().stride.height, layer.as<ConvAttributes>().stride.width);
  const bool pools = layer.op == "max_pool" || layer.op == "average_pool";
  return pools ? std::max(layer.as<PoolAttributes>().stride.height, layer.as<PoolAttributes>().stride.width) : 1;
}

}  // namespace

std::string warning_of_single_places(const GraphBuild& training, const Network& network) {
  const StagePlan* const sizing = sizing_plan(training);
  if (sizing == nullptr) return {};
  std::vector<std::int64_t> pixels;  // by layer: rows of the network's input per output row
  const Layer* first = nullptr;
  std::int64_t least = 0;
  for (const Layer& layer : network.layers) {
    std::int64_t before = 1;
    for (const LayerPort& input : layer.inputs) {
      if (input.layer != Network::kInput) before = std::max(before, pixels[static_cast<std::size_t>(input.layer)]);
    }
    pixels.push_back(before * stride_of(layer));
    const Shape& maps = layer.input_shapes.front();
    const bool is_single = maps.rank() == 3 && maps[1] == 1 && maps[2] == 1;
    if (!is_single || layer.op != "conv" || stride_of(layer) == 1 || layer.as<ConvAttributes>().kernel.height == 1) continue;
    if (first == nullptr) first = &layer;
    least = std::max(least, before + 1);
  }
  if (first == nullptr) return {};
  return fmt::format(
      "{}: images of {} x {} are too small for network '{}': from layer '{}' on its maps are 1 x 1, and its kernels cover little "
      "but the padding around them. It needs images of at least {} x {}; `size` of decode_image makes them larger",
      place_of(*sizing, training.plan()), network.input.height, network.input.width, network.name, first->name, least, least);
}

std::string warning_of_window(const GraphBuild& build, const ImageShape& window) {
  const ImageShape& image = build.data().image;
  const StagePlan* const sizing = sizing_plan(build);
  if (sizing == nullptr || !image.is_static() || !window.is_static()) return {};
  const double seen = static_cast<double>(window.height) * window.width / (static_cast<double>(image.height) * image.width);
  if (seen >= 0.5) return {};
  return fmt::format(
      "{}: images of {} x {} arrive, but the network takes {} x {} from their middle, {:.0f} % of them: make them smaller, as "
      "decode_image does with size = [{}, {}] and fit = \"exact\" or short_side and crop",
      place_of(*sizing, build.plan()), image.height, image.width, window.height, window.width, 100 * seen, window.height,
      window.width);
}

std::string warning_of_small_middle(const GraphBuild& build) {
  for (const StagePlan& stage : build.plan().stages) {
    const Value *const side = stage.table.find("short_side"), *const size = stage.table.find("size");
    const bool is_cut = side != nullptr && side->is_number() && size != nullptr && size->kind() == Value::Kind::array &&
                        size->array().size() == 2 && size->array()[0].is_number() && size->array()[1].is_number();
    if (!is_cut) continue;
    const double shorter = side->number(), height = size->array()[0].number(), width = size->array()[1].number();
    const double seen = height * width / (shorter * shorter);  // at most: the image is longer in the other direction
    if (shorter <= 0 || seen >= 0.5) continue;
    return fmt::format(
        "{}: images are made {:g} pixels high or wide and {:g} x {:g} are cut from their middle, so the network sees at most "
        "{:.2g} % of each: things have another size than in training; a short_side of {:.0f} is usual for this size",
        place_of(stage, build.plan()), shorter, height, width, 100 * seen, kUsualMargin * std::max(height, width));
  }
  return {};
}

std::string warning_of_seen_part(const GraphBuild& build, const ImageShape& window, std::uint64_t seed) {
  const GraphData& data = build.data();
  const StagePlan* const sizing = sizing_plan(build);
  if (data.source == nullptr || sizing == nullptr || !window.is_static() || data.target.kind == TargetSpec::Kind::image)
    return {};
  const SampleOrder order(*data.source, seed);
  std::vector<double> seen;
  Sample sample;
  for (std::uint64_t at = 0; at < std::min(kLookedAt, order.listed()); ++at) {
    try {
      sample.reset({0, at, order.listed(at), 0}, {}, data.target);
      data.source->read(sample);
      for (std::size_t s = 0; s < build.stages().size() && !build.stages()[s].empty(); ++s) {
        auto* const transform = dynamic_cast<SampleTransform*>(build.stages()[s].front().get());
        if (transform == nullptr || dynamic_cast<SampleCache*>(transform) != nullptr) continue;
        Draw draw(seed, sample.key, 0);
        transform->process(sample, draw);
      }
    } catch (const Error&) {
      continue;  // bad samples are reported later
    }
    const SourceMap map = seen_source(sample, window);
    if (!map.is_known()) return {};
    const double pixels = std::abs(map.map.determinant()) * window.height * window.width;
    seen.push_back(pixels / (static_cast<double>(map.height) * map.width));
  }
  if (seen.empty() || *std::ranges::max_element(seen) >= 0.5) return {};
  return fmt::format(
      "{}: the network sees {:.2g} % of the first image, and less than half of each that was checked: make them smaller before "
      "`crop`, as decode_image does with short_side, or with size and fit = \"exact\"",
      place_of(*sizing, build.plan()), 100 * seen.front());
}

std::string warning_of_other_size(const GraphBuild& training, const GraphBuild& other) {
  for (std::size_t t = 0; t < training.stages().size(); ++t) {
    for (std::size_t o = 0; o < other.stages().size(); ++o) {
      const StagePlan &trained = training.plan().stages[t], &here = other.plan().stages[o];
      if (trained.type != here.type || !is_transform(training, t, false) || !is_transform(other, o, false)) continue;
      const auto found = first_other_size(trained, here);
      if (!found) continue;
      return fmt::format(
          "{}: {} is {:g} here and {:g} in [{}.{}], so things have another size than the network has learned: set the same in "
          "both, unless it is intended",
          place_of(here, other.plan()), found->key, found->of_other, found->of_trained, training.plan().name, trained.name);
    }
  }
  return {};
}

std::string warning_of_random_validation(const GraphBuild& training, const GraphBuild& other) {
  if (other.data().target.kind == TargetSpec::Kind::image) return {};
  for (std::size_t o = 0; o < other.stages().size(); ++o) {
    const StagePlan& here = other.plan().stages[o];
    if (!is_transform(other, o, true)) continue;
    for (std::size_t t = 0; t < training.stages().size(); ++t) {
      if (training.plan().stages[t].type != here.type || !is_transform(training, t, true)) continue;
      return fmt::format(
          "{}: it changes images at random, as in training, so figures differ from pass to pass, and are lower: remove '{}' from "
          "the flow of [{}]",
          place_of(here, other.plan()), here.name, other.plan().name);
    }
  }
  return {};
}

}  // namespace millrace
