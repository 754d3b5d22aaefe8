// Update rules: how a gradient changes a parameter. A rule is a kernel of values (update_kernel.h) and a class that declares
// its parameters and states. It runs on every backend.
//
//   class HeavyBall {
//    public:
//     struct Params { double momentum = 0.9; };
//     static void describe(RuleDescription<Params>& d) {
//       d.name("heavy_ball").text("Momentum, Polyak 1964.").state("momentum").momentum(&Params::momentum);
//       d.params.add("momentum", &Params::momentum).range(0, 1).text("share of the momentum that stays");
//     }
//     explicit HeavyBall(const Params& params) : params_(params) {}  // throws Error(usage) for parameters that do not fit
//     HeavyBallKernel kernel(const UpdateTime&) const { return {static_cast<float>(params_.momentum)}; }
//    private:
//     Params params_;
//   };
//   MILLRACE_PLUGIN("heavy_ball", "1.0", "Momentum.") { registry.add_rule<HeavyBall>(); }
//
// A rule of scope `matrix` also has `NewtonSchulz newton_schulz() const`.
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

// What the rule needs besides an element's own value, gradient and states: nothing; norms over the whole parameter; or products
// of matrices, and parameters that are matrices.
enum class RuleScope { element, parameter, matrix };

struct RuleState {
  std::string name;   // "momentum"
  float initial = 0;  // of every number
  StateShape shape = StateShape::element;
};

// A rule with its parameters. Immutable and thread-safe.
class Rule {
 public:
  virtual ~Rule() = default;
  const std::string& name() const { return name_; }
  RuleScope scope() const { return scope_; }
  const std::vector<RuleState>& states() const { return states_; }  // those that are kept with these parameters
  bool keeps_reduced() const;                                       // some state is not of elements
  bool has_momentum() const { return has_momentum_; }               // above 0, that UpdateTime::momentum replaces

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
  Rule(std::string name, RuleScope scope, std::vector<RuleState> states, bool has_momentum);

 private:
  std::string name_;
  RuleScope scope_;
  std::vector<RuleState> states_;
  bool has_momentum_;
};

// What a rule says about itself, in `static void describe(RuleDescription<Params>&)`.
template <class Params>
class RuleDescription {
 public:
  using Kept = std::function<bool(const Params&)>;

  RuleDescription& name(std::string_view value) { return name_ = value, *this; }
  RuleDescription& text(std::string_view value) { return text_ = value, *this; }
  RuleDescription& scope(RuleScope value) { return scope_ = value, *this; }
  // In the order of the kernel's states. `kept` decides from the parameters whether the rule keeps the state; null: always.
  RuleDescription& state(std::string_view name, float initial = 0, Kept kept = nullptr) {
    return state(name, StateShape::element, initial, std::move(kept));
  }
  RuleDescription& state(std::string_view name, StateShape shape, float initial = 0, Kept kept = nullptr) {
    states_.push_back({std::string(name), initial, shape});
    kept_.push_back(std::move(kept));
    return *this;
  }
  // The parameter that a schedule may replace from step to step (UpdateTime::momentum): the rule is made again with a value above
  // 0 and below 1.
  RuleDescription& momentum(double Params::*value) { return momentum_ = value, *this; }
  ParamSet<Params> params;

 private:
  friend struct RuleMaker;
  std::string name_, text_;
  RuleScope scope_ = RuleScope::element;
  std::vector<RuleState> states_;
  std::vector<Kept> kept_;
  double Params::*momentum_ = nullptr;
};

// What the registry keeps of a rule's class.
struct RuleType;
template <class R>
RuleType rule_type();

}  // namespace millrace

#include "millrace/detail/rule_type.h"
#include "millrace/detail/stage_rule.h"
