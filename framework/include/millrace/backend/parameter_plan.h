// How the parameters of one replica lie in its memory: the half of a backend's store of parameters that all backends share. Pure.
//
// A state is one array: values, gradients, the states of the update rules, further copies. Parameters lie in the same order in
// all of them: trainable ones first and in the order of the buckets, so that a bucket is one range of the gradients; then running
// statistics; then all others. Gradients therefore cover the first trainable() elements, and copies the first blended().
//
// Within a bucket, parameters of one rule lie side by side. Such a stretch is a range of values, gradients and each of the rule's
// states, so that an update runs over arrays side by side. The array of a rule's state holds the stretches of rules that have a
// state of this name, and nothing else.
//
// Threading: one thread plans; afterwards it is read from any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/optimizer.h"

namespace millrace {

// The parameter as rules of scope `matrix` see it: (out, all others).
MatrixShape matrix_of(const Parameter& parameter);

class ParameterPlan {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // An array of rules' states, or a copy that Replica::blend() moves.
  struct State {
    struct Fill {
      std::size_t begin = 0, elements = 0;
      float value = 0;
    };
    std::string name;
    std::size_t elements = 0;  // of float32
    bool copy = false;
    bool begun = false;                    // a copy begins with the values that blend() finds first, unless it is written
    std::vector<std::size_t> places = {};  // by parameter; kNowhere: it has no such state
    std::vector<Fill> initial = {};        // what is not 0 at first
  };

  // Parameters of one bucket and one rule.
  struct Stretch {
    const Rule* rule = nullptr;
    std::vector<int> parameters = {};
    std::size_t elements = 0;              // with padding
    std::vector<std::size_t> states = {};  // of the rule, in its order: indices into states()
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
  // Of a bucket, in the order of places. Error(usage) without a rule.
  const std::vector<Stretch>& stretches(int bucket) const;
  bool needs_norms() const;             // some rule asks for norms of whole parameters
  bool is_matrix(int parameter) const;  // it is trained by a rule of scope `matrix`
  // The parameter's numbers for its rule; `rate_factor` as in UpdateStep, `rate` multiplies it. Where it begins is left to the
  // backend.
  UpdateSegment segment(int parameter, std::span<const double> rate_factor, double rate = 1) const;

  // Those of rules, then the copies.
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }
  std::vector<std::string> state_names() const;                // with kValue and kGradient; of copies those that have begun
  bool has_state(std::string_view name, int parameter) const;  // of a copy: also before it has begun
  // Indices into states().
  std::size_t find_copy(std::string_view name) const;  // Error(usage) when it was not asked for
  static constexpr int kValues = -1, kGradients = -2;
  int find_state(std::string_view name, int parameter) const;  // or one of those; Error(usage) where the parameter has none
  std::size_t place(int state, int parameter) const;           // in elements. REQUIRES: it has that state
  // REQUIRES: `values` as many as the parameter has, or Error(usage).
  void check_size(int parameter, std::span<const float> values) const;
  void written(int state);  // a copy that is written has begun

  // `bf16`: elements of a second copy of the values; `norms`, `workspace` of rules of scope `matrix`: bytes.
  void append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const;

 private:
  void place_all(const std::vector<int>& indices, std::size_t alignment);
  int rule_of(int parameter) const;
  void plan_stretches(std::size_t alignment);
  void plan_states(Stretch& stretch);
  State& state_named(const std::string& name);

  const Network& network_;
  const CompileOptions& options_;
  std::vector<std::size_t> offsets_, elements_;
  std::vector<Bucket> buckets_;
  std::size_t trainable_ = 0, blended_ = 0, all_ = 0;  // elements; all_ grows while parameters are placed
  std::vector<std::vector<Stretch>> stretches_;        // by bucket
  std::vector<State> states_;
};

}  // namespace millrace
