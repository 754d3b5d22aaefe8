#include "write_grad_cam.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/backend/fusion.h"
#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/plugin.h"

namespace millrace {

namespace {

// Dark red for 1, yellow for 0.625, blue for 0.125, as in the colour map "jet".
std::array<double, 3> heat_colour(double heat) {
  const auto ramp = [heat](double middle) { return 255 * std::clamp(1.5 - std::abs(4 * heat - middle), 0.0, 1.0); };
  return {ramp(3), ramp(2), ramp(1)};
}

// Blends colours over a picture, (height, width, 3): with weight opacity * h at a place of heat h. A heat is a value of the map
// over the map's largest. `to_map`: from pixels of the picture to pixels of the map.
void lay_heat_over(const HeatMap& map, const AffineMap& to_map, double opacity, int height, int width,
                   std::span<std::uint8_t> picture) {
  const auto largest = static_cast<double>(*std::max_element(map.values.begin(), map.values.end()));
  if (!(largest > 0) || !std::isfinite(largest)) return;
  std::size_t next = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, next += 3) {
      const double column = to_map.xx * x + to_map.xy * y + to_map.x0, row = to_map.yx * x + to_map.yy * y + to_map.y0;
      const double heat = static_cast<double>(value_at(map, column, row)) / largest, share = opacity * heat;
      const std::array<double, 3> colour = heat_colour(heat);
      for (std::size_t c = 0; c < 3; ++c) {
        std::uint8_t& value = picture[next + c];
        value = static_cast<std::uint8_t>(std::lround(share * colour[c] + (1 - share) * value));
      }
    }
  }
}

// The default features: the output of the last layer whose map is as large as the last convolution's, among layers that the
// network's result depends on. Throws Error(usage) for a network without such a convolution.
LayerPort default_features(const Network& network) {
  const std::vector<bool> leads = layers_for(network, {});
  const Layer* convolution = nullptr;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (leads[i] && layer.op == "conv" && layer.output[1] * layer.output[2] > 1) convolution = &layer;
  }
  if (convolution == nullptr) {
    fail(ErrorKind::usage, "features: network '{}' has no convolution whose output is larger than one pixel: name a layer",
         network.name);
  }
  const auto is_as_large = [&](std::size_t i) {
    const Shape& shape = network.layers[i].output;
    return leads[i] && shape.rank() == 3 && shape[1] == convolution->output[1] && shape[2] == convolution->output[2];
  };
  std::size_t last = network.layers.size() - 1;
  while (!is_as_large(last)) --last;
  return static_cast<int>(last);
}

LayerPort features_of(const WriteGradCam::Params& params, const StageSite& site) {
  const Network& network = *site.network;
  if (params.features.empty()) return default_features(network);
  const LayerPort features = find_output(site, "features", params.features);
  const Shape& shape = network.shape_of(features);
  if (shape.rank() != 3) {
    fail(ErrorKind::usage, "features: the output of layer '{}' has shape {}: Grad-CAM takes maps, C x H x W", params.features,
         to_string(shape));
  }
  if (!layers_for(network, {})[static_cast<std::size_t>(features.layer)]) {
    fail(ErrorKind::usage, "features: the network's result does not depend on layer '{}'", params.features);
  }
  return features;
}

int class_of(const WriteGradCam::Params& params, const DataContext& context) {
  if (params.classes == "predicted") return ScoreGradient::kPredicted;
  if (params.classes == "label") return ScoreGradient::kLabel;
  const std::vector<std::string>& names = context.classes;
  const auto found = std::find(names.begin(), names.end(), params.classes);
  if (found != names.end() && found - names.begin() < context.network->output()[0])
    return static_cast<int>(found - names.begin());
  const auto near = nearest_name(params.classes, names);
  fail(ErrorKind::usage, "classes: the network has no class '{}'{}; \"predicted\" and \"label\" choose one for each image",
       params.classes, near ? fmt::format("; nearest is '{}'", *near) : "");
}

ScoreGradient gradient_of(const WriteGradCam::Params& params, const DataContext& context) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage draws its features");
  const Shape& result = context.network->output();
  if (result.elements() != result[0]) {
    fail(ErrorKind::usage, "the network's output is a map, {}, not a list of scores; write_masks draws maps", to_string(result));
  }
  return {features_of(params, context), class_of(params, context)};
}

}  // namespace

