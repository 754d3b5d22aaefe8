#include "write_images.h"

#include "millrace/plugin.h"

namespace millrace {

void WriteImages::describe(StageDescription<Params>& d) {
  d.name("write_images").text("Writes the network's result for each image as PNG.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"image"});
  PictureParams::describe(d.params);
  d.params.add("normalised", &Params::normalised)
      .text("true: the result is scaled by the input's mean and deviation; false: from 0, black, to 1, white")
      .in_recipes();
}

WriteImages::WriteImages(const Params& params, const DataContext& context)
    : context_(context), result_(context.network, params.normalised), pictures_(params) {}

void WriteImages::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    const Predictions::Sample& sample = share.samples[i];
    if (!sample.counts) continue;
    result_.draw(share.result().row(i), pixels_);
    pictures_.write(sample, {pixels_.data(), result_.shape()});
  }
  finite_.add(share);
  if (!share.last) return;
  pictures_.end_pass();
  finite_.end_pass(context_);
}

}  // namespace millrace
