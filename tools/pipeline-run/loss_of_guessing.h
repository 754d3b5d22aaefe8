// The loss of a network without preferences among classes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "millrace/loss.h"

namespace millrace {

// The loss of outputs that are all 0, over an image or a pixel of each class: ln(classes) for cross-entropy. Empty for
// LossTarget::values, where no such output is known.
std::optional<double> loss_of_guessing(const std::shared_ptr<const Loss>& loss, std::int64_t classes);

}  // namespace millrace
