#include "millrace/util/output_pixels.h"

#include <algorithm>
#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr float kWhite = 255;

// NaN becomes black.
std::uint8_t pixel_of(float value) {
  return value > 0 ? static_cast<std::uint8_t>(std::lround(std::min(value, kWhite))) : std::uint8_t{0};
}

}  // namespace

OutputPixels::OutputPixels(const Network* network, bool normalised) {
  if (network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage writes its result");
  const Shape& output = network->output();
  if (output.rank() != 3 || (output[0] != 1 && output[0] != 3)) {
    fail(ErrorKind::usage, "the network's result is {}: a picture has 1 or 3 channels, height and width", to_string(output));
  }
  const auto channels = static_cast<std::size_t>(output[0]);
  shape_ = {static_cast<int>(output[1]), static_cast<int>(output[2]), static_cast<int>(output[0])};
  factor_.assign(channels, kWhite);
  summand_.assign(channels, 0);
  if (!normalised) return;
  if (network->mean.size() != channels) {
    fail(ErrorKind::usage,
         "the network's input has {} channels and its result {}: mean and deviation are those of the input; set normalised = "
         "false",
         network->mean.size(), channels);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    factor_[c] = kWhite * static_cast<float>(network->deviation[c]);
    summand_[c] = kWhite * static_cast<float>(network->mean[c]);
  }
}

void OutputPixels::draw(std::span<const float> values, std::vector<std::uint8_t>& pixels) const {
  pixels.resize(values.size());
  const std::size_t channels = factor_.size(), places = values.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t place = 0; place < places; ++place)
      pixels[place * channels + c] = pixel_of(values[c * places + place] * factor_[c] + summand_[c]);
  }
}

}  // namespace millrace
