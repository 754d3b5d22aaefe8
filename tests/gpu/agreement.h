// Compares two backends that train the same network on the same batches, and defines the allowed difference.
//
// The fixed bound on the relative norm is 1e-4 in float32, 1e-2 in TF32, 2e-2 in bf16. But a ReLU's input or a pooling window's
// two largest values may be closer together than any rounding, and a gradient then takes another path: a share p of such
// elements causes a relative difference of sqrt(2 p) on any device. So there is also a yardstick: the oracle's own result for
// weights randomly rounded by as much as the precision rounds them. The larger of the bound and three times the yardstick
// applies.
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
  std::vector<LossOutput> outputs = {};  // where losses are measured, and their weights; empty: at the network's result
};

// The comparable results of a training run.
struct Outcome {
  std::vector<float> logits;  // in the first step
  double loss = 0;            // in the last step, per sample
  Arrays gradients;           // in the first step
  Arrays values;              // at the end, running statistics included
};

double tolerance(Precision precision);

// Batches and initial values depend only on `seed`.
class Comparison {
 public:
  Comparison(std::shared_ptr<const Network> network, const Course& course, std::uint64_t seed);

  Outcome train(Device& device, const CompileOptions& options = {}) const { return train_from(values_, device, options); }

  // Compares with the oracle's float32 results, with EXPECT. `each`: every gradient separately (small networks); else all of
  // them as one long vector, where a single pixel that changes direction has little weight.
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
