// pipeline-data statistics: a data set's values for a network's `input`, and for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "counter.h"
#include "data_set.h"
#include "millrace/error.h"
#include "millrace/util/text.h"
#include "prepare/image_summary.h"
#include "prepare/pixel_counts.h"
#include "target_statistics.h"
#include "verbs.h"

namespace millrace {
namespace {

// Properties of the files before any preparation.
struct Files {
  std::map<std::string, std::uint64_t> formats, sizes;  // number of files by property
  std::map<int, std::uint64_t> channels, bits, orientations;
  ImageSummary extents;
  double least = 1, most = 0;  // over all values

  void add(const ImageFacts& facts) {
    ++formats[std::string(facts.format)];
    ++sizes[fmt::format("{} x {}", facts.height, facts.width)];
    ++channels[facts.channels];
    ++bits[facts.bits];
    ++orientations[facts.orientation];
    extents.add(facts);
    least = std::min(least, facts.least);
    most = std::max(most, facts.most);
  }

  void add(const Files& other) {
    const auto merge = [](auto& into, const auto& from) {
      for (const auto& [key, count] : from) into[key] += count;
    };
    merge(formats, other.formats);
    merge(sizes, other.sizes);
    merge(channels, other.channels);
    merge(bits, other.bits);
    merge(orientations, other.orientations);
    extents.add(other.extents);
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

// One thread's share. Sums of bytes and of their squares are exact in 64 bits: 2^64 / 255^2 pixels.
struct Sums {
  std::array<std::uint64_t, 4> values{}, squares{};
  std::uint64_t pixels = 0, images = 0, encoded = 0, bad = 0;
  ImageShape least{1 << 30, 1 << 30, 0}, most{};
  std::map<std::int32_t, std::uint64_t> labels;
  PixelCounts of_targets;
  std::vector<NumberColumn> numbers;
  Files files;

  void add(const Sample& sample) {
    if (sample.fault) {
      ++bad;
      return;
    }
    const ImageView image = sample.image();
    const auto channels = static_cast<std::size_t>(image.shape.channels);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      std::uint64_t sum = 0, square = 0;
      for (std::size_t i = channel; i < image.shape.bytes(); i += channels) {
        const std::uint32_t value = image.data[i];
        sum += value;
        square += value * value;
      }
      values[channel] += sum;
      squares[channel] += square;
    }
    pixels += image.shape.bytes() / channels;
    encoded += sample.encoded.size();
    ++images;
    least.height = std::min(least.height, image.shape.height);
    least.width = std::min(least.width, image.shape.width);
    most.height = std::max(most.height, image.shape.height);
    most.width = std::max(most.width, image.shape.width);
    most.channels = std::max(most.channels, image.shape.channels);
    if (sample.label >= 0) ++labels[sample.label];
    if (sample.target_spec().kind == TargetSpec::Kind::classes) of_targets.add(sample.target(), sample.target_spec().ignored);
    for (std::size_t i = 0; i < sample.numbers.size(); ++i) numbers[i % numbers.size()].add(sample.numbers[i]);
  }

  void add(const Sums& other) {
    for (std::size_t channel = 0; channel < values.size(); ++channel) {
      values[channel] += other.values[channel];
      squares[channel] += other.squares[channel];
    }
    pixels += other.pixels;
    images += other.images;
    encoded += other.encoded;
    bad += other.bad;
    least.height = std::min(least.height, other.least.height);
    least.width = std::min(least.width, other.least.width);
    most.height = std::max(most.height, other.most.height);
    most.width = std::max(most.width, other.most.width);
    most.channels = std::max(most.channels, other.most.channels);
    for (const auto& [label, samples] : other.labels) labels[label] += samples;
    of_targets.add(other.of_targets);
    files.add(other.files);
    for (std::size_t column = 0; column < other.numbers.size(); ++column) numbers[column].add(other.numbers[column]);
  }
};

// "3: 5990, 1: 10", the most frequent first.
template <class Key>
std::string counts_text(const std::map<Key, std::uint64_t>& counts) {
  constexpr std::size_t kMaxNamed = 6;
  std::vector<std::pair<Key, std::uint64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& each) { return each.second; });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(sorted.size(), kMaxNamed); ++i)
    texts.push_back(fmt::format("{}: {}", sorted[i].first, sorted[i].second));
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     sorted.size() > kMaxNamed ? fmt::format(", and {} others", sorted.size() - kMaxNamed) : "");
}

void print_files(const Files& files) {
  const ImageSummary& extents = files.extents;
  if (extents.looked_at == 0) return;
  fmt::print("files, as they are stored, and how many\n");
  fmt::print("format     {}\nsize       {}\n", counts_text(files.formats), counts_text(files.sizes));
  fmt::print("height     {:.0f} to {:.0f}\nwidth      {:.0f} to {:.0f}\naspect     {:.3f} to {:.3f}\n", extents.height.least,
             extents.height.most, extents.width.least, extents.width.most, extents.aspect.least, extents.aspect.most);
  fmt::print("channels   {}\nbits       {}\nturned     {}   # by EXIF orientation\n", counts_text(files.channels),
             counts_text(files.bits), counts_text(files.orientations));
  fmt::print(
      "mean       {:.3f} to {:.3f}\ndeviation  {:.3f} to {:.3f}\nvalues     {:.3f} to {:.3f}   # of small versions, 0 to 1\n\n",
      extents.mean.least, extents.mean.most, extents.deviation.least, extents.deviation.most, files.least, files.most);
}

