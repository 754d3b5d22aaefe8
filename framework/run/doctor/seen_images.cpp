// Images that the network probably sees differently from what was intended: cropped to a small centre, in validation at another
// size than in training, or changed at random there.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "millrace/error.h"
#include "millrace/stage.h"
#include "prepare/data_line.h"
#include "run/doctor/doctor.h"
#include "util/out_of_memory.h"

namespace millrace {
namespace {

constexpr double kUsualMargin = 8.0 / 7;  // 256 for a middle of 224
constexpr std::uint64_t kLookedAt = 4;    // images
constexpr double kOtherSize = 1.5;        // minimum ratio; evaluating at 1.15 and 1.3 times the training size is usual

// The last stage before the batch that sets a size, or else the batch.
const StagePlan* sizing_plan(const GraphBuild& build) {
  const StagePlan* last = nullptr;
  for (const StagePlan& stage : build.plan().stages) {
    if (&stage == build.data().batcher) return last != nullptr ? last : &stage;
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

// Rows or columns of input per output of the layer.
std::int64_t stride_of(const Layer& layer) {
  if (layer.op == "conv") return std::max(layer.as<ConvAttributes>().stride.height, layer.as<ConvAttributes>().stride.width);
  const bool pools = layer.op == "max_pool" || layer.op == "average_pool";
  return pools ? std::max(layer.as<PoolAttributes>().stride.height, layer.as<PoolAttributes>().stride.width) : 1;
}

// Images so small that a layer of the network halves 1 x 1 maps, so that later layers see mostly padding.
std::string single_places(const GraphBuild& training, const Network& network) {
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

// Images of which the network sees less than half, since it crops them to their centre. "" if their sizes vary.
std::string small_window(const GraphBuild& build, const ImageShape& window) {
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

// The same for a stage that resizes images to `short_side` and crops `size` from their centre.
std::string small_middle(const GraphBuild& build) {
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

// The same from the first images of a graph, whatever its stages do, including a plain centre crop. Also "" if the visible part
// is unknown, or targets are images, where crops may be intended.
std::string seen_part(const GraphBuild& build, const ImageShape& window, std::uint64_t seed) {
  const StagePlan* const sizing = sizing_plan(build);
  if (build.data().source == nullptr || sizing == nullptr || !window.is_static()) return {};
  if (build.data().target.kind == TargetSpec::Kind::image) return {};
  const DataLine line(build, seed);
  std::vector<double> seen;
  Sample sample;
  for (std::uint64_t at = 0; at < std::min(kLookedAt, line.order().listed()); ++at) {
    try {
      line.load({0, at, line.order().listed(at), 0}, DataLine::Depth::decoded, sample);
    } catch (const Error& error) {
      if (lacks_memory(error)) throw;
      continue;
    }
    if (sample.fault) continue;  // bad samples are reported later
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

// Different image sizes in training and validation, so that objects differ in size. "" if they are similar, vary or are drawn.
std::string other_size(const GraphBuild& training, const GraphBuild& other) {
  for (std::size_t t = 0; t < training.stages().size(); ++t) {
    for (std::size_t o = 0; o < other.stages().size(); ++o) {
      const StagePlan &trained = training.plan().stages[t], &here = other.plan().stages[o];
      if (trained.type != here.type || !is_transform(training, t, false) || !is_transform(other, o, false)) continue;
      for (const ParamInfo& key : trained.type->params) {
        if (key.unit != "pixels") continue;
        const auto before = pixels_of_value(trained.table.find(key.name)), now = pixels_of_value(here.table.find(key.name));
        if (!before || !now || std::min(*before, *now) < 1) continue;
        if (std::max(*before, *now) < kOtherSize * std::min(*before, *now)) continue;
        return fmt::format(
            "{}: {} is {:g} here and {:g} in [{}.{}], so things have another size than the network has learned: set the same in "
            "both, unless it is intended",
            place_of(here, other.plan()), key.name, *now, *before, training.plan().name, trained.name);
      }
    }
  }
  return {};
}

// Validation that changes images at random as training does, so that metrics differ between passes. "" if targets are images,
// where noise may be the task.
std::string random_validation(const GraphBuild& training, const GraphBuild& other) {
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

// The size that the network sees in a graph other than the main one, without reading an image.
std::string shown_size(const PreparedRun& run, const GraphBuild& build) {
  const GraphBuild& main = run.main();
  std::string size = other_size(main, build);
  if (size.empty() && build.data().image != main.data().image) size = small_window(build, run.pipeline.network->input);
  return size.empty() ? small_middle(build) : size;
}

}  // namespace

void check_image_sizes(const PreparedRun& run, const Doubt& doubt) {
  if (!is_training(run)) return;
  doubt(small_window(run.main(), run.pipeline.network->input));
  doubt(single_places(run.main(), *run.pipeline.network));
  for (const auto& build : run.builds) {
    if (!is_measured(run, *build)) continue;
    doubt(random_validation(run.main(), *build));
    doubt(shown_size(run, *build));
  }
}

void check_seen_part(const PreparedRun& run, const Doubt& doubt) {
  for (const auto& build : run.builds) {
    if (is_measured(run, *build) && shown_size(run, *build).empty())
      doubt(seen_part(*build, run.pipeline.network->input, static_cast<std::uint64_t>(run.pipeline.run.seed)));
  }
}

}  // namespace millrace
