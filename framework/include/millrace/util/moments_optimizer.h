// The shared part of optimizers of Adam's family: parameters, their checks, states and bias corrections. See moments.h for
// kernels.
//
//   class Adam : public MomentsOptimizer {
//    public:
//     using MomentsOptimizer::MomentsOptimizer, MomentsOptimizer::Params;
//     static void describe(OptimizerDescription<Params>& d) {
//       d.name("adam").text("...");
//       describe_moments(d);
//     }
//     AdamKernel kernel(const UpdateTime& time) const { return {moments(time)}; }
//   };
#pragma once

#include <cmath>

#include "millrace/error.h"
#include "millrace/kernels/moments.h"
#include "millrace/optimizer.h"

namespace millrace {

class MomentsOptimizer {
 public:
  struct Params {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  };
  explicit MomentsOptimizer(const Params& params) : params_(params) {
    if (params.beta1 == 1 || params.beta2 == 1) fail(ErrorKind::usage, "beta1 and beta2 must be below 1");
    // Otherwise padding would be 0 / 0.
    if (static_cast<float>(params.epsilon) == 0) fail(ErrorKind::usage, "epsilon must be above 0");
  }

 protected:
  // P: Params or a class derived from it.
  template <class P>
  static void describe_moments(OptimizerDescription<P>& d) {
    d.state("momentum").state("variance").momentum(&Params::beta1);
    d.params.add("beta1", &Params::beta1).range(0, 1).text("decay rate of the mean gradient; below 1");
    d.params.add("beta2", &Params::beta2).range(0, 1).text("decay rate of the mean squared gradient; below 1");
    d.params.add("epsilon", &Params::epsilon).range(0).text("added to the root of the mean square; above 0");
  }
  Moments moments(const UpdateTime& time) const {
    const auto t = static_cast<double>(time.updates_done + 1);
    const auto number = [](double value) { return static_cast<float>(value); };
    return {.beta1 = number(params_.beta1),
            .beta2 = number(params_.beta2),
            .new1 = number(1 - params_.beta1),
            .new2 = number(1 - params_.beta2),
            .epsilon = number(params_.epsilon),
            .momentum_scale = number(1 / (1 - std::pow(params_.beta1, t))),
            .root_scale = number(1 / std::sqrt(1 - std::pow(params_.beta2, t)))};
  }

 private:
  Params params_;
};

}  // namespace millrace
