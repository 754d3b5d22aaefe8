// A measurement that was never made: its times are known.
#pragma once

#include "measurement.h"

namespace millrace::profile_test {

inline constexpr double kDecode = 2e-3;  // seconds of a core for an image

inline RunFacts facts() {
  RunFacts facts{.graph = "train", .cores = 8, .threads = 2, .io_threads = 2, .batch = 64, .buffers = 3};
  facts.stages = {{"read"}, {"decode_image"}, {"augment"}, {"batch"}};
  facts.devices = {.replicas = 1, .backend = "cuda", .submits_ahead = true};
  facts.image_side = 224;
  return facts;
}

// A run of two data threads that decode without a pause, and of a device that works 40 % of the time. The threads get this share
// of the cores that they want.
inline Measurement measurement(double share_of_cores = 1) {
  Measurement measured{facts(), {}};
  for (int i = 0; i <= 20; ++i) {
    const double steps = 5.0 * i, samples = steps * 64, busy = samples * kDecode / share_of_cores;
    Look look{.at = busy / 2, .steps = steps};
    const auto count = static_cast<std::uint64_t>(samples);
    look.stages = {{samples * 1e-5, count / 8, count}, {busy, count / 8, count}, {0, count / 8, count}, {0, count / 8, count}};
    look.device_seconds = samples * 0.4e-3;
    look.device_samples = count;
    look.data = {samples * kDecode, busy - samples * kDecode};
    look.io = {samples * 1e-5, 0};
    measured.looks.push_back(std::move(look));
  }
  return measured;
}

}  // namespace millrace::profile_test
