#include "write_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/finite_count.h"
#include "millrace/util/record_noise.h"

namespace millrace {

namespace {

constexpr double kPeak = 255;
constexpr auto kWindow = static_cast<std::size_t>(kSimilarityWindow);

std::array<double, kWindow> gaussian() {
  constexpr double kDeviation = 1.5;
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (std::size_t i = 0; i < kWindow; ++i) {
    const double far = static_cast<double>(i) - static_cast<double>(kWindow / 2);
    sum += weights[i] = std::exp(-far * far / (2 * kDeviation * kDeviation));
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The weighted means of f(place) over all windows within the image.
template <class F>
std::vector<double> window_means(int height, int width, const F& f) {
  static const std::array<double, kWindow> kWeights = gaussian();
  const auto rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
  const std::size_t across = columns - kWindow + 1, down = rows - kWindow + 1;
  std::vector<double> along(rows * across, 0), means(down * across, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < across; ++column) {
      for (std::size_t i = 0; i < kWindow; ++i) along[row * across + column] += kWeights[i] * f(row * columns + column + i);
    }
  }
  for (std::size_t row = 0; row < down; ++row) {
    for (std::size_t i = 0; i < kWindow; ++i) {
      const double* const from = along.data() + (row + i) * across;
      for (std::size_t column = 0; column < across; ++column) means[row * across + column] += kWeights[i] * from[column];
    }
  }
  return means;
}

double similarity(const std::vector<double>& x, const std::vector<double>& y, int height, int width) {
  constexpr double c1 = (0.01 * kPeak) * (0.01 * kPeak), c2 = (0.03 * kPeak) * (0.03 * kPeak);
  const auto means = [&](const auto& f) { return window_means(height, width, f); };
  const std::vector<double> mean_x = means([&](std::size_t i) { return x[i]; });
  const std::vector<double> mean_y = means([&](std::size_t i) { return y[i]; });
  const std::vector<double> xx = means([&](std::size_t i) { return x[i] * x[i]; });
  const std::vector<double> yy = means([&](std::size_t i) { return y[i] * y[i]; });
  const std::vector<double> xy = means([&](std::size_t i) { return x[i] * y[i]; });
  double sum = 0;
  for (std::size_t i = 0; i < xx.size(); ++i) {
    const double product = mean_x[i] * mean_y[i], squares = mean_x[i] * mean_x[i] + mean_y[i] * mean_y[i];
    sum += (2 * product + c1) * (2 * (xy[i] - product) + c2) / ((squares + c1) * (xx[i] + yy[i] - squares + c2));
  }
  return sum / static_cast<double>(xx.size());
}

}  // namespace

Planes planes_of(const ImageView& image, bool luminance, int border) {
  Planes planes{image.shape.height - 2 * border, image.shape.width - 2 * border, {}};
  const int channels = image.shape.channels;
  const bool converts = luminance && channels == 3;
  planes.channels.resize(static_cast<std::size_t>(converts ? 1 : channels));
  for (int row = border; row < border + planes.height; ++row) {
    for (int column = border; column < border + planes.width; ++column) {
      const std::uint8_t* const pixel = image.data + static_cast<std::ptrdiff_t>(row * image.shape.width + column) * channels;
      if (converts) {
        planes.channels[0].push_back(16 + (65.481 * pixel[0] + 128.553 * pixel[1] + 24.966 * pixel[2]) / 255);
        continue;
      }
      for (std::size_t c = 0; c < planes.channels.size(); ++c) planes.channels[c].push_back(pixel[c]);
    }
  }
  return planes;
}

double peak_signal_to_noise_ratio(const Planes& a, const Planes& b) {
  double squares = 0, count = 0;
  for (std::size_t c = 0; c < a.channels.size(); ++c) {
    for (std::size_t i = 0; i < a.channels[c].size(); ++i) {
      const double difference = a.channels[c][i] - b.channels[c][i];
      squares += difference * difference;
    }
    count += static_cast<double>(a.channels[c].size());
  }
  return 10 * std::log10(kPeak * kPeak * count / squares);
}

double structural_similarity(const Planes& a, const Planes& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.channels.size(); ++c) sum += similarity(a.channels[c], b.channels[c], a.height, a.width);
  return sum / static_cast<double>(a.channels.size());
}

void WriteQuality::describe(StageDescription<Params>& d) {
  d.name("write_quality").text("Compares the network's pictures with targets: PSNR and SSIM of each, and their means.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"image"});
  d.params.add("folder", &Params::folder).text("folder for two CSV files and a picture, in the run's folder or an absolute path");
  d.params.add("normalised", &Params::normalised)
      .text("true: the result is scaled by the input's mean and deviation; false: from 0, black, to 1, white")
      .in_recipes();
  d.params.add("luminance", &Params::luminance).text("compare only luminance (ITU-R BT.601)").in_recipes();
  d.params.add("border", &Params::border).range(0, 1000).unit("pixels").text("margin excluded at each edge").in_recipes();
  d.params.add("predictions", &Params::predictions)
      .range(0, 100)
      .unit("images")
      .text("evenly spaced images of the pass on predictions.png: input, result and target; 0: no sheet")
      .in_recipes();
  d.params.add("baseline", &Params::baseline)
      .choices({"none", "input", "nearest", "bilinear", "bicubic"})
      .text(
          "also compare the network's input, the baseline to beat. input: as is, with its noise; else enlarged by this filter, "
          "for super-resolution")
      .in_recipes();
}

std::size_t WriteQuality::memory_bound() const {
  constexpr std::size_t kRow = 200;
  return drawing::sheet_memory_bound(static_cast<std::size_t>(params_.predictions), 3, result_.shape()) +
         static_cast<std::size_t>(context_.samples_per_epoch) * kRow;
}

void WriteQuality::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteQuality::WriteQuality(const Params& params, const DataContext& context)
    : JointSink(context),
      params_(params),
      context_(context),
      result_(context.network, params.normalised),
      spaced_(static_cast<std::size_t>(params.predictions), context.samples_per_epoch),
      shown_(static_cast<std::size_t>(params.predictions)) {
  if (context.target.kind != TargetSpec::Kind::image) {
    fail(ErrorKind::usage, "pictures are compared with target images, and the source of [{}] has none", context.graph);
  }
  const ImageShape picture = result_.shape(), target = context.target.shape(context.window);
  if (picture != target) {
    fail(ErrorKind::usage, "the network's result is {}, and the target images are {}: they must match", to_string(picture),
         to_string(target));
  }
  if (std::min(picture.height, picture.width) - 2 * params.border < kSimilarityWindow) {
    fail(ErrorKind::usage, "border: pictures of {} are left with less than {} x {} pixels, which SSIM needs", to_string(picture),
         kSimilarityWindow, kSimilarityWindow);
  }
  if (!has_baseline()) return;
  const bool as_large = params.baseline == "input";
  if ((context.target.scale == 1) == as_large && context.window.channels == picture.channels) return;
  fail(ErrorKind::usage, "baseline: the network's input is {} and its result {}: it must {} and keep the channels{}",
       to_string(context.window), to_string(picture), as_large ? "keep the size" : "enlarge",
       as_large ? "" : "; \"input\" compares an input of the result's size");
}

void WriteQuality::open() {
  folder_ = folder_of_first(context_, "folder", params_.folder, "images.csv");
  if (!folder_.empty()) drawing::load_fonts();
}

void WriteQuality::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) add_row(share, i);
  }
  if (!share.last) return;
  join();
  report();
  if (!folder_.empty()) write_files();
  rows_.clear();
  shown_.clear();
}

