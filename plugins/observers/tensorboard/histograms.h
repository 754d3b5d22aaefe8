// Histograms of what a checkpoint holds.
#pragma once

#include <event.pb.h>

#include <filesystem>
#include <optional>
#include <span>

namespace millrace::tensorboard {

// Of the finite ones among the values; nothing where there is none.
std::optional<Histogram> histogram_of(std::span<const float> values);

// Of each parameter its values, "weights/fc.weight", and of what its optimizer keeps, "momentum/fc.weight"; then the size of that
// beside the values, "momentum_to_weights/fc.weight": the ratio of the roots of mean squares. The same of "gradient/fc.weight",
// where `gradients` is a file that the stage write_gradients has written. Throws Error(data) where the checkpoint is not a folder
// on this machine, or is gone.
void add_histograms(const std::filesystem::path& checkpoint, const std::filesystem::path& gradients, Summary& summary);

}  // namespace millrace::tensorboard
