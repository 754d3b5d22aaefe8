#include "image_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <numeric>
#include <string_view>
#include <vector>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/output_file.h"
#include "util/out_of_memory.h"
#include "weights/fetched_weights.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxClasses = 5;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;  // far more than a JPEG or PNG of any camera

ByteBuffer bytes_of(const std::string& path, const Registry& registry) {
  Storage& storage = storage_of(registry, path);
  if (const std::uint64_t size = storage.stat(path).bytes; size > kMaxFileBytes)
    fail(ErrorKind::data, "'{}' has {} bytes, more than {}", path, size, kMaxFileBytes);
  ByteBuffer bytes;
  storage.read(path, bytes);
  return bytes;
}

// Leaves out `names` that are of another network.
std::string name_of(std::size_t i, const std::vector<std::string>& names, std::size_t count) {
  return names.size() == count ? names[i] : std::to_string(i);
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
  const std::vector<std::string> known = ranks ? model.classes : number_names(model.recipe);
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

std::string weights_here(const AnswersRequest& request, const Registry& registry) {
  return local_weights(
      {request.weights, ""}, registry, [](const std::string&) {}, request.notice);
}

PredictorOptions options_for(const std::string& device) {
  PredictorOptions options;
  options.device = device;
  return options;
}

}  // namespace

ImageAnswers::ImageAnswers(const AnswersRequest& request, const Registry& registry)
    : registry_(registry), predictor_(weights_here(request, registry), options_for(request.device), registry) {
  if (predictor_.task() != PredictedTask::map && predictor_.task() != PredictedTask::image) return;
  fail(ErrorKind::usage, "{}: '{}' makes images, which do not fit into a line: --predict FOLDER writes them as files",
       request.option, request.weights);
}

std::string ImageAnswers::members(const std::string& path, const std::function<bool()>& is_same) const {
  std::string members = "\"path\":", found;
  append_json(members, path);
  bool was_read = false;
  try {
    const ByteBuffer bytes = bytes_of(path, registry_);
    was_read = true;
    if (is_same && !is_same()) return {};
    found = answer(predictor_, predictor_.predict({{bytes.data(), bytes.size()}, {}}));
  } catch (const Error& error) {
    const bool is_of_image = error.kind() != ErrorKind::device && error.kind() != ErrorKind::run;
    if (!is_of_image && !lacks_memory(error)) throw;
    append_error(found, error.what());
  } catch (const std::bad_alloc&) {
    append_error(found, kOutOfMemory);
  }
  if (!was_read && is_same && !is_same()) return {};
  return members + found;
}

void print_answer(std::string_view line) {
  if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fputc('\n', stdout) != EOF &&
      std::fflush(stdout) == 0)
    return;
  fail(ErrorKind::storage, "standard output cannot be written: {}", std::strerror(errno));
}

void answer_paths(const AnswersRequest& request, std::istream& paths, const Registry& registry) {
  const ImageAnswers answers(request, registry);
  for (std::string path; std::getline(paths, path);) {
    if (path.ends_with('\r')) path.pop_back();
    if (!path.empty()) print_answer("{" + answers.members(path) + "}");
  }
}

}  // namespace millrace
