// The part of a parameter store that all backends share: layout, updates and states of parameters, and their arrays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/backend/parameter_plan.h"
#include "millrace/backend/state_plan.h"
#include "millrace/backend/update_plan.h"
#include "millrace/error.h"

namespace millrace {

// Pure. Threading: one thread plans; afterwards reads are thread-safe.
struct StorePlan {
  // `network` and `options` outlive the plan.
  StorePlan(const Network& network, const CompileOptions& options) : parameters(network, options) {}
  StorePlan(const StorePlan&) = delete;
  StorePlan& operator=(const StorePlan&) = delete;

  // See ParameterPlan::place(). Throws Error(usage) for a parameter that its optimizer cannot update.
  void plan(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment);
  // `bf16`: elements of a second copy of the values; `norms`, and `workspace` for optimizers of scope `matrix`: bytes.
  void append_to(MemoryPlan& plan, std::size_t bf16, std::size_t norms, std::size_t workspace) const;

  ParameterPlan parameters;
  UpdatePlan updates{parameters};
  StatePlan states{parameters, updates};
};

// The arrays in a backend's memory. Padding stays zero.
//
// Memory: an owner of zeroed bytes: movable, empty by default, with bytes() and as<T>(). Queue: runs zero(to, bytes) and
// copy(to, from, bytes) in order, at once or later. Threading: one thread at a time; plan() from any thread after planning.
template <class Memory>
class ParameterArrays {
 public:
  // `network` outlives this object.
  ParameterArrays(const Network& network, const CompileOptions& options) : network_(network), options_(options) {}

  const StorePlan& plan() const { return plan_; }

  // ---- After allocate() ----
  float* value(int index) const { return values_.template as<float>() + plan_.parameters.offset(index); }
  float* gradient(int index) const { return gradients_.template as<float>() + plan_.parameters.offset(index); }

  template <class Queue>
  void zero_gradients(Queue& queue) {
    if (gradients_.bytes() > 0) queue.zero(gradients_.template as<float>(), gradients_.bytes());
  }

  // Puts gradients aside. Throws Error(usage) if the network was compiled for whole batches.
  template <class Queue>
  void keep_gradients(Queue& queue) {
    if (kept_gradients_.bytes() == 0)
      fail(ErrorKind::usage, "gradients are not kept: the network was compiled for whole batches");
    queue.copy(kept_gradients_.template as<float>(), gradients_.template as<float>(), kept_gradients_.bytes());
  }

 protected:
  // make(bytes, what): zeroed memory. fill(to, elements, value): sets float32.
  template <class Make, class Fill>
  void allocate(const Make& make, const Fill& fill) {
    values_ = make(plan_.parameters.all() * sizeof(float), "weights");
    gradients_ = make(plan_.parameters.gradients() * sizeof(float), "gradients of weights");
    kept_gradients_ = make(plan_.parameters.kept_gradients() * sizeof(float), "gradients of earlier pieces");
    for (const StatePlan::State& state : plan_.states.all()) {
      const Memory& memory = states_.emplace_back(make(state.elements * sizeof(float), state.name + " of weights"));
      for (const auto& part : state.initial) fill(memory.template as<float>() + part.begin, part.elements, part.value);
    }
    for (Bucket& bucket : plan_.parameters.buckets()) {
      bucket.gradients = gradients_.bytes() > 0 ? gradient(bucket.parameters.front()) : nullptr;
    }
  }

  // Calls sum(destination, sources, elements) to add the bucket's kept gradients to its gradients.
  template <class Sum>
  void add_kept(int bucket, const Sum& sum) const {
    const Bucket& own = plan_.parameters.buckets()[static_cast<std::size_t>(bucket)];
    const float* const kept = kept_gradients_.template as<float>() + plan_.parameters.offset(own.parameters.front());
    sum(own.gradients, std::array<const float*, 2>{kept, own.gradients}, own.elements);
  }

  // The value, gradient and states of `first`, where a parameter or a range of the plan begins.
  UpdateArguments arrays_at(int first, const Optimizer& optimizer) const {
    UpdateArguments arguments;
    arguments.value = value(first);
    arguments.gradient = gradient(first);
    const std::span<const std::size_t> own = plan_.states.states_of(optimizer);
    for (std::size_t k = 0; k < own.size(); ++k) {
      arguments.states[k] = states_[own[k]].template as<float>() + plan_.states.place(static_cast<int>(own[k]), first);
    }
    return arguments;
  }

  // A parameter's place in a state.
  float* state_of(std::string_view name, int index) const {
    const int state = plan_.states.find(name, index);
    if (state == StatePlan::kValues) return value(index);
    if (state == StatePlan::kGradients) return gradient(index);
    return states_[static_cast<std::size_t>(state)].template as<float>() + plan_.states.place(state, index);
  }

  // See Replica::lerp_into(). blend(array of the copy) computes the sum; a decay of 0 does not write the values, which others may
  // be reading.
  template <class Queue, class Blend>
  void blend_into(Queue& queue, std::string_view copy, double decay, const Blend& blend) {
    const std::size_t state = plan_.states.find_copy(copy);
    const Memory& memory = states_[state];
    if (!plan_.states.all()[state].begun || decay == 0) {
      queue.copy(memory.template as<float>(), values_.template as<float>(), memory.bytes());
    }
    plan_.states.begin(state);
    if (decay != 0) blend(memory.template as<float>());
  }

  // The array of a copy; null before it has begun, since it would start equal to the values.
  float* begun_copy(std::string_view copy) const {
    const std::size_t state = plan_.states.find_copy(copy);
    return plan_.states.all()[state].begun ? states_[state].template as<float>() : nullptr;
  }

  const Network& network_;
  const CompileOptions options_;
  StorePlan plan_{network_, options_};
  Memory values_;

 private:
  Memory gradients_, kept_gradients_;
  std::vector<Memory> states_;  // parallel to the plan's states
};

}  // namespace millrace
