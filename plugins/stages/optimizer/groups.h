// Parameter groups: factors for a parameter's rate and decay, the epoch until which it learns, and its optimizer. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/network.h"

namespace millrace {

// One entry of `groups`. A parameter belongs to the first group with a matching pattern, or with `vectors` if it is one.
struct GroupParams {
  std::vector<std::string> match = {};        // patterns, see millrace/util/pattern.h
  bool vectors = false;                       // every one-dimensional parameter: biases, and scales and shifts of normalisation
  std::optional<std::string> optimizer = {};  // none: the stage's optimizer
  Value optimizer_table = {};                 // the optimizer's keys
  double rate_factor = 1;                     // multiplies the network's own
  double decay_factor = 1;                    // the same for weight decay
  double until_epoch = 0;                     // the parameter is constant from this epoch on; 0 if trained to the end

  static void describe(ParamSet<GroupParams>& set);
};

// The groups of a network's parameters, by index into Network::parameters.
class Groups {
 public:
  // Throws Error(usage) for a pattern that matches no parameter, or a group without any.
  Groups(const std::vector<GroupParams>& groups, const Network& network);

  const std::vector<double>& decay_factors() const { return decay_; }
  // By parameter: the index of its group, or -1.
  const std::vector<int>& group_of() const { return group_of_; }
  // Indices of groups that train nothing because all their parameters are frozen or running statistics.
  const std::vector<std::size_t>& frozen() const { return frozen_; }
  // For OptimizerSpec::learns_until: a parameter with factor 0 keeps its value.
  const std::vector<double>& learns_until() const { return learns_until_; }
  // At `epoch` (with fraction). The reference stays valid as long as this object.
  const std::vector<double>& rate_factors(double epoch) const;

 private:
  struct Phase {
    double begin = 0;  // epoch
    std::vector<double> factors;
  };
  std::vector<int> group_of_;
  std::vector<std::size_t> frozen_;
  std::vector<double> decay_;
  std::vector<double> learns_until_;
  std::vector<Phase> phases_;  // by `begin`
};

}  // namespace millrace
