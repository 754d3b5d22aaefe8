// A synthetic measurement with known times.
#pragma once

#include "calibration.h"

namespace millrace::profile_test {

inline constexpr double kDecode = 2e-3;  // core seconds per image

inline RunFacts facts() {
  RunFacts facts{.graph = "train", .cores = 7, .threads = 2, .io_threads = 2, .batch = 64, .buffers = 3};
  facts.stages = {{"read"}, {"decode_image"}, {"augment"}, {"batch"}};
  facts.devices = {.replicas = 1, .here = 1, .backend = "cuda", .submits_ahead = true};
  facts.image_side = 224;
  return facts;
}

// A run of two data threads that decode without a pause, and of a device that works 40 % of the time. The threads get this share
// of the core time that they want.
inline Calibration calibration(double share_of_cores = 1) {
  constexpr double kSteps = 5, kSamples = 64 * kSteps;
  constexpr auto kCount = static_cast<std::uint64_t>(kSamples);
  const double busy = kSamples * kDecode / share_of_cores;
  Window window{.seconds = busy / 2, .steps = kSteps};
  window.stages = {{kSamples * 1e-5, kCount / 8, kCount, kSamples * 1e-5},
                   {busy, kCount / 8, kCount, kSamples * kDecode},
                   {0, kCount / 8, kCount},
                   {0, kCount / 8, kCount}};
  window.device_seconds = kSamples * 0.4e-3;
  window.device_samples = kCount;
  window.data = {kSamples * kDecode, busy - kSamples * kDecode};
  window.io = {kSamples * 1e-5, 0};
  Calibration measured{facts(), {}};
  measured.windows.assign(20, window);
  return measured;
}

}  // namespace millrace::profile_test
