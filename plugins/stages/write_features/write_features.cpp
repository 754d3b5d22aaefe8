#include "write_features.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "millrace/util/csv_head.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMaxRows = std::numeric_limits<std::uint32_t>::max();  // the most that a source can have

bool writes_numpy(const std::string& file) {
  if (file.ends_with(".npy")) return true;
  if (file.ends_with(".safetensors")) return false;
  fail(ErrorKind::usage, "file: '{}' ends in neither .safetensors nor .npy", file);
}

std::string extents(const Shape& shape, std::uint64_t rows, const char* between) {
  std::string text = std::to_string(rows);
  for (const std::int64_t extent : shape) text += between + std::to_string(extent);
  return text;
}

// The format's description: numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string numpy_text(const Shape& shape, std::uint64_t rows) {
  return fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents(shape, rows, ", "));
}

std::string safetensors_text(const std::string& name, const Shape& shape, std::uint64_t rows) {
  std::string text = "{";
  append_json(text, name);
  const std::uint64_t bytes = rows * static_cast<std::uint64_t>(shape.elements()) * sizeof(float);
  return text + fmt::format(R"(:{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})", extents(shape, rows, ","), bytes);
}

// Little-endian.
std::string number_bytes(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

LayerPort port_of(const WriteFeatures::Params& params, const StageSite& site) {
  if (!params.layer.empty() || site.network == nullptr) return find_output(site, "layer", params.layer);
  return find_output(site, "layer", site.network->layers.back().name);
}

}  // namespace

void WriteFeatures::describe(StageDescription<Params>& d) {
  d.name("write_features").text("Writes a layer's output for each image, as safetensors or NumPy array.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"numbers"});
  d.params.add("layer", &Params::layer).text("\"layer\" or \"layer:port\"; default: the network's last").in_recipes();
  d.params.add("file", &Params::file)
      .text(
          ".safetensors or .npy file in the run's folder, or an absolute path; a .csv file next to it names the rows. float32 "
          "(images, channels, height, width) or (images, channels)");
  d.params.add("columns", &Params::columns).text("names of the layer's numbers, added to the .csv file").in_recipes();
  d.params.add("probabilities", &Params::probabilities).text("write the sigmoid of each number into the .csv file").in_recipes();
}

void WriteFeatures::request(const Params& params, const StageSite& site, CompileRequest& request) {
  request.read(port_of(params, site));
}

WriteFeatures::WriteFeatures(const Params& params, const DataContext& context)
    : params_(params), context_(context), numpy_(writes_numpy(params.file)) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage writes outputs of its layers");
  port_ = port_of(params, context);
  name_ = params.layer.empty() ? context.network->layers.back().name : params.layer;
  shape_ = context.network->shape_of(port_);
  if (!params.columns.empty() && static_cast<std::int64_t>(params.columns.size()) != shape_.elements()) {
    fail(ErrorKind::usage, "columns: there are {} names, and the layer has {} numbers for an image", params.columns.size(),
         shape_.elements());
  }
}

void WriteFeatures::open() {
  path_ = output_path(context_, "file", params_.file);
  names_path_ = std::filesystem::path(path_).replace_extension(".csv").string();
}

void WriteFeatures::stop() noexcept {
  line_.stop();
  if (!features_) return;
  try {
    features_->write_at(0, header(rows_));
    const std::string kept = features_->keep(), names = names_->keep();
    context_.run->warn(fmt::format("'{}' is incomplete: {} rows are in '{}' and '{}'", path_, rows_, kept, names));
  } catch (...) {  // the run has already ended with another error
  }
  forget();
}

void WriteFeatures::write(const Predictions& share) {
  try {
    write_rows(share);
    finite_.add(share, share.output(port_));
    if (!share.last) return;
    finish();
    finite_.end_pass(context_);
  } catch (...) {
    forget();
    throw;
  }
}

void WriteFeatures::begin() {
  features_.emplace(path_);
  names_.emplace(names_path_);
  features_->write(header(0));
  std::vector<std::string> columns = {"path", "label"};
  columns.insert(columns.end(), params_.columns.begin(), params_.columns.end());
  columns.emplace_back("error");
  names_->write(csv_head(columns));
  rows_ = 0;
}

void WriteFeatures::write_rows(const Predictions& share) {
  if (!features_) begin();
  const Predictions::Values& values = share.output(port_);
  const std::vector<float> none(static_cast<std::size_t>(shape_.elements()), std::numeric_limits<float>::quiet_NaN());
  for (std::uint32_t i = 0; i < share.count; ++i) {
    const Predictions::Sample& sample = share.samples[i];
    if (!sample.counts && sample.fault.empty()) continue;
    const std::span<const float> row = sample.counts ? values.row(i) : std::span(none);
    features_->write(row.data(), row.size_bytes());
    text_.clear();
    place_.clear();
    sample.append_place(place_);
    append_csv(text_, place_);
    text_ += ',';
    const auto label = static_cast<std::size_t>(sample.label);
    if (sample.label >= 0) append_csv(text_, label < context_.classes.size() ? context_.classes[label] : std::to_string(label));
    for (std::size_t k = 0; k < params_.columns.size(); ++k) {
      text_ += ',';
      if (sample.counts) text_ += fmt::format("{}", params_.probabilities ? 1 / (1 + std::exp(-row[k])) : row[k]);
    }
    append_csv(text_ += ',', sample.fault);
    text_ += "\r\n";
    names_->write(text_);
    ++rows_;
  }
}

void WriteFeatures::finish() {
  features_->write_at(0, header(rows_));
  features_->seal();
  names_->seal();
  features_->commit();
  names_->commit();
  forget();
}

void WriteFeatures::forget() {
  features_.reset();
  names_.reset();
}

std::string WriteFeatures::header(std::uint64_t rows) const {
  constexpr std::size_t kNumpyStart = 10, kNumpyUnit = 64, kSafetensorsUnit = 8;
  const auto rounded = [](std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; };
  if (numpy_) {
    const std::size_t length = rounded(kNumpyStart + numpy_text(shape_, kMaxRows).size() + 1, kNumpyUnit) - kNumpyStart;
    std::string text = numpy_text(shape_, rows);
    text.resize(length - 1, ' ');
    return "\x93NUMPY\x01" + std::string(1, '\0') + number_bytes(length, 2) + text + '\n';
  }
  const std::size_t length = rounded(safetensors_text(name_, shape_, kMaxRows).size(), kSafetensorsUnit);
  std::string text = safetensors_text(name_, shape_, rows);
  text.resize(length, ' ');
  return number_bytes(length, 8) + text;
}

}  // namespace millrace

MILLRACE_PLUGIN("write_features", "1.0", "Outputs of layers, as safetensors or NumPy array.") {
  registry.add_stage<millrace::WriteFeatures>();
}
