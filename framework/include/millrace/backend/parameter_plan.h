// How the parameters of one replica lie in its memory: the half of a backend's store of parameters that all backends share. Pure.
//
// A state is one array: values, gradients, the states of the optimizers, further copies. Parameters lie in the same order in
// all of them: trainable ones first and in the order of the buckets, so that a bucket is one range of the gradients; then running
// statistics; then all others. Gradients therefore cover the first trainable() elements, and copies the first blended().
//
// Within a bucket, parameters of one optimizer lie side by side. Such a range covers their values, gradients and each of the
// optimizer's states, so that an update runs over arrays side by side. The array of an optimizer's state holds the ranges of
// optimizers that have a state of this name, and nothing else. Of a reduced state a range holds the parameters' rows, columns or
// single numbers in place of their elements.
//
// Threading: one thread plans; afterwards it is read from any.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/optimizer.h"

namespace millrace {

// The parameter as optimizers of scope `matrix` and reduced states see it: (out, all others). A filter is flattened as Muon's
// author does.
MatrixShape matrix_of(const Parameter& parameter);
// Of a state of the parameter, as it is read and written: the parameter's own, (rows), (columns) or (1).
Shape shape_of_state(StateShape shape, const Parameter& parameter);

class ParameterPlan {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // An array of optimizers' states, or a copy that Replica::lerp_into() moves.
  struct State {
    struct Fill {
      std::size_t begin = 0, elements = 0;
      float value = 0;
    };
    std::string name;
    std::size_t elements = 0;  // of float32
    bool copy = false;
    bool begun = false;                    // a copy begins with the values that lerp_into() finds first, unless it is written
    std::vector<std::size_t> places = {};  // by parameter; kNowhere: it has no such state
    std::vector<Fill> initial = {};        // what is not 0 at first
  };

  // Parameters of one bucket and one optimizer.
  struct ParameterRange {
    const Optimizer* optimizer = nullptr;
    std::vector<int> parameters = {};
    std::size_t elements = 0;                 // with padding
    std::int64_t rows = 0, column_packs = 0;  // of all parameters, as in UpdateArguments
    std::vector<std::size_t> states = {};     // of the optimizer, in its order: indices into states()
  };

  // `network` outlives the plan.
  ParameterPlan(const Network& network, const CompileOptions& options) : network_(network), options_(options) {}

  // `elements`: of each parameter with the backend's padding; `widths`: of a row of its matrix in memory while it is updated
  // (UpdateSegment::width). Places of parameters are multiples of `alignment` elements, itself one of whole packs.
  void place(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment);

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

  const OptimizerSpec& update() const { return options_.request.update; }
  // Of a bucket, in the order of places. Error(usage) without an optimizer.
  const std::vector<ParameterRange>& ranges(int bucket) const;
  bool needs_norms() const;             // some optimizer asks for norms or means of whole parameters
  bool is_matrix(int parameter) const;  // it is trained by an optimizer of scope `matrix`
  // The parameter's numbers for its optimizer; `rate_factor` as in UpdateStep, `rate` multiplies it. Where it begins is left to
  // the backend.
  UpdateSegment segment(int parameter, std::span<const double> rate_factor, double rate = 1) const;

  // Those of optimizers, then the copies.
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }
  std::vector<std::string> state_names() const;  // with kValue and kGradient; of copies those that have begun
  std::optional<Shape> state_shape(std::string_view name, int parameter) const;  // as Replica::state_shape()
  StateShape kind_of(std::string_view name, int parameter) const;                // REQUIRES: it has that state
  // Indices into states().
  std::size_t find_copy(std::string_view name) const;  // Error(usage) when it was not asked for
  static constexpr int kValues = -1, kGradients = -2;
  int find_state(std::string_view name, int parameter) const;  // or one of those; Error(usage) where the parameter has none
  std::size_t place(int state, int parameter) const;           // in elements. REQUIRES: it has that state
  // REQUIRES: `values` as many as the parameter's state has, or Error(usage).
  void check_size(std::string_view state, int parameter, std::span<const float> values) const;
  void written(int state);  // a copy that is written has begun

  // `bf16`: elements of a second copy of the values; `norms`, `workspace` of optimizers of scope `matrix`: bytes.
  void append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const;

 private:
  void place_all(const std::vector<int>& indices, std::size_t alignment);
  int optimizer_of(int parameter) const;
  void plan_ranges(std::size_t alignment);
  void plan_states(ParameterRange& range, std::size_t alignment);
  std::size_t numbers_of(StateShape shape, int parameter) const;
  bool has_state(std::string_view name, int parameter) const;
  State& state_named(const std::string& name);

  const Network& network_;
  const CompileOptions& options_;
  std::vector<std::size_t> offsets_, elements_;
  std::vector<std::int64_t> widths_;
  std::vector<Bucket> buckets_;
  std::size_t trainable_ = 0, blended_ = 0, all_ = 0;  // elements; all_ grows while parameters are placed
  std::vector<std::vector<ParameterRange>> ranges_;    // by bucket
  std::vector<State> states_;
};

}  // namespace millrace
