#include "write_evaluation.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "matrix_picture.h"
#include "millrace/backend.h"
#include "millrace/error.h"
#include "millrace/network.h"
#include "millrace/output_file.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

std::string calibration_csv(const Calibration& calibration) {
  std::string text = "above,up_to,count,confidence,accuracy\r\n";
  constexpr auto kBins = static_cast<double>(Calibration::kBins);
  double place = 0;
  for (const Calibration::Bin& bin : calibration.bins()) {
    fmt::format_to(std::back_inserter(text), "{:.6g},{:.6g},{},{},{}\r\n", place / kBins, (place + 1) / kBins, bin.count,
                   quotient(bin.confidence, bin.count), quotient(bin.right, bin.count));
    place += 1;
  }
  return text;
}

std::string png_bytes(const Picture& picture) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(picture.height());
  info.width = static_cast<png_uint_32>(picture.width());
  info.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(info);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&info, bytes.data(), &size, 0, picture.pixels().data(), 0, nullptr) == 0) {
    fail(ErrorKind::run, "cannot make a PNG file of {} x {} pixels: {}", info.height, info.width, info.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

void WriteEvaluation::describe(StageDescription<Params>& d) {
  d.name("write_evaluation")
      .text("Compares predicted classes with labels: class matrix, figures of each class, calibration, worst mistakes.");
  d.input(payload::kPredictions).serial();
  d.params.add("folder", &Params::folder)
      .text("a folder in the run's folder, or an absolute path; CSV files and pictures are written into it");
  d.params.add("mistakes", &Params::mistakes)
      .range(0, 100)
      .unit("images")
      .text("how many of the worst mistakes are drawn on a sheet, the highest loss first; 0: no sheet");
}

void WriteEvaluation::request(const Params& params, const StageContext&, CompileRequest& request) {
  request.needs_image = request.needs_image || params.mistakes > 0;
}

WriteEvaluation::WriteEvaluation(const Params& params, const StageContext& context)
    : params_(params),
      context_(context),
      probabilities_(context.network != nullptr && context.network->layers.back().op == "softmax"),
      mistakes_(static_cast<std::size_t>(params.mistakes)) {
  if (context.network == nullptr) fail(ErrorKind::usage, "there is no [network] whose classes could be compared with labels");
  const Shape& output = context.network->output();
  if (output.elements() != output[0]) {
    fail(ErrorKind::usage, "the network's output is a map, {}, and no list of classes; the observer 'results' tells of pixels",
         to_string(output));
  }
  classes_ = static_cast<std::size_t>(output[0]);
  matrix_.assign(classes_ * classes_, 0);
  names_ = context.classes;
  for (std::size_t c = names_.size(); c < classes_; ++c) names_.push_back(fmt::format("{}", c));
  names_.resize(classes_);
}

void WriteEvaluation::open() {
  const std::filesystem::path some_file = output_path(context_, "folder", params_.folder + "/figures.csv");
  folder_ = some_file.parent_path().string();
}

std::size_t WriteEvaluation::memory_bound() const {
  return matrix_.size() * sizeof(double) + Mistakes::memory_bound(static_cast<std::size_t>(params_.mistakes));
}

void WriteEvaluation::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) count(share, i);
  }
  if (share.last) finish();
}

void WriteEvaluation::count(const Predictions& share, std::size_t sample) {
  const Verdict verdict = Verdict::of(share.result().row(sample), label_of(share.samples[sample]), probabilities_);
  const bool right = verdict.predicted == verdict.label;
  matrix_[verdict.label * classes_ + verdict.predicted] += 1;
  calibration_.add(verdict.confidence, right);
  if (!right) mistakes_.add(verdict, share, sample);
}

std::size_t WriteEvaluation::label_of(const Predictions::Sample& sample) const {
  const auto label = static_cast<std::size_t>(sample.label);
  if (sample.label >= 0 && label < classes_) return label;
  std::string place;
  sample.append_place(place);
  fail(ErrorKind::data, "sample '{}' has {}: the network has {} classes, 0 to {}", place,
       sample.label < 0 ? "no label" : fmt::format("label {}", label), classes_, classes_ - 1);
}

void WriteEvaluation::finish() {
  const ClassMatrix matrix(matrix_);
  write_tables(matrix);
  write_pictures(matrix);
  std::fill(matrix_.begin(), matrix_.end(), 0.0);
  calibration_ = {};
  mistakes_.clear();
}

void WriteEvaluation::write_tables(const ClassMatrix& matrix) const {
  write_file("figures.csv", fmt::format("figure,value\r\nimages,{}\r\naccuracy,{}\r\nmean_accuracy,{}\r\nmean_f1,{}\r\n"
                                        "calibration_error,{}\r\n",
                                        matrix.total(), matrix.accuracy(), matrix.mean_accuracy(), matrix.mean_f1(),
                                        calibration_.expected_error()));
  std::string classes = fmt::format("{}\r\n", kClassColumns), confusion = fmt::format("{}\r\n", kConfusionColumns);
  append_classes(classes, "", matrix, names_);
  append_confusion(confusion, "", matrix, names_);
  write_file("classes.csv", classes);
  write_file("confusion.csv", confusion);
  write_file("calibration.csv", calibration_csv(calibration_));
}

void WriteEvaluation::write_pictures(const ClassMatrix& matrix) const {
  if (classes_ <= kMostDrawnClasses) write_file("confusion.png", png_bytes(matrix_picture(matrix, names_)));
  if (params_.mistakes == 0) return;
  write_file("mistakes.csv", mistakes_.csv(names_));
  write_file("mistakes.png", png_bytes(mistakes_.sheet(names_)));
}

void WriteEvaluation::write_file(std::string_view name, const std::string& text) const {
  OutputFile file(fmt::format("{}/{}", folder_, name));
  file.write(text);
  file.commit();
}

}  // namespace millrace

MILLRACE_PLUGIN("write_evaluation", "1.0", "Predicted classes compared with labels, as CSV and, through libpng, PNG.") {
  registry.add_stage<millrace::WriteEvaluation>();
}
