#include "write_grad_cam.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/backend/fusion.h"
#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"

namespace millrace {
namespace {

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
  fail(ErrorKind::usage, "classes: the network knows no class '{}'{}; \"predicted\" and \"label\" choose one for each image",
       params.classes, near ? fmt::format("; nearest is '{}'", *near) : "");
}

ScoreGradient gradient_of(const WriteGradCam::Params& params, const DataContext& context) {
  if (context.network == nullptr) fail(ErrorKind::usage, "there is no [network] whose features could be drawn");
  const Shape& result = context.network->output();
  if (result.elements() != result[0]) {
    fail(ErrorKind::usage, "the network's output is a map, {}, and no list of scores; write_masks draws maps", to_string(result));
  }
  return {features_of(params, context), class_of(params, context)};
}

}  // namespace

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
    context_.run->warn(fmt::format("{} classes = \"label\": {} images without a label that the network knows have no picture",
                                   context_.place(), without_score_));
  }
  without_score_ = 0;
  pictures_.end_pass();
}

}  // namespace millrace
