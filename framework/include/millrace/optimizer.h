// Optimizers: how a gradient changes a parameter. An optimizer is a kernel of values (update_kernel.h) and a class that declares
// its parameters and states. It runs on every backend.
//
//   class HeavyBall {
//    public:
//     struct Params { double momentum = 0.9; };
//     static void describe(OptimizerDescription<Params>& d) {
//       d.name("heavy_ball").text("Momentum, Polyak 1964.").state("momentum").momentum(&Params::momentum);
//       d.params.add("momentum", &Params::momentum).range(0, 1).text("share of the momentum that stays");
//     }
//     explicit HeavyBall(const Params& params) : params_(params) {}  // throws Error(usage) for parameters that do not fit
//     HeavyBallKernel kernel(const UpdateTime&) const { return {static_cast<float>(params_.momentum)}; }
//    private:
//     Params params_;
//   };
//   MILLRACE_PLUGIN("heavy_ball", "1.0", "Momentum.") { registry.add_optimizer<HeavyBall>(); }
//
// kernel() returns the numbers of one update; bias corrections and everything else that depends on the step are computed here, in
// double. An optimizer of scope `matrix` also has `NewtonSchulz newton_schulz() const`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/kernels/orthogonalise.h"
#include "millrace/kernels/update_kernel.h"
#include "millrace/kernels/update_time.h"
#include "millrace/params.h"

namespace millrace {

class Optimizer;
struct StageSite;

// What the optimizer needs besides an element's own value, gradient and states: nothing; norms over the whole parameter; or
// matrix products, for parameters that are matrices.
enum class OptimizerScope { element, parameter, matrix };

struct OptimizerState {
  std::string name;   // "momentum"
  float initial = 0;  // value of every element
  StateShape shape = StateShape::element;
};

// Describes an optimizer in `static void describe(OptimizerDescription<Params>&)`.
template <class Params>
class OptimizerDescription {
 public:
  using Kept = std::function<bool(const Params&)>;

  OptimizerDescription& name(std::string_view value) { return name_ = value, *this; }
  OptimizerDescription& text(std::string_view value) { return text_ = value, *this; }
  OptimizerDescription& scope(OptimizerScope value) { return scope_ = value, *this; }
  // Call it in the order of the kernel's states. `kept` decides from the parameters whether the state is kept; null: always.
  OptimizerDescription& state(std::string_view name, float initial = 0, Kept kept = nullptr) {
    return state(name, StateShape::element, initial, std::move(kept));
  }
  OptimizerDescription& state(std::string_view name, StateShape shape, float initial = 0, Kept kept = nullptr) {
    states_.push_back({std::string(name), initial, shape});
    kept_.push_back(std::move(kept));
    return *this;
  }
  // The parameter that a schedule may set (UpdateTime::momentum), to values above 0 and below 1. The optimizer is then made
  // again.
  OptimizerDescription& momentum(double Params::*value) { return momentum_ = value, *this; }
  ParamSet<Params> params;

 private:
  friend struct OptimizerMaker;
  std::string name_, text_;
  OptimizerScope scope_ = OptimizerScope::element;
  std::vector<OptimizerState> states_;
  std::vector<Kept> kept_;
  double Params::*momentum_ = nullptr;
};

// Parameters of a stage that works with an optimizer: its Params derive from this, and its describe() calls this one's. The
// optimizer's own keys are in the stage's table, or in the tables of a list: add_list(name, field, describe,
// &OptimizerParams::optimizer_table).
struct OptimizerParams {
  std::string optimizer;
  Value optimizer_table;  // keys other than the stage's

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("type", &OptimizerParams::optimizer).text("update rule; the optimizer's own keys belong in this table too");
  }
};
// Makes the optimizer of the stage's table, or of a table in a list called `list`; null if such a table names none. Throws
// Error(usage) with all mistakes in the table.
std::shared_ptr<const Optimizer> make_optimizer(const OptimizerParams& params, const StageSite& site, std::string_view list = {});

}  // namespace millrace

#include "millrace/templates/optimizer_type.h"
