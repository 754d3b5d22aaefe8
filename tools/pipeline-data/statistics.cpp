// pipeline-data statistics: what a network's `input` wants to know of a data set, and what a person does.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "data_set.h"
#include "millrace/error.h"
#include "verbs.h"

namespace millrace {
namespace {

// One thread's share. Sums of bytes and of their squares are exact in 64 bits: 2^64 / 255^2 pixels.
struct Sums {
  std::array<std::uint64_t, 4> values{}, squares{};
  std::uint64_t pixels = 0, images = 0, encoded = 0, bad = 0;
  ImageShape least{1 << 30, 1 << 30, 0}, most{};
  std::map<std::int32_t, std::uint64_t> labels;

  void add(const Sample& sample) {
    if (sample.fault) {
      ++bad;
      return;
    }
    const Image& image = sample.image();
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
    ++labels[sample.label];
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
  }
};

void print(const Sums& sums, const DataSet& data) {
  std::vector<double> mean, deviation;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(sums.most.channels); ++channel) {
    const auto pixels = static_cast<double>(sums.pixels);
    mean.push_back(static_cast<double>(sums.values[channel]) / pixels / 255);
    deviation.push_back(
        std::sqrt(std::max(0.0, static_cast<double>(sums.squares[channel]) / pixels / 255 / 255 - mean.back() * mean.back())));
  }
  fmt::print("images     {}, and {} bad\n", sums.images, sums.bad);
  fmt::print("height     {} to {}\nwidth      {} to {}\nchannels   {}\n", sums.least.height, sums.most.height, sums.least.width,
             sums.most.width, sums.most.channels);
  fmt::print("encoded    {} bytes, {:.0f} an image\n\n", sums.encoded,
             static_cast<double>(sums.encoded) / static_cast<double>(sums.images));
  fmt::print("mean = [{:.4f}], deviation = [{:.4f}]   # of a network's input, over all pixels\n\n", fmt::join(mean, ", "),
             fmt::join(deviation, ", "));
  for (const auto& [label, samples] : sums.labels) fmt::print("{:>6}  {:<32} {:>10}\n", label, data.class_name(label), samples);
}

}  // namespace

int statistics_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data statistics", "PIPELINE.toml [options]",
      "Mean and deviation of each channel, sizes, bytes and a histogram of labels, over every image of a graph's source as\n"
      "it arrives at `batch` (what augment leaves to the device is not applied).");
  options.declare(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data statistics");
  const DataSet data(options);
  const DataLine& line = data.line();
  const unsigned threads = options.thread_count();
  std::vector<Sums> sums(threads);
  std::vector<Sample> samples(threads);
  {
    Counter counter("looked at", line.order().listed());
    for_each_sample(line.order().listed(), threads, [&](std::uint64_t i, unsigned thread) {
      line.load({0, i, line.order().listed(i), 0}, DataLine::Depth::decoded, samples[thread]);
      sums[thread].add(samples[thread]);
      counter.add();
    });
  }
  for (unsigned thread = 1; thread < threads; ++thread) sums[0].add(sums[thread]);
  if (sums[0].images == 0) fail(ErrorKind::data, "none of {} images could be decoded; see pipeline-data check", sums[0].bad);
  print(sums[0], data);
  return 0;
}

}  // namespace millrace