void print_images(const Sums& sums) {
  std::vector<double> mean, deviation;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(sums.most.channels); ++channel) {
    const auto pixels = static_cast<double>(sums.pixels);
    mean.push_back(static_cast<double>(sums.values[channel]) / pixels / 255);
    deviation.push_back(
        std::sqrt(std::max(0.0, static_cast<double>(sums.squares[channel]) / pixels / 255 / 255 - mean.back() * mean.back())));
  }
  fmt::print("images as they arrive at `batch`\n");
  fmt::print("images     {}, and {} bad\n", sums.images, sums.bad);
  fmt::print("height     {} to {}\nwidth      {} to {}\nchannels   {}\n", sums.least.height, sums.most.height, sums.least.width,
             sums.most.width, sums.most.channels);
  fmt::print("encoded    {} bytes, {:.0f} an image\n\n", sums.encoded,
             static_cast<double>(sums.encoded) / static_cast<double>(sums.images));
  fmt::print("mean = [{:.4f}], deviation = [{:.4f}]   # of a network's input, over all pixels\n", fmt::join(mean, ", "),
             fmt::join(deviation, ", "));
}

void print_labels(const Sums& sums, const DataSet& data) {
  if (sums.labels.empty()) return;
  fmt::print("\n{:>6}  {:<32} {:>10}\n", "label", "class", "images");
  for (const auto& [label, samples] : sums.labels) fmt::print("{:>6}  {:<32} {:>10}\n", label, data.class_name(label), samples);
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// The classes' shares refer to the counted pixels. Classes may lack names.
void print_pixels(const PixelCounts& counts, std::vector<std::string> classes) {
  if (counts.images() == 0) return;
  while (classes.size() < counts.classes()) classes.push_back(fmt::format("class {}", classes.size()));
  const std::vector<double> weights = counts.median_frequency_weights(classes.size());
  fmt::print("\n{:>6}  {:<32} {:>14} {:>8} {:>10} {:>10}\n", "id", "class of pixels", "pixels", "share", "images", "weight");
  for (std::size_t id = 0; id < classes.size(); ++id) {
    fmt::print("{:>6}  {:<32} {:>14} {:>7.3f}% {:>10} {:>10.4f}\n", id, line_text(classes[id]), counts[id].pixels,
               percent(counts[id].pixels, counts.counted()), counts[id].images, weights[id]);
  }
  const std::uint64_t all = counts.counted() + counts.ignored();
  fmt::print("{:>6}  {:<32} {:>14} {:>7.3f}% of all\n\n", "", "ignored", counts.ignored(), percent(counts.ignored(), all));
  fmt::print("weights = [{:.4f}]   # of the classes, by median frequency\n", fmt::join(weights, ", "));
}

// The name from a list's `numbers`; else the index from 0, as in rows.
std::string column_name(const DataSet& data, std::size_t column) {
  const Value* names = data.build().plan().stages.front().table.find("numbers");
  const bool named = names && !data.line().source().has_rows() && names->kind() == Value::Kind::array &&
                     column < names->array().size() && names->array()[column].kind() == Value::Kind::text;
  return named ? line_text(names->array()[column].text()) : fmt::format("{}", column);
}

void print_numbers(const std::vector<NumberColumn>& numbers, const DataSet& data) {
  if (numbers.empty()) return;
  fmt::print("\n{:<24} {:>10} {:>14} {:>14} {:>14} {:>14}\n", "number", "count", "least", "most", "mean", "deviation");
  for (std::size_t column = 0; column < numbers.size(); ++column) {
    const NumberColumn& figures = numbers[column];
    fmt::print("{:<24} {:>10} {:>14.6g} {:>14.6g} {:>14.6g} {:>14.6g}\n", column_name(data, column), figures.count(),
               figures.least(), figures.most(), figures.mean(), figures.deviation());
  }
}

}  // namespace

int statistics_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data statistics", "PIPELINE.toml [options]",
      "Describes the stored files of a graph's source: formats, sizes, channels, bits, EXIF orientation and levels;\n"
      "mean and deviation of each channel, sizes and bytes, over every image at `batch` (without augment's work on\n"
      "devices); and targets: images of each label, pixels of each class of label images, with weights of median\n"
      "frequency balancing (without ignored pixels), and count, minimum, maximum, mean and deviation of each\n"
      "column of numbers. Bad samples are skipped and counted.");
  options.declare(reader);
  options.declare_threads(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data statistics");
  const DataSet data(options, DataSet::Stages::images);
  const DataLine& line = data.line();
  const unsigned threads = options.thread_count();
  std::vector<Sums> sums(threads);
  for (Sums& each : sums) each.numbers.resize(line.source().numbers());
  std::vector<Sample> samples(threads);
  const KnowsImageFacts* const decoder = file_decoder(data.build());
  {
    Counter counter("looked at", line.order().listed());
    for_each_sample(line.order().listed(), threads, [&](std::uint64_t i, unsigned thread) {
      data.load({0, i, line.order().listed(i), 0}, DataLine::Depth::decoded, samples[thread]);
      sums[thread].add(samples[thread]);
      if (decoder != nullptr && !samples[thread].fault) sums[thread].files.add(decoder->facts(samples[thread]));
      counter.add();
    });
  }
  for (unsigned thread = 1; thread < threads; ++thread) sums[0].add(sums[thread]);
  if (sums[0].images == 0) fail(ErrorKind::data, "none of {} images could be decoded; see pipeline-data check", sums[0].bad);
  print_files(sums[0].files);
  print_images(sums[0]);
  print_labels(sums[0], data);
  print_pixels(sums[0].of_targets, line.order().classes());
  print_numbers(sums[0].numbers, data);
  return 0;
}

}  // namespace millrace
