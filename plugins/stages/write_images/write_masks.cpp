#include "write_masks.h"

#include <algorithm>
#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/affine.h"

namespace millrace {
namespace {

// A larger map that is not a multiple of the input also shows a layer's padding: it would be squeezed into the picture and shift
// each class.
void refuse_margin(const Shape& output, ImageShape window) {
  const auto has_margin = [](std::int64_t map, std::int64_t input) { return map > input && map % input != 0; };
  if (!has_margin(output[1], window.height) && !has_margin(output[2], window.width)) return;
  fail(ErrorKind::usage,
       "the network's output is {}, and its input {} x {}: its layers pad the input, and the map includes the padding. A last "
       "layer {{ op = \"crop_like\", from = [..., \"@input\"] }} removes it",
       to_string(output), window.height, window.width);
}

}  // namespace

void WriteMasks::describe(StageDescription<Params>& d) {
  d.name("write_masks").text("Writes each pixel's most probable class, a PNG file per image.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"map"});
  PictureParams::describe(d.params);
  d.params.add("picture", &Params::picture)
      .choices({"ids", "labels", "colours", "overlay"})
      .text(
          "ids: grey class numbers; labels: values of label images; colours: class numbers as palette indices; overlay: colours "
          "over the image")
      .in_recipes();
  d.params.add("size", &Params::size)
      .choices({"network", "source"})
      .text("picture size. network: its input; source: the image file, 255 outside the network's view")
      .in_recipes();
  d.params.add("labels", &Params::labels)
      .range(0, 255)
      .text("picture = \"labels\": value of each class; default: its first id in the source")
      .in_recipes();
  d.params.add("colours", &Params::colours)
      .text("\"#rrggbb\" for each class; default: those of the source or the weights, else PASCAL VOC's")
      .in_recipes();
  d.params.add("opacity", &Params::opacity).range(0, 1).text("opacity of overlay colours").in_recipes();
}

void WriteMasks::request(const Params& params, const StageSite&, CompileRequest& request) {
  request.needs_image = request.needs_image || params.picture == "overlay";
}

WriteMasks::WriteMasks(const Params& params, const DataContext& context) : params_(params), context_(context), pictures_(params) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage writes its classes");
  const Shape& output = context.network->output();
  if (output.rank() != 3 || output[0] < 2 || output[0] > kUnknownClass) {
    fail(ErrorKind::usage, "the network's output is {}: a mask is made of a map of 2 to {} classes", to_string(output),
         kUnknownClass);
  }
  refuse_margin(output, context.window);
  if (params.picture == "overlay") require_colours(context);
  const std::vector<std::string>& colours = params.colours.empty() ? context.colours : params.colours;
  colours_ = class_colours(colours, static_cast<std::size_t>(output[0]));
  map_ = {static_cast<int>(output[1]), static_cast<int>(output[2]), 1};
  if (params.picture == "labels") labels_ = find_labels();
}

// The value of each class in label images.
std::vector<std::uint8_t> WriteMasks::find_labels() const {
  const auto classes = static_cast<std::size_t>(context_.network->output()[0]);
  std::vector<std::uint8_t> labels;
  for (const std::int64_t label : params_.labels) labels.push_back(static_cast<std::uint8_t>(label));
  for (std::size_t c = 0; c < classes && params_.labels.empty() && context_.target.kind == TargetSpec::Kind::classes; ++c) {
    const auto& of = context_.target.classes;
    const auto first = std::find(of.begin(), of.end(), static_cast<std::uint8_t>(c));
    if (first != of.end()) labels.push_back(static_cast<std::uint8_t>(first - of.begin()));
  }
  if (labels.size() == classes) return labels;
  fail(ErrorKind::usage,
       "picture: \"labels\" needs the value of each of {} classes, and {} are known: name them, labels = [0, 1, ...], or write "
       "\"ids\", class numbers",
       classes, labels.size());
}

void WriteMasks::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) write_picture(share, i);
  }
  finite_.add(share);
  if (!share.last) return;
  pictures_.end_pass();
  finite_.end_pass(context_);
}

void WriteMasks::write_picture(const Predictions& share, std::size_t sample) {
  const PictureFrame frame = frame_of(context_, params_.size, share.samples[sample]);
  predicted_.find(share.result().row(sample), map_.bytes(), classes_);
  if (!labels_.empty())
    std::transform(classes_.begin(), classes_.end(), classes_.begin(), [&](std::uint8_t c) { return labels_[c]; });
  place_classes(frame);
  const ImageView ids(ids_.data(), {frame.height, frame.width, 1});
  if (params_.picture == "ids" || params_.picture == "labels") return pictures_.write(share.samples[sample], ids);
  if (params_.picture == "colours") return pictures_.write(share.samples[sample], ids, colours_.data());
  image_.draw(share, sample, frame, picture_);
  blend();
  pictures_.write(share.samples[sample], {picture_.data(), {frame.height, frame.width, 3}});
}

// A map whose size differs from the input's covers the input.
void WriteMasks::place_classes(const PictureFrame& frame) {
  const AffineMap to_picture = frame.from_map(map_.height, map_.width, context_.window);
  ids_.resize(frame.places());
  constexpr std::uint8_t kFill[4] = {kUnknownClass, kUnknownClass, kUnknownClass, kUnknownClass};
  warp_affine(to_picture.inverse(), {classes_.data(), map_}, Interpolation::nearest, Border::constant, kFill,
              {ids_.data(), {frame.height, frame.width, 1}});
}

void WriteMasks::blend() {
  for (std::size_t place = 0; place < ids_.size(); ++place) {
    const std::size_t id = ids_[place];
    if (id == kUnknownClass) continue;
    for (std::size_t c = 0; c < 3; ++c) {
      std::uint8_t& value = picture_[3 * place + c];
      const double mixed = params_.opacity * colours_[3 * id + c] + (1 - params_.opacity) * value;
      value = static_cast<std::uint8_t>(std::lround(mixed));
    }
  }
}

}  // namespace millrace
