#include "histograms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <system_error>

#include "millrace/util/tensor_values.h"
#include "millrace/util/text.h"

namespace millrace::tensorboard {
namespace {

constexpr int kBuckets = 64;

double root_mean_square(const Histogram& histogram) { return std::sqrt(histogram.sum_of_squares() / histogram.count()); }

// A name in a checkpoint: "fc.weight/momentum"; per replica "bn1.running_mean/value/0".
struct StateName {
  std::string parameter, state, replica;
  explicit StateName(const std::string& name) {
    const std::size_t first = name.find('/'), second = first == name.npos ? name.npos : name.find('/', first + 1);
    parameter = name.substr(0, first);
    if (first != name.npos) state = name.substr(first + 1, second - first - 1);
    if (second != name.npos) replica = name.substr(second + 1);
  }
  bool is_shown() const { return replica.empty() || replica == "0"; }
};

}  // namespace

std::optional<Histogram> histogram_of(std::span<const float> values) {
  Histogram histogram;
  double least = INFINITY, most = -INFINITY, count = 0, sum = 0, squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double each = value;
    least = std::min(least, each);
    most = std::max(most, each);
    sum += each;
    squares += each * each;
    ++count;
  }
  if (count == 0) return std::nullopt;
  histogram.set_minimum(least);
  histogram.set_maximum(most);
  histogram.set_count(count);
  histogram.set_sum(sum);
  histogram.set_sum_of_squares(squares);
  const int buckets = most > least ? kBuckets : 1;
  const double width = (most - least) / buckets;
  std::vector<double> counts(static_cast<std::size_t>(buckets), 0);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const int bucket = width > 0 ? static_cast<int>((value - least) / width) : 0;
    ++counts[static_cast<std::size_t>(std::min(bucket, buckets - 1))];
  }
  for (int i = 0; i < buckets; ++i) {
    histogram.add_limit(i + 1 == buckets ? most : least + width * (i + 1));
    histogram.add_bucket(counts[static_cast<std::size_t>(i)]);
  }
  return histogram;
}

void add_histograms(const std::filesystem::path& checkpoint, const std::filesystem::path& gradients, Summary& summary) {
  std::map<std::string, double> sizes;  // root mean squares of weights, by parameter
  const auto add = [&](const std::string& name, std::span<const float> values) {
    const StateName of(name);
    const std::optional<Histogram> histogram = of.is_shown() ? histogram_of(values) : std::nullopt;
    if (!histogram) return;
    const bool is_weights = of.state == "value";
    Summary::Value& value = *summary.add_value();
    value.set_tag(utf8_text((is_weights ? "weights/" : of.state + "/") + of.parameter));
    *value.mutable_histogram() = *histogram;
    if (is_weights) {
      sizes[of.parameter] = root_mean_square(*histogram);
    } else if (const auto weights = sizes.find(of.parameter); weights != sizes.end() && weights->second > 0) {
      Summary::Value& ratio = *summary.add_value();
      ratio.set_tag(utf8_text(of.state + "_to_weights/" + of.parameter));
      ratio.set_simple_value(static_cast<float>(root_mean_square(*histogram) / weights->second));
    }
  };
  for_each_tensor((checkpoint / "state.safetensors").string(), add);
  std::error_code ignored;
  if (std::filesystem::exists(gradients, ignored)) for_each_tensor(gradients.string(), add);
}

}  // namespace millrace::tensorboard
