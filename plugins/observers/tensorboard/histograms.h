// Histograms of a checkpoint's contents.
#pragma once

#include <event.pb.h>

#include <filesystem>
#include <optional>
#include <span>

namespace millrace::tensorboard {

// Covers the finite values; empty if there are none.
std::optional<Histogram> histogram_of(std::span<const float> values);

// For each parameter its values, "weights/fc.weight", and its optimizer state, "momentum/fc.weight"; then the ratio of their root
// mean squares, "momentum_to_weights/fc.weight". The same for "gradient/fc.weight" if `gradients` is a file of the stage
// write_gradients. Throws Error(data) if the checkpoint is missing or not a folder on this machine.
void add_histograms(const std::filesystem::path& checkpoint, const std::filesystem::path& gradients, Summary& summary);

}  // namespace millrace::tensorboard
