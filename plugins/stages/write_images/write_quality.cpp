#include "write_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {

void WriteQuality::describe(StageDescription<Params>& d) {
  d.name("write_quality").text("Compares the network's pictures with target images: PSNR and SSIM of each, and their means.");
  d.input(payload::kPredictions).serial();
  d.params.add("folder", &Params::folder)
      .text("a folder in the run's folder, or an absolute path; two CSV files are written into it");
  d.params.add("normalised", &Params::normalised)
      .text("the result is scaled as the network's input is, by its mean and deviation; false: from 0, black, to 1, white");
  d.params.add("luminance", &Params::luminance).text("compare the luminance of ITU-R BT.601 alone");
  d.params.add("border", &Params::border).range(0, 1000).unit("pixels").text("left out at each edge");
}

void WriteQuality::request(const Params&, const StageContext&, CompileRequest& request) { request.needs_image = true; }

WriteQuality::WriteQuality(const Params& params, const StageContext& context)
    : params_(params), context_(context), result_(context, params.normalised) {
  if (context.target.kind != TargetSpec::Kind::image) {
    fail(ErrorKind::usage, "pictures are compared with target images, and the source of [{}] has none", context.graph);
  }
  const ImageShape picture = result_.shape(), target = context.target.shape(context.window);
  if (picture != target) {
    fail(ErrorKind::usage, "the network's result is {}, and the target images are {}: they must match", to_string(picture),
         to_string(target));
  }
  if (std::min(picture.height, picture.width) - 2 * params.border < kSimilarityWindow) {
    fail(ErrorKind::usage, "border: of pictures of {} less than {} x {} pixels are left, which SSIM needs", to_string(picture),
         kSimilarityWindow, kSimilarityWindow);
  }
}

void WriteQuality::open() {
  const std::filesystem::path some_file = output_path(context_, "folder", params_.folder + "/images.csv");
  folder_ = some_file.parent_path().string();
}

void WriteQuality::write(const Predictions& share) {
  try {
    write_rows(share);
    if (share.last) finish();
  } catch (...) {
    rows_.reset();
    throw;
  }
}

void WriteQuality::write_rows(const Predictions& share) {
  if (!rows_) {
    rows_.emplace(folder_ + "/images.csv");
    rows_->write("path,psnr,ssim\r\n");
    count_ = ratios_ = similarities_ = 0;
  }
  target_.resize(result_.shape().bytes());
  const auto border = static_cast<int>(params_.border);
  const auto planes = [&](const std::vector<std::uint8_t>& pixels) {
    return planes_of({pixels.data(), result_.shape()}, params_.luminance, border);
  };
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (!share.samples[i].counts) continue;
    result_.draw(share.result().row(i), pixels_);
    share.copy_target(i, target_.data());
    const Planes made = planes(pixels_), wanted = planes(target_);
    const double ratio = peak_signal_to_noise_ratio(made, wanted), similarity = structural_similarity(made, wanted);
    count_ += 1;
    ratios_ += ratio;
    similarities_ += similarity;
    text_.clear();
    place_.clear();
    share.samples[i].append_place(place_);
    append_csv(text_, place_);
    fmt::format_to(std::back_inserter(text_), ",{:.6f},{:.8f}\r\n", ratio, similarity);
    rows_->write(text_);
  }
}

void WriteQuality::finish() {
  rows_->commit();
  rows_.reset();
  OutputFile figures(folder_ + "/figures.csv");
  const double images = std::max(count_, 1.0);
  figures.write(
      fmt::format("figure,value\r\nimages,{}\r\npsnr,{}\r\nssim,{}\r\n", count_, ratios_ / images, similarities_ / images));
  figures.commit();
}

}  // namespace millrace
