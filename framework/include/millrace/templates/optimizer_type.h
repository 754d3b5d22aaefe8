// Makes an OptimizerType from an optimizer's class, and runs its kernel on a processor. Included by optimizer.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/detail/type_description.h"
#include "millrace/error.h"
#include "millrace/kernels/host_element.h"
#include "millrace/optimizer.h"
#include "millrace/templates/make_from_table.h"

namespace millrace {

// An optimizer with its parameters. Immutable and thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  const std::string& name() const { return name_; }
  OptimizerScope scope() const { return scope_; }
  const std::vector<OptimizerState>& states() const { return states_; }  // those kept with these parameters
  bool keeps_reduced() const;                                            // some state is reduced
  bool has_momentum() const { return has_momentum_; }                    // above 0, and replaced by UpdateTime::momentum

  // Calls `submit` for each kernel of one update, in order; each reads results of the previous ones. The element is copied.
  // REQUIRES: one array for each of states(); squares for scope `parameter` and with reduced states; for scope `matrix` squares
  // and directions, after directions() and after each segment was made orthogonal by newton_schulz() (orthogonalise.h).
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

struct OptimizerType : TypeDescription {
  OptimizerScope scope = OptimizerScope::element;
  std::vector<OptimizerState> states;  // all states it may keep
  // Reads the table; mistakes go to `errors`, including those of the constructor, and the result is then null.
  std::function<std::shared_ptr<const Optimizer>(const Value& table, const std::string& owner, Diagnostics& errors)> create;
};

namespace detail {

inline constexpr std::int64_t kUpdateBlock = 64;   // elements
inline constexpr std::int64_t kUpdateUnit = 1024;  // packs in a unit of work

// Copies through local arrays: the loop has a known length and cannot alias, so it is vectorised on every instruction set,
// whatever the kernel. The copies cost nothing, since an update waits for memory.
template <class K, std::size_t... S>
MILLRACE_KERNEL void update_block(const UpdateArguments& at, const K& kernel, const UpdateNumbers& n, std::int32_t segment,
                                  std::int64_t first, std::int64_t count, std::index_sequence<S...>) {
  alignas(64) float value[kUpdateBlock] = {}, gradient[kUpdateBlock] = {}, states[state_slots<K>][kUpdateBlock] = {};
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  memcpy(value, at.value + first, bytes);
  memcpy(gradient, at.gradient + first, bytes);
  if (at.wrong != nullptr) {
    std::uint32_t wrong = 0;
    for (const float element : gradient) wrong |= is_finite(element) ? 0U : 1U;
    if (wrong != 0) mark_wrong(at.wrong);
  }
  if constexpr (ReducingKernel<K>) {
    (load_state(at, segment, static_cast<int>(S), first, count, states[S]), ...);
  } else {
    ((at.states[S] == nullptr ? nullptr : memcpy(states[S], at.states[S] + first, bytes)), ...);
  }
  if (at.scale != nullptr && !MatrixKernel<K>) {
    for (float& element : gradient) element *= *at.scale;
  }
  for (std::int64_t k = 0; k < kUpdateBlock; ++k) {
    float own[state_slots<K>] = {states[S][k]...};
    update_one(kernel, n, gradient[k], value[k], own);
    ((states[S][k] = own[S]), ...);
  }
  memcpy(at.value + first, value, bytes);
  ((is_stored<K>(at, static_cast<int>(S)) ? memcpy(at.states[S] + first, states[S], bytes) : nullptr), ...);
  if (at.bf16 == nullptr) return;
  alignas(64) Bf16 copy[kUpdateBlock];
  for (std::int64_t k = 0; k < kUpdateBlock; ++k) copy[k] = from_float<Bf16>(value[k]);
  memcpy(at.bf16 + first, copy, bytes / 2);
}

template <class K>
MILLRACE_KERNEL void update_packs(const UpdateElement<K>& element, std::int64_t first, std::int64_t last) {
  const UpdateArguments at = element.at;
  const K kernel = element.kernel;
  if (at.scale != nullptr && *at.scale == 0) return;
  const auto states = std::make_index_sequence<K::kStates>();
  for (std::int32_t segment = segment_of(at, &UpdateSegment::begin, first); first < last; ++segment) {
    const UpdateNumbers n = numbers_of<K>(at, segment);
    const std::int64_t end = std::min(segment_end(at, segment), last) * kUpdatePack;
    std::int64_t i = first * kUpdatePack;
    for (; i + kUpdateBlock <= end; i += kUpdateBlock) update_block(at, kernel, n, segment, i, kUpdateBlock, states);
    if (i < end) update_block(at, kernel, n, segment, i, end - i, states);
    first = end / kUpdatePack;
  }
}

template <class Element>
std::int64_t update_units(const void* erased) {
  return (static_cast<const Element*>(erased)->size() + kUpdateUnit - 1) / kUpdateUnit;
}
template <class Element>
void run_update(const void* erased, std::int64_t first, std::int64_t last) {
  const auto& element = *static_cast<const Element*>(erased);
  vectorised([&] { update_packs(element, first * kUpdateUnit, std::min(last * kUpdateUnit, element.size())); });
}

template <class Element>
inline constexpr Kernel update_kernel{Element::kName,        sizeof(Element),     element_uses<Element>,
                                      update_units<Element>, run_update<Element>, device_launcher<Element>};

template <class R>
using KernelOf = decltype(std::declval<const R&>().kernel(UpdateTime()));

// `kept[k]`: index, among the kernel's states, of the k-th kept one. `momentum`: null if the optimizer has none.
template <class R>
class OptimizerOf final : public Optimizer {
 public:
  using K = KernelOf<R>;
  using Params = typename R::Params;
  static_assert(std::is_trivially_copyable_v<K> && K::kStates >= 0 && K::kStates <= kMaxStates);
  OptimizerOf(const Params& params, double Params::*momentum, std::string name, OptimizerScope scope,
              std::vector<OptimizerState> states, std::vector<std::size_t> kept)
      : Optimizer(std::move(name), scope, std::move(states), momentum != nullptr && params.*momentum > 0),
        params_(params),
        momentum_(momentum),
        optimizer_(params),
        kept_(std::move(kept)) {}

