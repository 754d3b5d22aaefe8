#include "stages/probe.h"

#include "millrace/error.h"
#include "millrace/util/centre.h"
#include "network/whitening.h"
#include "stages/data_line.h"

namespace millrace {
namespace {

constexpr std::uint64_t kWhiteningImages = 5000;

// The centre of the image, without the recorded augmentation.
void normalise(const Sample& sample, const Network& network, std::vector<std::uint8_t>& bytes, std::vector<float>& image) {
  const ImageShape window = network.input;
  AugmentationRecord centre;
  centre.x = static_cast<std::int16_t>(centred(sample.image().shape.width, window.width));
  centre.y = static_cast<std::int16_t>(centred(sample.image().shape.height, window.height));
  bytes.resize(window.bytes());
  apply_record(centre, sample.image(), window, bytes.data());
  image.resize(window.bytes());
  const auto channels = static_cast<std::size_t>(window.channels);
  const std::size_t pixels = bytes.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < pixels; ++p) {
      image[c * pixels + p] =
          static_cast<float>((static_cast<double>(bytes[p * channels + c]) / 255 - network.mean[c]) / network.deviation[c]);
    }
  }
}

}  // namespace

void probe_samples(const GraphBuild& build, const Network& network, std::uint64_t seed, std::uint64_t count,
                   const std::function<void(std::span<const float> image)>& take) {
  const DataLine line(build, seed);
  Sample sample;
  std::vector<std::uint8_t> bytes;
  std::vector<float> image;
  for (std::uint64_t position = 0; position < count; ++position) {
    SampleKey key{.epoch = 0, .position = position};
    Draw draw(seed, key, hash_text("probe"));
    key.index =
        line.order().listed(static_cast<std::uint64_t>(draw.integer(0, static_cast<std::int64_t>(line.order().listed()) - 1)));
    line.load(key, DataLine::Depth::decoded, sample);
    if (sample.fault) continue;
    normalise(sample, network, bytes, image);
    take(image);
  }
}

std::vector<float> first_values(const Parameter& parameter, const Network& network, std::uint64_t seed, const GraphBuild& build) {
  if (parameter.initialiser.rule != "whiten") return initial_values(parameter, seed);
  if (!build.data().source)
    fail(ErrorKind::usage, "parameter '{}' is initialised by whitening, which needs a source", parameter.name);
  PatchStatistics patches(parameter.shape);
  probe_samples(build, network, seed, kWhiteningImages,
                [&](std::span<const float> image) { patches.add(image, network.input.height, network.input.width); });
  if (patches.patches() == 0)
    fail(ErrorKind::data, "parameter '{}' is initialised by whitening: no image could be read", parameter.name);
  return patches.filters();
}

}  // namespace millrace
