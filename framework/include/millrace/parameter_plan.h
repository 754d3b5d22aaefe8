// How the parameters of one replica lie in its memory: the half of a backend's store of parameters that all backends share. Pure.
//
// A state is one array: values, gradients, the states of the update rule, further copies. Every parameter has the same place in
// each of them: trainable ones first and in the order of the buckets, so that a bucket is one stretch of the gradients and an
// update runs over arrays side by side; then running statistics; then all others. Gradients and the states of rules therefore
// cover the first trainable() elements, and copies the first blended().
//
// Threading: one thread plans; afterwards it is read from any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend.h"
#include "millrace/rule.h"

namespace millrace {

class ParameterPlan {
 public:
  // An array of a rule's state, or a copy that Replica::blend() moves.
  struct State {
    std::string name;
    float initial = 0;
    std::size_t elements = 0;  // of float32
    bool copy = false;
    bool begun = false;  // a copy begins with the values that blend() finds first, unless it is written
  };

  // `network` outlives the plan.
  ParameterPlan(const Network& network, const CompileOptions& options) : network_(network), options_(options) {}

  // `elements`: of each parameter with the backend's padding. Places are multiples of `alignment` elements.
  void place(std::span<const std::size_t> elements, std::size_t alignment);

  const Parameter& parameter(int index) const { return network_.parameters[static_cast<std::size_t>(index)]; }
  std::size_t offset(int index) const { return offsets_[static_cast<std::size_t>(index)]; }     // in elements
  std::size_t elements(int index) const { return elements_[static_cast<std::size_t>(index)]; }  // with padding
  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  std::size_t trainable() const { return trainable_; }
  std::size_t blended() const { return blended_; }
  std::size_t all() const { return all_; }
  std::size_t gradients() const { return options_.train_batch > 0 ? trainable_ : 0; }
  std::size_t kept_gradients() const { return options_.request.micro_batches > 1 ? gradients() : 0; }

  const UpdateRule& update() const { return options_.request.update; }
  const UpdateRule& update_or_fail() const;  // Error(usage) without a rule
  bool needs_norms() const;                  // the rule asks for norms of whole parameters

  // The rule's in its order, then the copies.
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }
  std::vector<std::string> state_names() const;  // with kValue and kGradient; of copies those that have begun
  // Indices into states().
  std::size_t find_copy(std::string_view name) const;  // Error(usage) when it was not asked for
  static constexpr int kValues = -1, kGradients = -2;
  int find_state(std::string_view name, int parameter) const;  // or one of those; Error(usage) where the parameter has none
  // REQUIRES: `values` as many as the parameter has, or Error(usage).
  void check_size(int parameter, std::span<const float> values) const;
  void written(int state);  // a copy that is written has begun

  // `bf16`: elements of a second copy of the values; `norms`: bytes.
  void append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms) const;

 private:
  void place_all(const std::vector<int>& indices, std::size_t alignment);
  void plan_states();

  const Network& network_;
  const CompileOptions& options_;
  std::vector<std::size_t> offsets_, elements_;
  std::vector<Bucket> buckets_;
  std::size_t trainable_ = 0, blended_ = 0, all_ = 0;  // elements; all_ grows while parameters are placed
  std::vector<State> states_;
};

}  // namespace millrace