  void update(const UpdateArguments& arguments, const UpdateTime& time, const Submit& submit) const override {
    UpdateElement<K> element{with_states(arguments), kernel_at(time)};
    if constexpr (ReducingKernel<K>) submit_reductions(element.at, element.kernel, submit);
    if (scope() == OptimizerScope::parameter) submit_squares(SquaresOf<K>::of(element.at, element.kernel), submit);
    if (scope() == OptimizerScope::element) element.at.squares = nullptr;
    if constexpr (MatrixKernel<K>) {
      element.at.gradient = arguments.direction;
      element.at.wrong = nullptr;  // directions() has checked
    }
    submit(update_kernel<UpdateElement<K>>, &element);
  }

  void directions(const UpdateArguments& arguments, const UpdateTime& time, const Submit& submit) const override {
    if constexpr (MatrixKernel<K>) {
      DirectionElement<K> element{with_states(arguments), kernel_at(time)};
      element.at.squares = nullptr;  // not computed yet
      submit(each_kernel<DirectionElement<K>>, &element);
      SquaresOfChunk chunks{arguments};
      chunks.at.gradient = arguments.direction;
      submit_squares(chunks, submit);
    } else {
      fail(ErrorKind::usage, "optimizer '{}' makes no matrix orthogonal", name());
    }
  }

  NewtonSchulz newton_schulz() const override {
    if constexpr (MatrixKernel<K>) return optimizer_.newton_schulz();
    return {};
  }

