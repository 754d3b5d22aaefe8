#include "write_quality.h"

#include <fmt/format.h>
#include <sheet.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "millrace/error.h"
#include "millrace/kernels/noise.h"
#include "millrace/plugin.h"

namespace millrace {

void WriteQuality::describe(StageDescription<Params>& d) {
  d.name("write_quality").text("Compares the network's pictures with target images: PSNR and SSIM of each, and their means.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"image"});
  d.params.add("folder", &Params::folder)
      .text("a folder in the run's folder, or an absolute path; two CSV files and a picture are written into it");
  d.params.add("normalised", &Params::normalised)
      .text("the result is scaled as the network's input is, by its mean and deviation; false: from 0, black, to 1, white")
      .in_recipes();
  d.params.add("luminance", &Params::luminance).text("compare the luminance of ITU-R BT.601 alone").in_recipes();
  d.params.add("border", &Params::border).range(0, 1000).unit("pixels").text("left out at each edge").in_recipes();
  d.params.add("predictions", &Params::predictions)
      .range(0, 100)
      .unit("images")
      .text("how many images, evenly spaced over the pass, are drawn on predictions.png: input, result and target; 0: no sheet")
      .in_recipes();
  d.params.add("baseline", &Params::baseline)
      .choices({"none", "input", "nearest", "bilinear", "bicubic"})
      .text(
          "also compare the network's input: what a network has to beat. input: as it is, with its noise; else enlarged by this "
          "filter, for super-resolution")
      .in_recipes();
}

std::size_t WriteQuality::memory_bound() const {
  return drawing::sheet_memory_bound(static_cast<std::size_t>(params_.predictions), 3, result_.shape());
}

void WriteQuality::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteQuality::WriteQuality(const Params& params, const DataContext& context)
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
  if (!has_baseline()) return;
  const bool as_large = params.baseline == "input";
  if ((context.target.scale == 1) == as_large && context.window.channels == picture.channels) return;
  fail(ErrorKind::usage, "baseline: the network's input is {} and its result {}: it must {} and keep the channels{}",
       to_string(context.window), to_string(picture), as_large ? "keep the size" : "enlarge",
       as_large ? "" : "; \"input\" compares an input of the result's size");
}

void WriteQuality::open() { folder_ = output_folder(context_, "folder", params_.folder, "images.csv"); }

void WriteQuality::write(const Predictions& share) {
  try {
    write_rows(share);
    if (share.last) finish();
  } catch (...) {
    rows_.reset();
    throw;
  }
}

Planes WriteQuality::planes(const std::vector<std::uint8_t>& pixels) const {
  return planes_of({pixels.data(), result_.shape()}, params_.luminance, static_cast<int>(params_.border));
}

WriteQuality::Quality WriteQuality::compare(const std::vector<std::uint8_t>& pixels, const Planes& target, Quality& sums) {
  const Planes made = planes(pixels);
  const Quality found{peak_signal_to_noise_ratio(made, target), structural_similarity(made, target)};
  sums.ratio += found.ratio;
  sums.similarity += found.similarity;
  fmt::format_to(std::back_inserter(text_), ",{:.6f},{:.8f}", found.ratio, found.similarity);
  return found;
}

// With the noise that the device adds.
void WriteQuality::draw_seen(const Predictions& share, std::size_t sample) {
  seen_.resize(context_.window.bytes());
  share.copy_image(sample, seen_.data());
  const AugmentationRecord& record = share.batch->records[share.first_slot + sample];
  for (std::size_t place = 0; record.noise > 0 && place < seen_.size(); ++place) {
    const float noise = record.noise * normal_deviate(record.noise_seed, static_cast<std::uint32_t>(place));
    seen_[place] = static_cast<std::uint8_t>(std::clamp(std::lround(static_cast<float>(seen_[place]) + noise), 0L, 255L));
  }
}

// Evenly spaced over the pass.
bool WriteQuality::takes_for_sheet() const {
  const auto most = static_cast<std::uint64_t>(params_.predictions);
  if (shown_.cells.size() >= most) return false;
  const std::uint64_t every = std::max<std::uint64_t>(1, context_.samples_per_epoch / most);
  return (static_cast<std::uint64_t>(count_) - 1) % every == 0;
}

void WriteQuality::show(const Predictions& share, std::size_t sample, double ratio) {
  draw_seen(share, sample);
  drawing::SheetCell cell;
  cell.images = {drawing::kept({seen_.data(), context_.window}), drawing::kept({pixels_.data(), result_.shape()}),
                 drawing::kept({target_.data(), result_.shape()})};
  cell.captions = {{fmt::format("{:.2f} dB", ratio)}, {place_, drawing::kFaint}};
  shown_.cells.push_back(std::move(cell));
}

void WriteQuality::draw_baseline(const Predictions& share, std::size_t sample) {
  const ImageShape window = context_.window;
  pixels_.resize(result_.shape().bytes());
  if (params_.baseline == "input") {
    draw_seen(share, sample);
    pixels_ = seen_;
    return;
  }
  seen_.resize(window.bytes());
  share.copy_image(sample, seen_.data());
  const Box whole{0, 0, static_cast<float>(window.width), static_cast<float>(window.height)};
  resampler_.resize(rows_of({seen_.data(), window}), whole, resample_filter(params_.baseline), result_.shape(), pixels_.data());
}

void WriteQuality::write_rows(const Predictions& share) {
  const std::string& baseline = params_.baseline;
  if (!rows_) {
    rows_.emplace(folder_ + "/images.csv");
    rows_->write("path,psnr,ssim");
    rows_->write(has_baseline() ? fmt::format(",{}_psnr,{}_ssim\r\n", baseline, baseline) : "\r\n");
    count_ = 0;
    made_ = baseline_ = {};
  }
  target_.resize(result_.shape().bytes());
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (!share.samples[i].counts) continue;
    share.copy_target(i, target_.data());
    const Planes target = planes(target_);
    count_ += 1;
    text_.clear();
    place_.clear();
    share.samples[i].append_place(place_);
    append_csv(text_, place_);
    result_.draw(share.result().row(i), pixels_);
    const Quality found = compare(pixels_, target, made_);
    if (takes_for_sheet()) show(share, i, found.ratio);
    if (has_baseline()) {
      draw_baseline(share, i);
      compare(pixels_, target, baseline_);
    }
    text_ += "\r\n";
    rows_->write(text_);
  }
}

void WriteQuality::finish() {
  rows_->seal();
  const double images = std::max(count_, 1.0);
  std::string text = fmt::format("figure,value\r\nimages,{}\r\n", count_);
  const auto append = [&](const std::string& begin, const Quality& sums) {
    fmt::format_to(std::back_inserter(text), "{}psnr,{}\r\n{}ssim,{}\r\n", begin, sums.ratio / images, begin,
                   sums.similarity / images);
  };
  append("", made_);
  if (has_baseline()) append(fmt::format("{}_", params_.baseline), baseline_);
  OutputFile figures(folder_ + "/figures.csv");
  figures.write(text);
  figures.seal();
  rows_->commit();
  figures.commit();
  rows_.reset();
  if (params_.predictions > 0 && drawing::can_draw()) {
    shown_.title = fmt::format("{} of {} images of {}", shown_.cells.size(), count_, context_.graph);
    shown_.subtitle = "input, result, target";
    OutputFile picture(folder_ + "/predictions.png");
    picture.write(drawing::draw(shown_).png());
    picture.commit();
  }
  shown_ = {};
}

}  // namespace millrace