void grad_cam(std::span<const float> features, std::span<const float> gradient, HeatMap& map) {
  const auto places = static_cast<std::size_t>(map.height) * static_cast<std::size_t>(map.width);
  std::vector<double> sums(places);
  for (std::size_t begin = 0; begin < features.size(); begin += places) {
    double weight = 0;
    for (std::size_t i = begin; i < begin + places; ++i) weight += static_cast<double>(gradient[i]);
    weight /= static_cast<double>(places);
    for (std::size_t i = 0; i < places; ++i) sums[i] += weight * static_cast<double>(features[begin + i]);
  }
  map.values.resize(places);
  for (std::size_t i = 0; i < places; ++i) map.values[i] = static_cast<float>(std::max(sums[i], 0.0));
}

float value_at(const HeatMap& map, double x, double y) {
  if (x < -0.5 || y < -0.5 || x > map.width - 0.5 || y > map.height - 0.5) return 0;
  x = std::clamp(x, 0.0, map.width - 1.0);
  y = std::clamp(y, 0.0, map.height - 1.0);
  const int left = static_cast<int>(x), upper = static_cast<int>(y);
  const int right = std::min(left + 1, map.width - 1), lower = std::min(upper + 1, map.height - 1);
  const double to_right = x - left, down = y - upper;
  const auto at = [&](int row, int column) {
    return static_cast<double>(
        map.values[static_cast<std::size_t>(row) * static_cast<std::size_t>(map.width) + static_cast<std::size_t>(column)]);
  };
  const double above = (1 - to_right) * at(upper, left) + to_right * at(upper, right);
  const double below = (1 - to_right) * at(lower, left) + to_right * at(lower, right);
  return static_cast<float>((1 - down) * above + down * below);
}

void WriteGradCam::describe(StageDescription<Params>& d) {
  d.name("write_grad_cam").text("Draws where a class was found in each image (Grad-CAM), as PNG.");
  d.input(payload::kPredictions).serial();
  PictureParams::describe(d.params);
  d.params.add("features", &Params::features)
      .text("\"layer\" or \"layer:port\" of the weighted map; default: the last layer with a map as large as the last conv's");
  d.params.add("classes", &Params::classes)
      .text("class to look for: \"predicted\", each image's most probable one; \"label\", its own; or a name");
  d.params.add("size", &Params::size)
      .choices({"network", "source"})
      .text("picture size. network: its input; source: the image file, black outside the network's view");
  d.params.add("opacity", &Params::opacity).range(0, 1).text("colour opacity where the map is largest");
}

void WriteGradCam::request(const Params& params, const DataContext& context, CompileRequest& request) {
  const ScoreGradient gradient = gradient_of(params, context);
  request.read(gradient.by);
  request.read_gradient(gradient);
  request.needs_image = true;
}

WriteGradCam::WriteGradCam(const Params& params, const DataContext& context)
    : params_(params), context_(context), gradient_(gradient_of(params, context)), pictures_(params) {
  require_colours(context);
  const Shape& shape = context.network->shape_of(gradient_.by);
  map_.height = static_cast<int>(shape[1]);
  map_.width = static_cast<int>(shape[2]);
}

void WriteGradCam::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (!share.samples[i].counts) continue;
    if (has_score(share.samples[i]))
      write_picture(share, i);
    else
      ++without_score_;
  }
  if (share.last) end_pass();
}

bool WriteGradCam::has_score(const Predictions::Sample& sample) const {
  return gradient_.of != ScoreGradient::kLabel || (sample.label >= 0 && sample.label < context_.network->output()[0]);
}

void WriteGradCam::write_picture(const Predictions& share, std::size_t sample) {
  const PictureFrame frame = frame_of(context_, params_.size, share.samples[sample]);
  grad_cam(share.output(gradient_.by).row(sample), share.gradient(gradient_).row(sample), map_);
  image_.draw(share, sample, frame, picture_);
  const AffineMap to_map = frame.from_map(map_.height, map_.width, context_.window).inverse();
  lay_heat_over(map_, to_map, params_.opacity, frame.height, frame.width, picture_);
  pictures_.write(share.samples[sample], {picture_.data(), {frame.height, frame.width, 3}});
}

void WriteGradCam::end_pass() {
  if (without_score_ > 0) {
    context_.run->warn(
        fmt::format("{} classes = \"label\": {} images without a label among the network's classes have no picture",
                    context_.place(), without_score_));
  }
  without_score_ = 0;
  pictures_.end_pass();
}

}  // namespace millrace