Planes WriteQuality::planes(const std::vector<std::uint8_t>& pixels) const {
  return planes_of({pixels.data(), result_.shape()}, params_.luminance, static_cast<int>(params_.border));
}

WriteQuality::Quality WriteQuality::compare(const std::vector<std::uint8_t>& pixels, const Planes& target) const {
  const Planes made = planes(pixels);
  return {peak_signal_to_noise_ratio(made, target), structural_similarity(made, target)};
}

// Includes the noise that the device adds.
void WriteQuality::draw_seen(const Predictions& share, std::size_t sample) {
  seen_.resize(context_.window.bytes());
  share.copy_image(sample, seen_.data());
  add_noise(share.batch->records[share.first_slot + sample], seen_);
}

void WriteQuality::show(const Predictions& share, std::size_t sample, const Row& row) {
  draw_seen(share, sample);
  drawing::KeptSample kept{.position = row.position, .cell = {}};
  kept.cell.images = {drawing::kept({seen_.data(), context_.window}), drawing::kept({pixels_.data(), result_.shape()}),
                      drawing::kept({target_.data(), result_.shape()})};
  kept.cell.captions = {{std::isinf(row.made.ratio) ? "equals its target" : fmt::format("{:.2f} dB", row.made.ratio)},
                        {drawing::file_of(share.samples[sample]), drawing::kFaint}};
  shown_.add(std::move(kept));
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

void WriteQuality::add_row(const Predictions& share, std::size_t sample) {
  target_.resize(result_.shape().bytes());
  share.copy_target(sample, target_.data());
  const Planes target = planes(target_);
  Row row{share.samples[sample].key.position, {}};
  row.is_finite = FiniteCount::is_finite(share.result().row(sample));
  share.samples[sample].append_place(row.place);
  result_.draw(share.result().row(sample), pixels_);
  row.made = compare(pixels_, target);
  if (spaced_.takes(row.position) && shown_.takes(0, row.position)) show(share, sample, row);
  if (has_baseline()) {
    draw_baseline(share, sample);
    row.baseline = compare(pixels_, target);
  }
  rows_.push_back(std::move(row));
}

// Gathers the rows of all processes, in order of the source, on the first one.
void WriteQuality::join() {
  gather_rows(
      rows_, [](WireWriter& to, const Row& row) { to.put(row.place).put(row.made).put(row.baseline).put(row.is_finite); },
      [](WireReader& from, Row& row) {
        row.place = from.get<std::string>();
        row.made = from.get<Quality>();
        row.baseline = from.get<Quality>();
        row.is_finite = from.get<bool>();
      });
  shown_.join(*this);
}

std::string WriteQuality::images_csv() const {
  const std::string& baseline = params_.baseline;
  std::string text =
      has_baseline() ? fmt::format("path,psnr,ssim,{}_psnr,{}_ssim\r\n", baseline, baseline) : "path,psnr,ssim\r\n";
  const auto append_row = [&text](const Quality& quality) {
    fmt::format_to(std::back_inserter(text), ",{:.6f},{:.8f}", quality.ratio, quality.similarity);
  };
  for (const Row& row : rows_) {
    append_csv(text, row.place);
    append_row(row.made);
    if (has_baseline()) append_row(row.baseline);
    text += "\r\n";
  }
  return text;
}

std::vector<std::string> WriteQuality::reported_figures() const {
  std::vector<std::string> names = {"psnr", "ssim", "mean_psnr"};
  if (has_baseline()) names.insert(names.end(), {params_.baseline + "_psnr", params_.baseline + "_ssim"});
  return names;
}

// Means over images; PSNR over those that differ from their targets, unless none does.
WriteQuality::Quality WriteQuality::mean(Quality Row::*quality) const {
  double ratios = 0, similarities = 0;
  std::size_t equal = 0;
  for (const Row& row : rows_) {
    const Quality& each = row.*quality;
    if (std::isinf(each.ratio)) {
      ++equal;
    } else {
      ratios += each.ratio;
    }
    similarities += each.similarity;
  }
  const auto images = static_cast<double>(rows_.size());
  const bool all_equal = equal == rows_.size();
  return {all_equal ? std::numeric_limits<double>::infinity() : ratios / (images - static_cast<double>(equal)),
          similarities / images, equal};
}

void WriteQuality::report() const {
  if (rows_.empty()) return;
  std::vector<Figure> figures;
  const auto add = [&](const std::string& begin, const Quality& mean) {
    figures.push_back({begin + "psnr", mean.ratio, false, true, !begin.empty()});
    figures.push_back({begin + "ssim", mean.similarity, false, true, !begin.empty()});
  };
  const Quality made = mean(&Row::made);
  add("", made);
  figures.push_back({"mean_psnr", made.ratio, false, true, true});
  if (has_baseline()) add(params_.baseline + "_", mean(&Row::baseline));
  report_figures(context_, figures);
}

void WriteQuality::append_means(std::string& figures, const std::string& begin, Quality Row::*quality) const {
  const Quality of_all = mean(quality);
  const auto append = [&](const char* name, const std::string& value) {
    fmt::format_to(std::back_inserter(figures), "{}{},{}\r\n", begin, name, value);
  };
  append("psnr", rows_.empty() ? "" : fmt::format("{}", of_all.ratio));
  append("ssim", rows_.empty() ? "" : fmt::format("{}", of_all.similarity));
  if (of_all.equal > 0) append("equal", fmt::format("{}", of_all.equal));
}

std::string WriteQuality::figures_csv() const {
  std::string figures = fmt::format("figure,value\r\nimages,{}\r\n", rows_.size());
  append_means(figures, "", &Row::made);
  if (has_baseline()) append_means(figures, fmt::format("{}_", params_.baseline), &Row::baseline);
  const auto not_finite = std::ranges::count(rows_, false, &Row::is_finite);
  if (not_finite > 0) fmt::format_to(std::back_inserter(figures), "not_finite,{}\r\n", not_finite);
  return figures;
}

// Warns once; the number may change in the next pass.
void WriteQuality::warn_of_equal_images() {
  const auto equal = std::ranges::count_if(rows_, [](const Row& row) { return std::isinf(row.made.ratio); });
  if (equal == 0 || has_warned_ || context_.run == nullptr) return;
  has_warned_ = true;
  context_.run->warn(
      fmt::format("{}: {} of {} pictures equal their targets: their PSNR is infinite, and {}", context_.place(), equal,
                  rows_.size(), static_cast<std::size_t>(equal) == rows_.size() ? "so is the mean" : "the mean leaves them out"));
}

void WriteQuality::write_files() {
  OutputFiles files(context_);
  files.add(folder_ + "/images.csv", images_csv());
  files.add(folder_ + "/figures.csv", figures_csv());
  if (params_.predictions > 0 && drawing::can_draw()) {
    drawing::Sheet sheet = shown_.sheet();
    sheet.title = fmt::format("{} of {} images of {}", sheet.cells.size(), rows_.size(), context_.graph);
    sheet.subtitle = "input, result, target";
    files.add(folder_ + "/predictions.png", drawing::draw(sheet).png());
  }
  files.commit();
  warn_of_equal_images();
}

}  // namespace millrace
