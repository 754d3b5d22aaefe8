// Every layer type, alone and in combinations that backends fuse, as small networks: the table for testing a backend against a
// definition (plugins/backends/cpu) or against another backend (tests/gpu).
//
//   const std::shared_ptr<const Network> network = network_from_text(network_text(tested));
//
// Few channel counts are multiples that a backend may pad to, on purpose. Five classes.
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

std::span<const OperatorCase> operator_cases();  // their results depend only on parameters and input
std::span<const OperatorCase> dropout_cases();   // these also depend on the seed and step

std::string network_text(const OperatorCase& tested);
// The same network for a Replica, whose batches hold images of three channels: a 1x1 conv "stem" comes first if the case needs
// more.
std::string image_network_text(const OperatorCase& tested);

}  // namespace millrace::testkit
