#include "write_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "millrace/class_matrix.h"
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

}  // namespace

void WriteEvaluation::describe(StageDescription<Params>& d) {
  d.name("write_evaluation").text("Compares predicted classes with labels: class matrix, figures of each class, calibration.");
  d.input(payload::kPredictions).serial();
  d.params.add("folder", &Params::folder)
      .text("a folder in the run's folder, or an absolute path; four CSV files are written into it");
}

WriteEvaluation::WriteEvaluation(const Params& params, const StageContext& context)
    : params_(params),
      context_(context),
      probabilities_(context.network != nullptr && context.network->layers.back().op == "softmax") {
  if (context.network == nullptr) fail(ErrorKind::usage, "there is no [network] whose classes could be compared with labels");
  const Shape& output = context.network->output();
  if (output.elements() != output[0]) {
    fail(ErrorKind::usage, "the network's output is a map, {}, and no list of classes; the observer 'results' tells of pixels",
         to_string(output));
  }
  classes_ = static_cast<std::size_t>(output[0]);
  matrix_.assign(classes_ * classes_, 0);
}

void WriteEvaluation::open() {
  const std::filesystem::path some_file = output_path(context_, "folder", params_.folder + "/figures.csv");
  folder_ = some_file.parent_path().string();
}

void WriteEvaluation::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) count(share.samples[i], share.result().row(i));
  }
  if (share.last) finish();
}

void WriteEvaluation::count(const Predictions::Sample& sample, std::span<const float> outputs) {
  const auto label = static_cast<std::size_t>(sample.label);
  if (sample.label < 0 || label >= classes_) {
    std::string place;
    sample.append_place(place);
    fail(ErrorKind::data, "sample '{}' has {}: the network has {} classes, 0 to {}", place,
         sample.label < 0 ? "no label" : fmt::format("label {}", label), classes_, classes_ - 1);
  }
  const auto predicted = static_cast<std::size_t>(std::max_element(outputs.begin(), outputs.end()) - outputs.begin());
  const double most = outputs[predicted];
  double sum = 0;
  for (const float value : outputs) sum += std::exp(value - most);
  matrix_[label * classes_ + predicted] += 1;
  calibration_.add(probabilities_ ? most : 1 / sum, predicted == label);
}

void WriteEvaluation::finish() {
  const ClassMatrix matrix(matrix_);
  write_file("figures.csv", fmt::format("figure,value\r\nimages,{}\r\naccuracy,{}\r\nmean_accuracy,{}\r\nmean_f1,{}\r\n"
                                        "calibration_error,{}\r\n",
                                        matrix.total(), matrix.accuracy(), matrix.mean_accuracy(), matrix.mean_f1(),
                                        calibration_.expected_error()));
  std::string classes = fmt::format("{}\r\n", kClassColumns), confusion = fmt::format("{}\r\n", kConfusionColumns);
  append_classes(classes, "", matrix, context_.classes);
  append_confusion(confusion, "", matrix, context_.classes);
  write_file("classes.csv", classes);
  write_file("confusion.csv", confusion);
  write_file("calibration.csv", calibration_csv(calibration_));
  std::fill(matrix_.begin(), matrix_.end(), 0.0);
  calibration_ = {};
}

void WriteEvaluation::write_file(std::string_view name, const std::string& text) const {
  OutputFile file(fmt::format("{}/{}", folder_, name));
  file.write(text);
  file.commit();
}

}  // namespace millrace

MILLRACE_PLUGIN("write_evaluation", "1.0", "Predicted classes compared with labels, as CSV.") {
  registry.add_stage<millrace::WriteEvaluation>();
}
