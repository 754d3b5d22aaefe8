#include "prepare/class_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/output_file.h"
#include "plugin/loss_params.h"
#include "prepare/data_line.h"
#include "prepare/pixel_counts.h"

namespace millrace {
namespace {

// The value in a stage's table that requests the word; null if none does.
const Value* find_asking(const Value& value, std::string_view word) {
  const Value* found = nullptr;
  if (value.kind() == Value::Kind::array) {
    for (const Value& each : value.array()) found = found != nullptr ? found : find_asking(each, word);
  }
  if (value.kind() != Value::Kind::table) return found;
  for (const Member& member : value.table()) {
    if (found != nullptr) break;
    const bool asks = member.key == kClassWeights && is_word(member.value, word);
    found = asks ? &member.value : find_asking(member.value, word);
  }
  return found;
}

std::vector<double> weights_by_name(const Value& table, const std::vector<std::string>& classes) {
  std::vector<double> weights(classes.size(), 1.0);
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < classes.size(); ++i) numbers.emplace(classes[i], i);
  for (const Member& member : table.table()) {
    const auto found = numbers.find(member.key);
    if (found == numbers.end()) {
      const auto nearest = nearest_name(member.key, classes);
      constexpr std::size_t kMaxNamed = 20;
      const std::vector<std::string> first(classes.begin(),
                                           classes.begin() + static_cast<std::ptrdiff_t>(std::min(classes.size(), kMaxNamed)));
      fail(ErrorKind::usage, "{}: class_weights: unknown class '{}'; {}", to_string(member.at), member.key,
           nearest ? fmt::format("nearest is '{}'", *nearest)
                   : fmt::format("there are '{}'{}", fmt::join(first, "', '"), first.size() < classes.size() ? ", ..." : ""));
    }
    if (member.value.is_number()) weights[found->second] = member.value.number();
  }
  return weights;
}

void replace(Value& value, const CountedWeights& weights, const std::vector<std::string>& classes) {
  if (value.kind() == Value::Kind::array) {
    for (Value& each : value.array()) replace(each, weights, classes);
  }
  if (value.kind() != Value::Kind::table) return;
  for (Member& member : value.table()) {
    Value& written = member.value;
    if (member.key != kClassWeights) {
      replace(written, weights, classes);
    } else if (is_word(written, kMedianFrequency) && !weights.median.empty()) {
      written = list_of(weights.median, written.at());
    } else if (is_word(written, kBalanced) && !weights.balanced.empty()) {
      written = list_of(weights.balanced, written.at());
    } else if (written.kind() == Value::Kind::table && !classes.empty()) {
      written = list_of(weights_by_name(written, classes), written.at());
    }
  }
}

// A name that covers everything the numbers depend on; empty if that is unknown.
std::string name_of(const GraphBuild& build, const MedianWeightsSetting& setting) {
  if (build.data().fingerprint == 0) return {};
  std::uint64_t hash = combine(build.data().fingerprint, hash_text(to_toml(build.plan().stages.front().table)));
  for (const std::uint64_t part :
       {setting.seed, std::uint64_t{setting.classes}, static_cast<std::uint64_t>(build.data().image.height),
        static_cast<std::uint64_t>(build.data().image.width)}) {
    hash = combine(hash, part);
  }
  return fmt::format("{:016x}.txt", hash);
}

constexpr std::string_view kChecksum = "checksum ";

std::string checksum_line(std::string_view text) { return fmt::format("{}{:016x}\n", kChecksum, hash_text(text)); }

// One number per line, and their checksum; empty if the file was damaged.
std::optional<std::vector<double>> read_numbers(const std::filesystem::path& file, std::size_t count) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const std::size_t end = std::min(text.rfind(kChecksum), text.size());
  if (text.substr(end) != checksum_line(text.substr(0, end))) return std::nullopt;
  std::istringstream lines(text.substr(0, end));
  std::vector<double> numbers;
  for (double number = 0; lines >> number;) numbers.push_back(number);
  if (numbers.size() != count) return std::nullopt;
  return numbers;
}

// If writing fails, the numbers are counted again the next time.
void write_numbers(const std::filesystem::path& file, const std::vector<double>& numbers) {
  const std::string text = fmt::format("{}\n", fmt::join(numbers, "\n"));
  try {
    OutputFile made(file.string());
    made.write(text + checksum_line(text));
    made.commit();
  } catch (const Error&) {
  }
}

PixelCounts count_pixels(const GraphBuild& build, const MedianWeightsSetting& setting) {
  const DataLine line(build, setting.seed);
  std::vector<PixelCounts> counts(setting.threads);
  std::vector<Sample> samples(setting.threads);
  for_each_sample(line.order().listed(), setting.threads, [&](std::uint64_t i, unsigned thread) {
    Sample& sample = samples[thread];
    line.load({0, i, line.order().listed(i), 0}, DataLine::Depth::decoded, sample);
    if (!sample.fault) counts[thread].add(sample.target(), sample.target_spec().ignored);
  });
  for (std::size_t thread = 1; thread < counts.size(); ++thread) counts[0].add(counts[thread]);
  return counts[0];
}

}  // namespace

std::string place_of_class_weights(const GraphPlan& plan, std::string_view word) {
  for (const StagePlan& stage : plan.stages) {
    if (const Value* const asking = find_asking(stage.table, word)) return place_of_stage(asking->at(), plan.name, stage.name);
  }
  return {};
}

std::vector<double> median_frequency_weights(const GraphBuild& build, const MedianWeightsSetting& setting) {
  const std::string& graph = build.plan().name;
  if (build.data().target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage,
         "class_weights = \"median-frequency\" counts the pixels of label images, but the source of [{}] has none", graph);
  }
  const std::string name = setting.cache.empty() ? std::string() : name_of(build, setting);
  if (!name.empty()) {
    if (auto numbers = read_numbers(setting.cache / name, setting.classes)) return *std::move(numbers);
  }
  const PixelCounts counts = count_pixels(build, setting);
  if (counts.counted() == 0) {
    fail(ErrorKind::data, "class_weights = \"median-frequency\": no label image of [{}] could be read, or none has a class",
         graph);
  }
  std::vector<double> weights = counts.median_frequency_weights(setting.classes);
  if (!name.empty()) write_numbers(setting.cache / name, weights);
  return weights;
}

std::vector<double> balanced_weights(const GraphBuild& build, std::size_t classes) {
  const std::vector<std::uint64_t>& counts = build.data().class_counts;
  if (counts.empty()) {
    fail(ErrorKind::usage,
         "class_weights = \"balanced\" counts the images of each class, but the source of [{}] names no classes",
         build.plan().name);
  }
  const auto there = static_cast<double>(std::ranges::count_if(counts, [](std::uint64_t count) { return count > 0; }));
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  std::vector<double> weights(classes, 0.0);
  for (std::size_t c = 0; c < std::min(classes, counts.size()); ++c) {
    weights[c] = quotient(all, there * static_cast<double>(counts[c]));
  }
  return weights;
}

Value with_class_weights(Value table, const CountedWeights& weights, const std::vector<std::string>& classes) {
  replace(table, weights, classes);
  return table;
}

}  // namespace millrace