 private:
  K kernel_at(const UpdateTime& time) const {
    if (!time.momentum || !has_momentum()) return optimizer_.kernel(time);
    Params scheduled = params_;
    scheduled.*momentum_ = *time.momentum;
    return R(scheduled).kernel(time);
  }
  UpdateArguments with_states(UpdateArguments arguments) const {
    const UpdateArguments given = arguments;
    for (float*& state : arguments.states) state = nullptr;
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      arguments.states[kept_[k]] = given.states[k];
      arguments.shapes[kept_[k]] = states()[k].shape;
    }
    return arguments;
  }
  static void submit_reductions(const UpdateArguments& at, const K& kernel, const Submit& submit) {
    const auto run = [&]<class Element>(const Element& element) { submit(group_kernel<Element>, &element); };
    for (int s = 0; s < K::kStates; ++s) {
      if (at.states[s] == nullptr) continue;
      switch (at.shapes[s]) {
        case StateShape::element: break;
        case StateShape::rows: run(ReduceRow<K>{at, kernel, s}); break;
        case StateShape::columns: run(ReduceColumns<K>{at, kernel, s}); break;
        case StateShape::scalar:
          run(MeasureChunk<K>{at, kernel, s});
          run(ReduceParameter<K>{at, kernel, s});
          break;
      }
    }
  }
  template <class Chunks>
  static void submit_squares(const Chunks& chunks, const Submit& submit) {
    const SquaresOfSegment segments{chunks.at};
    submit(group_kernel<Chunks>, &chunks);
    submit(group_kernel<SquaresOfSegment>, &segments);
  }

  Params params_;
  double Params::*momentum_;
  R optimizer_;
  std::vector<std::size_t> kept_;
};

}  // namespace detail

struct OptimizerMaker {
  template <class R>
  static OptimizerType make() {
    using Params = typename R::Params;
    auto d = std::make_shared<OptimizerDescription<Params>>();
    R::describe(*d);
    if (d->states_.size() != detail::KernelOf<R>::kStates) {
      fail(ErrorKind::usage, "optimizer '{}' describes {} states, but its kernel has {}", d->name_, d->states_.size(),
           detail::KernelOf<R>::kStates);
    }
    if ((d->scope_ == OptimizerScope::matrix) != MatrixKernel<detail::KernelOf<R>>) {
      fail(ErrorKind::usage, "optimizer '{}': before() belongs to kernels of scope `matrix`, and to all of them", d->name_);
    }
    const bool reduces =
        std::ranges::any_of(d->states_, [](const OptimizerState& state) { return state.shape != StateShape::element; });
    if (reduces != ReducingKernel<detail::KernelOf<R>> || (reduces && d->scope_ == OptimizerScope::matrix)) {
      fail(ErrorKind::usage,
           "optimizer '{}': measure() and reduced() belong to kernels with states of rows, columns or the whole, and to all of "
           "them; "
           "those of scope `matrix` keep states of elements alone",
           d->name_);
    }
    OptimizerType type{detail::description_of(d->name_, d->text_, d->params), d->scope_, d->states_, {}};
    type.create = [d](const Value& table, const std::string& owner, Diagnostics& errors) -> std::shared_ptr<const Optimizer> {
      return detail::make_from_table(d->params, table, owner, errors, [&](const Params& params) { return made<R>(*d, params); });
    };
    return type;
  }

 private:
  template <class R, class Params>
  static std::shared_ptr<const Optimizer> made(const OptimizerDescription<Params>& d, const Params& params) {
    std::vector<OptimizerState> states;
    std::vector<std::size_t> kept;
    for (std::size_t s = 0; s < d.states_.size(); ++s) {
      if (d.kept_[s] && !d.kept_[s](params)) continue;
      states.push_back(d.states_[s]);
      kept.push_back(s);
    }
    return std::make_shared<detail::OptimizerOf<R>>(params, d.momentum_, d.name_, d.scope_, std::move(states), std::move(kept));
  }
};

template <class R>
OptimizerType optimizer_type() {
  return OptimizerMaker::make<R>();
}

}  // namespace millrace
