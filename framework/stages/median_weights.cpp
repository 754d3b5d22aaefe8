#include "stages/median_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "plugin/loss_params.h"
#include "stages/data_line.h"
#include "stages/pixel_counts.h"

namespace millrace {
namespace {

// What asks for the numbers, in a stage's table; null: nothing.
const Value* find_asking(const Value& value) {
  const Value* found = nullptr;
  if (value.kind() == Value::Kind::array) {
    for (const Value& each : value.array()) found = found != nullptr ? found : find_asking(each);
  }
  if (value.kind() != Value::Kind::table) return found;
  for (const Member& member : value.table()) {
    if (found != nullptr) break;
    const bool asks = member.key == kClassWeights && is_median_frequency(member.value);
    found = asks ? &member.value : find_asking(member.value);
  }
  return found;
}

void replace(Value& value, const std::vector<double>& weights) {
  if (value.kind() == Value::Kind::array) {
    for (Value& each : value.array()) replace(each, weights);
  }
  if (value.kind() != Value::Kind::table) return;
  for (Member& member : value.table()) {
    if (member.key == kClassWeights && is_median_frequency(member.value))
      member.value = list_of(weights, member.value.at());
    else
      replace(member.value, weights);
  }
}

// A name for everything that the numbers depend on; empty where that is not known.
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

// One number a line, and a checksum of them; nothing where they are not what was written.
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

// Where it cannot be written, the numbers are counted again the next time.
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

std::string place_of_median_weights(const GraphPlan& plan) {
  for (const StagePlan& stage : plan.stages) {
    if (const Value* const asking = find_asking(stage.table)) return place_of_stage(asking->at(), plan.name, stage.name);
  }
  return {};
}

std::vector<double> median_frequency_weights(const GraphBuild& build, const MedianWeightsSetting& setting) {
  const std::string& graph = build.plan().name;
  if (build.data().target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage,
         "class_weights = \"median-frequency\" counts the pixels of label images, and the source of [{}] has none", graph);
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

Value with_median_weights(Value table, const std::vector<double>& weights) {
  if (!weights.empty()) replace(table, weights);
  return table;
}

}  // namespace millrace
