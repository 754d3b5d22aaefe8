// Two backends train the same network on the same batches: how far apart are they, and how far may they be?
//
// The bound is the issue's: 1e-4 in float32, 1e-2 in TF32, 2e-2 in bf16, in relative norm. But a ReLU's input or a pooling
// window's two largest values may lie closer together than any rounding, and a gradient then takes another way: a share p of such
// elements is a relative difference of sqrt(2 p), whoever computes it. So beside the bound stands a yardstick, the oracle's own
// answer to weights rounded at random by as much as the precision rounds them, and the larger one counts, the yardstick three
// times.
#pragma once

#include <optional>
#include <string>

#include "gpu_fixture.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace::gpu {

struct Course {
  std::uint32_t batch = 4;
  int steps = 2;
  double rate = 0.01;
  std::vector<LossOutput> outputs = {};  // where losses are measured, and their weights; none: at the network's result
};

// What a training run leaves, all of it comparable.
struct Outcome {
  std::vector<float> logits;  // of the first step
  double loss = 0;            // of the last step, per sample
  Arrays gradients;           // of the first step
  Arrays values;              // at the end, running statistics included
};

double tolerance(Precision precision);

// Batches, and the values that training starts from, are functions of `seed` alone.
class Comparison {
 public:
  Comparison(std::shared_ptr<const Network> network, const Course& course, std::uint64_t seed);

  Outcome train(Device& device, const CompileOptions& options = {}) const { return train_from(values_, device, options); }

  // Compares with what the oracle does in float32, with EXPECT. `each`: every gradient by itself (small networks); else all of
  // them as one long vector, where one pixel that goes another way weighs little.
  void expect_like_oracle(const Outcome& found, Device& oracle, Precision precision, bool each);

 private:
  Outcome train_from(const Arrays& values, Device& device, CompileOptions options) const;
  void expect_gradients(const Outcome& found, const std::vector<Outcome>& rounded, Precision precision, bool each) const;

  std::shared_ptr<const Network> network_;
  Course course_;
  std::uint64_t seed_;
  Arrays values_;
  std::optional<Outcome> exact_;  // the oracle's
};

// |a - b| / |b|; of arrays: as one vector.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);
double relative_difference(const Arrays& a, const Arrays& b);

}  // namespace millrace::gpu
