#include "prepare/image_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/sample_order.h"
#include "millrace/error.h"
#include "millrace/util/text.h"
#include "prepare/data_line.h"
#include "toml/document.h"

namespace millrace {
namespace {

constexpr std::uint64_t kLookedAt = 256;  // training files read
constexpr double kBeyond = 0.25;          // allowed margin beyond the range, as a share of it
constexpr double kSameLevel = 0.1;        // smaller differences of level are ignored, however uniform the training images are

using Extent = ImageSummary::Extent;

struct Measure {
  const char* name;
  Extent ImageSummary::*extent;
  double (*of)(const ImageFacts&);
  bool is_level;  // else its logarithm is compared
};

constexpr std::array kMeasures = {
    Measure{"height", &ImageSummary::height, [](const ImageFacts& facts) { return static_cast<double>(facts.height); }, false},
    Measure{"width", &ImageSummary::width, [](const ImageFacts& facts) { return static_cast<double>(facts.width); }, false},
    Measure{"aspect", &ImageSummary::aspect,
            [](const ImageFacts& facts) { return static_cast<double>(facts.width) / facts.height; }, false},
    Measure{"mean", &ImageSummary::mean, [](const ImageFacts& facts) { return facts.mean; }, true},
    Measure{"deviation", &ImageSummary::deviation, [](const ImageFacts& facts) { return facts.deviation; }, true},
};

bool lies_outside(const Measure& measure, const Extent& extent, double value) {
  const auto scaled = [&](double each) { return measure.is_level ? each : std::log(std::max(each, 1e-9)); };
  const double least = scaled(extent.least), most = scaled(extent.most);
  const double beyond = std::max(kBeyond * (most - least), measure.is_level ? kSameLevel : 1e-4);
  return scaled(value) < least - beyond || scaled(value) > most + beyond;
}

std::string text_of(const Extent& extent) {
  return extent.least == extent.most ? fmt::format("{:.4g}", extent.least)
                                     : fmt::format("{:.4g} to {:.4g}", extent.least, extent.most);
}

std::optional<Extent> extent_in(const Value& table, const char* key) {
  const Value* const both = table.find(key);
  if (both == nullptr || both->kind() != Value::Kind::array || both->array().size() != 2) return std::nullopt;
  if (!std::ranges::all_of(both->array(), &Value::is_number)) return std::nullopt;
  return Extent{both->array()[0].number(), both->array()[1].number()};
}

std::optional<std::set<int>> numbers_in(const Value& table, const char* key) {
  const Value* const all = table.find(key);
  if (all == nullptr || all->kind() != Value::Kind::array) return std::nullopt;
  std::set<int> numbers;
  for (const Value& each : all->array()) {
    if (each.kind() != Value::Kind::integer || each.integer() < 1 || each.integer() > 64) return std::nullopt;
    numbers.insert(static_cast<int>(each.integer()));
  }
  return numbers;
}

Value list_of(const std::set<int>& numbers) {
  Array list;
  for (const int each : numbers) list.emplace_back(static_cast<std::int64_t>(each));
  return Value(std::move(list));
}

// The file before `pipeline-data pack` shrunk it, because images to predict are usually not packed.
ImageFacts before_packing(ImageFacts facts) {
  if (facts.origin.height == 0) return facts;
  facts.height = facts.origin.height;
  facts.width = facts.origin.width;
  facts.channels = facts.origin.channels;
  facts.bits = facts.origin.bits;
  return facts;
}

}  // namespace

const KnowsImageFacts* file_decoder(const GraphBuild& build) {
  for (const auto& instances : build.stages()) {
    const auto* const stage = instances.empty() ? nullptr : dynamic_cast<const KnowsImageFacts*>(instances.front().get());
    if (stage != nullptr) return stage;
  }
  return nullptr;
}

void ImageSummary::add(const ImageFacts& facts) {
  for (const Measure& measure : kMeasures) {
    Extent& extent = this->*measure.extent;
    const double value = measure.of(facts);
    extent = looked_at == 0 ? Extent{value, value} : Extent{std::min(extent.least, value), std::max(extent.most, value)};
  }
  channels.insert(facts.channels);
  bits.insert(facts.bits);
  ++looked_at;
}

void ImageSummary::add(const ImageSummary& other) {
  if (other.looked_at == 0) return;
  for (const Measure& measure : kMeasures) {
    Extent& extent = this->*measure.extent;
    const Extent& more = other.*measure.extent;
    extent = looked_at == 0 ? more : Extent{std::min(extent.least, more.least), std::max(extent.most, more.most)};
  }
  channels.insert(other.channels.begin(), other.channels.end());
  bits.insert(other.bits.begin(), other.bits.end());
  looked_at += other.looked_at;
}

std::string ImageSummary::text() const {
  std::string text;
  for (const Measure& measure : kMeasures) text += fmt::format("{} {}, ", measure.name, text_of(this->*measure.extent));
  return text + fmt::format("channels {}, bits {}", fmt::join(channels, " and "), fmt::join(bits, " and "));
}

std::vector<std::string> ImageSummary::differences(const ImageFacts& facts) const {
  std::vector<std::string> found;
  if (!channels.contains(facts.channels))
    found.push_back(fmt::format("channels ({}, in training {})", facts.channels, fmt::join(channels, ", ")));
  if (!bits.contains(facts.bits)) found.push_back(fmt::format("bits ({}, in training {})", facts.bits, fmt::join(bits, ", ")));
  for (const Measure& measure : kMeasures) {
    const Extent& extent = this->*measure.extent;
    if (lies_outside(measure, extent, measure.of(facts)))
      found.push_back(fmt::format("{} ({:.4g}, in training {})", measure.name, measure.of(facts), text_of(extent)));
  }
  return found;
}

std::map<std::string, std::string> metadata_of(const ImageSummary& summary) {
  Value table;
  table.set("looked_at", Value(static_cast<std::int64_t>(summary.looked_at)));
  for (const Measure& measure : kMeasures) {
    const Extent& extent = summary.*measure.extent;
    table.set(measure.name, Value(Array{Value(extent.least), Value(extent.most)}));
  }
  table.set("channels", list_of(summary.channels));
  table.set("bits", list_of(summary.bits));
  return {{ImageSummary::kKey, to_toml(table)}};
}

std::optional<ImageSummary> image_summary_from(const std::map<std::string, std::string>& metadata) {
  constexpr std::size_t kLongest = 4096;
  const auto text = metadata.find(ImageSummary::kKey);
  if (text == metadata.end() || text->second.size() > kLongest) return std::nullopt;
  Diagnostics ignored;
  const auto table = parse_toml(text->second, ImageSummary::kKey, ignored);
  const Value* const looked_at = table ? table->find("looked_at") : nullptr;
  if (looked_at == nullptr || looked_at->kind() != Value::Kind::integer || looked_at->integer() < 1) return std::nullopt;
  ImageSummary summary;
  summary.looked_at = static_cast<std::uint64_t>(looked_at->integer());
  for (const Measure& measure : kMeasures) {
    const auto extent = extent_in(*table, measure.name);
    if (!extent) return std::nullopt;
    summary.*measure.extent = *extent;
  }
  const auto channels = numbers_in(*table, "channels"), bits = numbers_in(*table, "bits");
  if (!channels || !bits) return std::nullopt;
  summary.channels = *channels;
  summary.bits = *bits;
  return summary;
}

std::uint64_t check_files(const GraphBuild& build, std::uint64_t most, unsigned threads,
                          const std::function<void(const std::string& place, const ImageFacts& facts)>& take) {
  const KnowsImageFacts* const decoder = file_decoder(build);
  if (decoder == nullptr || build.data().source == nullptr) return 0;
  struct Seen {
    std::string place;
    std::optional<ImageFacts> facts;
  };
  const SampleOrder order(*build.data().source, 0);
  std::vector<Seen> seen(std::min(most, order.listed()));
  std::vector<Sample> samples(std::max(threads, 1U));
  for_each_sample(seen.size(), threads, [&](std::uint64_t i, unsigned thread) {
    Sample& sample = samples[thread];
    const std::uint64_t index = order.listed(i * order.listed() / seen.size());
    const auto is_read = [&] { return build.data().read_sample(index, sample).empty(); };
    if (!is_read() && !is_read()) return;  // retried, so that a transient fault does not change what the weights hold
    try {
      seen[i] = {sample.place(), before_packing(decoder->facts(sample))};
    } catch (const Error&) {  // a bad sample is named later
    }
  });
  for (const Seen& each : seen) {
    if (each.facts) take(each.place, *each.facts);
  }
  return order.listed();
}

std::optional<ImageSummary> summary_of_files(const GraphBuild& build, unsigned threads) {
  ImageSummary summary;
  check_files(build, kLookedAt, threads, [&](const std::string&, const ImageFacts& facts) { summary.add(facts); });
  return summary.looked_at == 0 ? std::nullopt : std::optional(std::move(summary));
}

std::string unlike_images(const ImageSummary& summary, const GraphBuild& build, std::uint64_t most, unsigned threads) {
  std::uint64_t looked_at = 0, unlike = 0;
  std::map<std::string, std::pair<std::uint64_t, std::string>> reasons;  // by measure: their number, and the first one
  const std::uint64_t listed = check_files(build, most, threads, [&](const std::string& place, const ImageFacts& facts) {
    ++looked_at;
    const std::vector<std::string> found = summary.differences(facts);
    if (!found.empty()) ++unlike;
    for (const std::string& each : found) {
      const auto [reason, is_new] = reasons.try_emplace(each.substr(0, each.find(' ')), 0, "");
      if (++reason->second.first == 1)
        reason->second.second = fmt::format("'{}' {}", line_text(place), each.substr(each.find('(')));
    }
  });
  if (unlike == 0) return {};
  std::vector<std::string> texts;
  for (const auto& [name, counted] : reasons)
    texts.push_back(fmt::format("{} of {}, such as {}", name, counted.first, counted.second));
  return fmt::format(
      "{} of {} images{} are unlike those that the weights were trained on ({} were checked): {}. Predictions for such images "
      "may be meaningless",
      unlike, looked_at, looked_at < listed ? fmt::format(" (of {})", listed) : "", summary.looked_at, fmt::join(texts, "; "));
}

}  // namespace millrace
