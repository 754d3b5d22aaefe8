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
// largest gradients, half drawn at random. h is the cube root of float32's epsilon times the parameter's scale, where the errors
// of truncation and of rounding are about equal (Nocedal and Wright, Numerical Optimization, section 8.1).
#pragma once

#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace::testkit {

// A loss that is minimised beside another.
struct CheckedLoss {
  std::shared_ptr<const Loss> loss;
  LayerPort output;
  double weight = 1;
};

struct GradientCheckOptions {
  std::shared_ptr<const Loss> loss;  // null: cross_entropy() of testkit/losses.h
  bool add_up = false;               // check the gradient of the sum instead of the mean
  std::vector<CheckedLoss> auxiliary = {};
  int elements = 8;           // of each parameter
  std::uint64_t seed = 1;     // of the choice of elements
  std::uint64_t step = 3;     // the same for every pass, so that dropout drops the same
  double scale = 1;           // of h: larger where the loss is coarse (bf16)
};

struct GradientReport {
  struct Entry {
    std::string parameter;
    double difference = 0;  // norm of (backward's gradient - difference quotient), over the elements looked at
    double norm = 0;        // the larger one of the two norms
    double noise = 0;       // what rounding of the loss alone may contribute to the difference
    double error() const;   // relative, beyond noise
  };
  std::vector<Entry> entries;
  double worst() const;
  std::string text() const;  // a line for each parameter, worst first; ten lines at most
};

// REQUIRES: started, compiled for training with at least the batch's size. Parameters are as before afterwards; running
// statistics are not.
GradientReport check_gradients(const Network& network, Replica& replica, const Ref<Batch>& batch,
                               const GradientCheckOptions& options = {});

// Initial values, with noise on parameters that start as constants: at a bias of exactly 0 or a scale of exactly 1 mistakes hide.
void randomise(const Network& network, Replica& replica, std::uint64_t seed);
// Random pixels, labels below `classes`, weights 1.
void fill_at_random(Batch& batch, std::int32_t classes, std::uint64_t seed);

}  // namespace millrace::testkit
