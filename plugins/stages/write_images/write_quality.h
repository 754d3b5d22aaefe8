#pragma once

#include <kept_samples.h>

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "millrace/util/joint_sink.h"
#include "millrace/util/output_file.h"
#include "millrace/util/output_pixels.h"
#include "millrace/util/resample.h"

namespace millrace {

// The channels of an image, each row by row.
struct Planes {
  int height = 0, width = 0;
  std::vector<std::vector<double>> channels;
};

// luminance: Y of ITU-R BT.601, from 16 to 235, instead of red, green and blue. border: rows and columns to ignore at each edge.
// REQUIRES: the image is larger than twice the border, and has 1 or 3 channels.
Planes planes_of(const ImageView& image, bool luminance, int border);

// 10 log10(255^2 / mean squared difference), in dB; infinite for equal images. REQUIRES, as below: images of one shape.
double peak_signal_to_noise_ratio(const Planes& a, const Planes& b);

// Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error visibility to structural similarity" (2004): windows
// of 11 x 11 weighted by a Gaussian of deviation 1.5, K1 = 0.01, K2 = 0.03, the mean over all windows that lie within the image,
// and over channels. REQUIRES: height and width of at least 11.
double structural_similarity(const Planes& a, const Planes& b);

inline constexpr int kSimilarityWindow = 11;

// Compares the pictures that a network makes with the target images: PSNR and SSIM of each, and their means over a pass.
//
//   [evaluate]
//   every = "never"                      # runs with: pipeline-run FILE --graph evaluate --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_quality"]
//
//   [evaluate.write_quality]
//   folder = "quality"                   # in the run's folder: images.csv (path,psnr,ssim) and figures.csv (figure,value)
//   predictions = 12                     # images on predictions.png: input, result, target
//
// Both use 8-bit pixels, as write_images writes them. Papers on super-resolution compare only luminance, without a border as wide
// as the enlargement: luminance = true, border = 2.
//
// baseline = "bicubic" also compares the input resized by that filter, as the papers do: columns and metrics bicubic_psnr and
// bicubic_ssim. Only for networks that enlarge. baseline = "input" compares the input itself, for denoising: its pixels with
// their noise, rounded and clamped to [0, 255] like a picture's. The values in figures.csv are means over images, not over
// pixels, and metrics of the pass by the same names. A loss may report another `psnr`, over all pixels; `mean_psnr` is always
// this one. Luminance is not rounded.
//
// The PSNR of a picture that equals its target is infinite, `inf` in images.csv. The mean leaves such pictures out, and
// figures.csv counts them as `equal`; if all are equal, the mean is infinite too. `not_finite` counts results with a non-finite
// output, which is drawn and compared as black. Without images, values are empty.
//
// Ports: in, Predictions of (1 or 3, H, W) float32. Skipped samples are left out. Requests images: a batch is held until it is
// compared. Memory: some 200 bytes per image, and the images of the sheet. Threading: PredictionLine; several processes:
// JointSink. A run without a folder writes nothing and logs that. Errors: a result that is not a picture, targets other than
// images, pictures below 11 x 11: ErrorKind::usage, in the constructor. An unwritable folder (in open()) or a full disk:
// ErrorKind::storage. Files appear under their names when a pass is complete.
class WriteQuality : public Stage, public JointSink {
 public:
  struct Params {
    std::string folder = "quality";
    bool normalised = true;
    bool luminance = false;
    std::int64_t border = 0;
    std::string baseline = "none";
    std::int64_t predictions = 12;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteQuality(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }
  std::size_t memory_bound() const override;
  std::vector<std::string> reported_figures() const override;

 private:
  // Values for one image, or means.
  struct Quality {
    double ratio = 0, similarity = 0;
    std::size_t equal = 0;  // in means: images that equal their targets
  };
  // A row in images.csv.
  struct Row {
    std::uint64_t position = 0;
    std::string place;
    Quality made = {}, baseline = {};
    bool is_finite = true;  // the network's result
  };

  void write(const Predictions& share);
  void add_row(const Predictions& share, std::size_t sample);
  void join();
  void write_files();
  std::string images_csv() const;
  std::string figures_csv() const;
  Quality mean(Quality Row::*quality) const;
  void report() const;
  void append_means(std::string& figures, const std::string& begin, Quality Row::*quality) const;
  void warn_of_equal_images();
  bool has_baseline() const { return params_.baseline != "none"; }
  Planes planes(const std::vector<std::uint8_t>& pixels) const;
  // REQUIRES: `target` is from planes() of the target image.
  Quality compare(const std::vector<std::uint8_t>& pixels, const Planes& target) const;
  void draw_seen(const Predictions& share, std::size_t sample);      // into seen_
  void draw_baseline(const Predictions& share, std::size_t sample);  // into pixels_
  void show(const Predictions& share, std::size_t sample, const Row& row);

  const Params params_;
  const DataContext context_;
  const OutputPixels result_;
  std::string folder_;  // empty: this process writes nothing

  // Used only on the line's thread.
  std::vector<Row> rows_;  // the current pass's
  bool has_warned_ = false;
  std::vector<std::uint8_t> pixels_, target_, seen_;
  Resampler resampler_;
  drawing::EvenlySpaced spaced_;
  drawing::KeptSamples shown_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
