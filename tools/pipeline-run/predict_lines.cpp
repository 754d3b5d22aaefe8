#include "predict_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "predict/predictor.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxClasses = 5;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open()) fail(ErrorKind::storage, "cannot be read: {}", std::strerror(errno));
  return bytes;
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
  const Value* const labels = number_names(model.recipe);
  std::vector<std::string> names;
  std::vector<float> values;
  for (const std::size_t i : order) {
    const Value* const label =
        labels != nullptr && labels->kind() == Value::Kind::array && i < labels->array().size() ? &labels->array()[i] : nullptr;
    const bool is_label = !ranks && label != nullptr && label->kind() == Value::Kind::text;
    names.push_back(is_label ? label->text() : ranks && i < model.classes.size() ? model.classes[i] : std::to_string(i));
    values.push_back(scores[i]);
  }
  append_names(line, ranks ? "classes" : "labels", names);
  append_numbers(line, "scores", values);
  return line;
}

}  // namespace

void predict_lines(const LinesRequest& request, std::istream& paths, const Registry& registry) {
  PredictorOptions options;
  if (request.device != "auto") options.device = request.device;
  const Predictor predictor(request.weights, options, registry);
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
      if (error.kind() != ErrorKind::content && error.kind() != ErrorKind::storage) throw;
      found = ",\"error\":";
      append_json(found, error.what());
    }
    line += found + "}\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fflush(stdout) != 0)
      fail(ErrorKind::storage, "standard output cannot be written: {}", std::strerror(errno));
  }
}

}  // namespace millrace
