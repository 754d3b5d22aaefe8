// Every layer type, alone and in the combinations that backends fuse, as small networks: the table from which a backend is tested
// against a definition (plugins/backends/cpu) or against another backend (tests/gpu).
//
//   const std::shared_ptr<const Network> network = network_from_text(network_text(tested));
//
// Few channel counts are multiples of what a backend may pad to, on purpose. Five classes.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "millrace/detail/tensor.h"

namespace millrace::testkit {

struct OperatorCase {
  const char* name;
  ImageShape input;
  const char* layers;  // between the input and the classifier
  const char* classifier = R"({ name = "classifier", op = "linear", out = 5 })";
};

inline void PrintTo(const OperatorCase& tested, std::ostream* out) { *out << tested.name; }

std::span<const OperatorCase> operator_cases();  // their results are functions of parameters and input alone
std::span<const OperatorCase> dropout_cases();   // those of these also of the seed and the step

std::string network_text(const OperatorCase& tested);
// The same network for a Replica, whose batches hold images: one of three channels, and a 1x1 conv "stem" in front where the case
// wants more than an image has.
std::string image_network_text(const OperatorCase& tested);

}  // namespace millrace::testkit
