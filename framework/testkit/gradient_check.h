// Compares a replica's gradients with finite differences of its loss, for any network on any backend.
//
//   replica->start();
//   testkit::randomise(network, *replica, 1);
//   Ref<Batch> batch = testkit::make_batch(8, network.input);
//   testkit::fill_at_random(*batch, 10, 2);
//   const testkit::GradientReport report = testkit::check_gradients(network, *replica, batch);
//   EXPECT_LT(report.worst(), 1e-2) << report.text();
//
// Central differences, (L(v + h) - L(v - h)) / 2h, for some elements of each trainable parameter: half of them those with the
// largest gradients, half drawn at random. h is the cube root of float32's epsilon times the parameter's scale, where truncation
// and rounding errors are about equal (Nocedal and Wright, Numerical Optimization, section 8.1).
#pragma once

#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace::testkit {

// An additional loss to minimise.
struct CheckedLoss {
  std::shared_ptr<const Loss> loss;
  LayerPort output;
  double weight = 1;
};

struct GradientCheckOptions {
  std::shared_ptr<const Loss> loss;  // null: cross_entropy() of testkit/losses.h
  bool add_up = false;               // check the gradient of the sum instead of the mean
  std::vector<CheckedLoss> auxiliary = {};
  int elements = 8;           // per parameter
  std::uint64_t seed = 1;     // for the choice of elements
  std::uint64_t step = 3;     // equal in every pass, so that dropout drops the same elements
  double scale = 1;           // factor of h: larger where the loss is coarse (bf16)
};

struct GradientReport {
  struct Entry {
    std::string parameter;
    double difference = 0;  // norm of (backward's gradient - difference quotient), over the checked elements
    double norm = 0;        // the larger of the two norms
    double noise = 0;       // possible contribution of rounding of the loss to the difference
    double error() const;   // relative, beyond noise
  };
  std::vector<Entry> entries;
  double worst() const;
  std::string text() const;  // a line per parameter, worst first; at most ten lines
};

// REQUIRES: started, compiled for training with at least the batch's size. Restores parameters, but not running statistics.
GradientReport check_gradients(const Network& network, Replica& replica, const Ref<Batch>& batch,
                               const GradientCheckOptions& options = {});

// Initial values, with noise on constant parameters: a bias of exactly 0 or a scale of exactly 1 would hide mistakes.
void randomise(const Network& network, Replica& replica, std::uint64_t seed);
// Random pixels, labels below `classes`, weights 1.
void fill_at_random(Batch& batch, std::int32_t classes, std::uint64_t seed);

}  // namespace millrace::testkit
