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
// An optimizer of scope `matrix` also has `NewtonSchulz newton_schulz() const`.
//
// kernel() gives the numbers of one update; bias corrections and whatever else depends on the step are computed here, in double.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/detail/type_description.h"
#include "millrace/kernels/orthogonalise.h"
#include "millrace/kernels/update_kernel.h"
#include "millrace/kernels/update_time.h"
#include "millrace/params.h"

namespace millrace {

struct StageSite;

// What the optimizer needs besides an element's own value, gradient and states: nothing; norms over the whole parameter; or
// products of matrices, and parameters that are matrices.
enum class OptimizerScope { element, parameter, matrix };

struct OptimizerState {
  std::string name;   // "momentum"
  float initial = 0;  // of every number
  StateShape shape = StateShape::element;
};

// An optimizer with its parameters. Immutable and thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  const std::string& name() const { return name_; }
  OptimizerScope scope() const { return scope_; }
  const std::vector<OptimizerState>& states() const { return states_; }  // those that are kept with these parameters
  bool keeps_reduced() const;                                            // some state is not of elements
  bool has_momentum() const { return has_momentum_; }                    // above 0, that UpdateTime::momentum replaces

  // Calls `submit` for each kernel of one update, in order; each reads what the ones before wrote. The element is copied.
  // REQUIRES: one array for each of states(); squares for scope `parameter` and with reduced states; for scope `matrix` squares
  // and directions, where directions() comes first and then every segment of them is made orthogonal, as newton_schulz() says
  // (orthogonalise.h).
  using Submit = std::function<void(const Kernel& kernel, const void* element)>;
  virtual void update(const UpdateArguments& arguments, const UpdateTime& time, const Submit& submit) const = 0;
  // Writes directions and changes states. REQUIRES: scope `matrix`.
  virtual void directions(const UpdateArguments& arguments, const UpdateTime& time, const Submit& submit) const = 0;
  virtual NewtonSchulz newton_schulz() const = 0;

 protected:
  Optimizer(std::string name, OptimizerScope scope, std::vector<OptimizerState> states, bool has_momentum);

 private:
  std::string name_;
  OptimizerScope scope_;
  std::vector<OptimizerState> states_;
  bool has_momentum_;
};

// What an optimizer says about itself, in `static void describe(OptimizerDescription<Params>&)`.
template <class Params>
class OptimizerDescription {
 public:
  using Kept = std::function<bool(const Params&)>;

  OptimizerDescription& name(std::string_view value) { return name_ = value, *this; }
  OptimizerDescription& text(std::string_view value) { return text_ = value, *this; }
  OptimizerDescription& scope(OptimizerScope value) { return scope_ = value, *this; }
  // In the order of the kernel's states. `kept` decides from the parameters whether the optimizer keeps the state; null: always.
  OptimizerDescription& state(std::string_view name, float initial = 0, Kept kept = nullptr) {
    return state(name, StateShape::element, initial, std::move(kept));
  }
  OptimizerDescription& state(std::string_view name, StateShape shape, float initial = 0, Kept kept = nullptr) {
    states_.push_back({std::string(name), initial, shape});
    kept_.push_back(std::move(kept));
    return *this;
  }
  // The parameter that a schedule may replace from step to step (UpdateTime::momentum): the optimizer is made again with a value
  // above 0 and below 1.
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

// What the registry keeps of an optimizer's class.
struct OptimizerType;
template <class R>
OptimizerType optimizer_type();

}  // namespace millrace

#include "millrace/detail/optimizer_type.h"
#include "millrace/detail/stage_optimizer.h"
