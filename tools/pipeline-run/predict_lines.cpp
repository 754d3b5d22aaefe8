#include "predict_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <numeric>
#include <string_view>
#include <system_error>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "predict/predictor.h"
#include "prepare/devices.h"
#include "util/out_of_memory.h"
#include "weights/fetched_weights.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxClasses = 5;
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 30;  // far more than a JPEG or PNG of any camera

// Devices and pipes could be endless, and a folder has no bytes.
std::string bytes_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::is_regular_file(status)) {
    fail(ErrorKind::storage, "cannot be read: {}",
         error                                   ? error.message()
         : std::filesystem::is_directory(status) ? "it is a folder"
                                                 : "it is a device or a pipe");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(ErrorKind::storage, "cannot be read: {}", error.message());
  if (size > kMaxFileBytes) fail(ErrorKind::storage, "cannot be read: it has {} bytes, more than {}", size, kMaxFileBytes);
  std::string bytes(static_cast<std::size_t>(size), 0);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) {
    fail(ErrorKind::storage, "cannot be read: {}", errno == 0 ? "it is shorter than its size" : std::strerror(errno));
  }
  return bytes;
}

// The one that --devices requests, as backend and number; "": the processor. Throws Error(usage) for several.
std::string one_device(const std::string& text, const Registry& registry) {
  if (text.empty()) return {};
  const DeviceRequest request = parse_devices(text);
  if (request.choices.size() > 1 || request.backend == "all") {
    fail(ErrorKind::usage, "--predict - computes on one device: expected --devices cpu, gpu or cuda:1, found '{}'", text);
  }
  if (request.backend != "auto" && request.backend != "gpu" && registry.backends().find(request.backend) == nullptr)
    return text;  // Predictor names the backend
  for (const auto& [name, type] : registry.backends()) {
    const bool is_asked = request.backend == name;
    if (!is_asked && (name == kHostBackend || (request.backend != "auto" && request.backend != "gpu"))) continue;
    const std::vector<DeviceInfo> present = type.create()->devices();
    if (present.empty()) {
      if (is_asked) return text;  // Predictor names the reason
      continue;
    }
    return fmt::format("{}:{}", name, resolve_devices(request, present, text).front());
  }
  if (request.backend == "auto") return {};
  fail(ErrorKind::device, "--devices {}: no GPU found", text);
}

// Leaves out `names` that are of another network.
std::string name_of(std::size_t i, const std::vector<std::string>& names, std::size_t count) {
  return names.size() == count ? names[i] : std::to_string(i);
}

std::vector<std::string> label_names(const Model& model) {
  const Value* const labels = number_names(model.recipe);
  std::vector<std::string> names;
  if (labels == nullptr || labels->kind() != Value::Kind::array) return names;
  for (const Value& label : labels->array()) {
    if (label.kind() == Value::Kind::text) names.push_back(label.text());
  }
  return names;
}

void append_error(std::string& found, std::string_view text) {
  found = ",\"error\":";
  append_json(found, text);
}

void append_numbers(std::string& line, const char* key, const std::vector<float>& numbers) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", key);
  for (const float& number : numbers) {
    if (&number != numbers.data()) line += ',';
    line += std::isfinite(number) ? fmt::format("{}", number) : "null";
  }
  line += ']';
}

void append_names(std::string& line, const char* key, const std::vector<std::string>& names) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", key);
  for (const std::string& name : names) {
    if (&name != names.data()) line += ',';
    append_json(line, name);
  }
  line += ']';
}

// The members of an answer that hold the result.
std::string answer(const Predictor& predictor, const ImagePrediction& prediction) {
  std::string line;
  if (predictor.task() == PredictedTask::numbers) {
    append_numbers(line, "numbers", {prediction.numbers().begin(), prediction.numbers().end()});
    return line;
  }
  const std::vector<float> scores = prediction.scores();
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool ranks = predictor.task() == PredictedTask::classes;
  if (ranks) {
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), kMaxClasses));
  }
  const Model& model = predictor.model();
  const std::vector<std::string> known = ranks ? model.classes : label_names(model);
  std::vector<std::string> names;
  std::vector<float> values;
  for (const std::size_t i : order) {
    names.push_back(name_of(i, known, scores.size()));
    values.push_back(scores[i]);
  }
  append_names(line, ranks ? "classes" : "labels", names);
  append_numbers(line, "scores", values);
  return line;
}

}  // namespace

void predict_lines(const LinesRequest& request, std::istream& paths, const Registry& registry) {
  PredictorOptions options;
  options.device = one_device(request.device, registry);
  const std::string weights = local_weights({request.weights, ""}, registry, [](const std::string&) {});
  const Predictor predictor(weights, options, registry);
  if (predictor.task() == PredictedTask::map || predictor.task() == PredictedTask::image) {
    fail(ErrorKind::usage, "--predict -: '{}' makes images, which do not fit into a line: --predict FOLDER writes them as files",
         request.weights);
  }
  for (std::string path; std::getline(paths, path);) {
    if (path.ends_with('\r')) path.pop_back();
    if (path.empty()) continue;
    std::string line = "{\"path\":", found;
    append_json(line, path);
    try {
      const std::string bytes = bytes_of(path);
      found = answer(predictor, predictor.predict({{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, {}}));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::content && error.kind() != ErrorKind::storage && !lacks_memory(error)) throw;
      append_error(found, error.what());
    } catch (const std::bad_alloc&) {
      append_error(found, kOutOfMemory);
    }
    line += found + "}\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fflush(stdout) != 0)
      fail(ErrorKind::storage, "standard output cannot be written: {}", std::strerror(errno));
  }
}

}  // namespace millrace
