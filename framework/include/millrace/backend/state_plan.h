// A replica's arrays other than values and gradients: the states of its optimizers, and further copies of the values. Pure.
//
// The array of an optimizer's state holds the ranges (update_plan.h) of all optimizers with a state of this name. For a reduced
// state, a range holds the parameters' rows, columns or single numbers instead of their elements. A copy has the layout of the
// values.
//
// Threading: one thread plans and changes; between changes, reads are thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/update_plan.h"

namespace millrace {

// The shape in which a state of the parameter is read and written: the parameter's own, (rows), (columns) or (1).
Shape shape_of_state(StateShape shape, const Parameter& parameter);

class StatePlan {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // An array of optimizers' states, or a copy that Replica::lerp_into() updates.
  struct State {
    struct Fill {
      std::size_t begin = 0, elements = 0;
      float value = 0;
    };
    std::string name;
    std::size_t elements = 0;  // float32
    bool copy = false;
    bool begun = false;                    // lerp_into() initialises a copy with the values, unless it was written before
    std::vector<std::size_t> places = {};  // by parameter; kNowhere: no such state
    std::vector<Fill> initial = {};        // initial values other than 0
  };

  // Both must outlive this plan.
  StatePlan(const ParameterPlan& parameters, const UpdatePlan& updates) : parameters_(parameters), updates_(updates) {}

  void plan();  // REQUIRES: both are planned

  const std::vector<State>& all() const { return states_; }  // optimizers' states, then copies
  std::vector<std::string> names() const;                    // with kValue and kGradient, and the copies that have begun
  std::optional<Shape> shape(std::string_view name, int parameter) const;  // see Replica::state_shape()
  StateShape kind_of(std::string_view name, int parameter) const;          // REQUIRES: it has that state

  // Indices into all().
  std::size_t find_copy(std::string_view name) const;  // Error(usage) if it was not requested
  static constexpr int kValues = -1, kGradients = -2;
  int find(std::string_view name, int parameter) const;  // or one of those; Error(usage) if the parameter has none
  std::size_t place(int state, int parameter) const;     // in elements. REQUIRES: it has that state
  // The arrays of an optimizer's states, in its order. REQUIRES: it updates parameters.
  std::span<const std::size_t> states_of(const Optimizer& optimizer) const { return states_of_.at(&optimizer); }

  void begin(std::size_t copy) { states_[copy].begun = true; }
  void written(int state);  // marks a written copy as begun
  // Throws Error(usage) unless `values` has the size of the parameter's state.
  void check_size(std::string_view state, int parameter, std::span<const float> values) const;

 private:
  void plan_range(const UpdatePlan::Range& range);
  std::size_t numbers_of(StateShape shape, int parameter) const;
  bool has(std::string_view name, int parameter) const;
  std::size_t index_of(const std::string& name);  // adds the state if it is new

  const ParameterPlan& parameters_;
  const UpdatePlan& updates_;
  std::vector<State> states_;
  std::map<const Optimizer*, std::vector<std::size_t>> states_of_;
};

}  // namespace millrace
