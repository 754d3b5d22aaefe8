// The part of a compiled network that backends share: readers of values, which values need a gradient, the order of forward and
// backward, recomputation, and the lifetimes and places of tensors.
//
// With `recompute`, a training executable releases activations that only one segment of nodes reads (backend/segments.h). It
// recomputes them when backward reaches the segment, with operations that follow those of forward and have tensors of their own.
// Time of the plan: 0 is ingest, then a step for each forward, one for the loss, one for each step of steps().
//
// Operation: a backend's class, derived from PlannedOperation, with a type Map: a value with its memory. map_of(planner, binding,
// value) and gradient_of(), which return such maps, are next to it. Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/planned_operation.h"
#include "millrace/backend/segments.h"

namespace millrace {

template <class Operation>
class ExecutablePlan {
 public:
  using Planner = typename Operation::Planner;
  using Map = typename Operation::Map;

  // A step of backward: recomputes a node's outputs, or computes the gradients of its inputs and parameters.
  struct Step {
    bool recompute = false;
    int node = 0;
  };

  // The network and its nodes outlive the plan. `type`: of activations; the final linear layer's are float32. `request`: values
  // read after forward in addition to the result; in training, losses are measured there and no layer reads them. `by`: backward
  // ends with the gradient by this value, which is kept to the end of the pass (ScoreGradient). The value must be its node's
  // last. REQUIRES with `by`: training, and a network without trained parameters.
  ExecutablePlan(const Network& network, const std::vector<Node>& nodes, bool training, DataType type,
                 const CompileRequest& request, std::optional<LayerPort> by = {})
      : network_(network),
        nodes_(nodes),
        outputs_(by         ? std::vector<LayerPort>()
                 : training ? request.loss_outputs(network)
                            : request.outputs),
        by_(by),
        planner_(training, network.layers.size(), !by.has_value()) {
    measured_.push_back({output()});
    for (const LayerPort value : outputs_) {
      if (training) measured_.push_back({value});
    }
    plan_values(type);
  }

  // A value at which losses are measured: the network's result, then in training CompileRequest::losses, with the place for the
  // loss's gradient. bind() sets the maps.
  struct Measured {
    LayerPort value;
    bool copied = false;  // to rows of float32, since the value has another layout or type
    TensorId row_tensor = kNoTensor, d_row_tensor = kNoTensor;
    Map made = {}, d_made = {}, rows = {}, d_rows = {};

    const Map& output() const { return copied ? rows : made; }
    const Map& d_output() const { return copied ? d_rows : d_made; }
  };
  const std::vector<Measured>& measured() const { return measured_; }

  // Calls run(term, measured, add) for each loss: the first one at a value writes its gradient, the others add to it. Then calls
  // zero(map) for the gradients of values without a loss. Throws Error(usage) for a value that was not requested.
  template <class Run, class Zero>
  void measure(std::span<const LossTerm> terms, const Run& run, const Zero& zero) const {
    std::vector<bool> written(measured_.size());
    for (const LossTerm& term : terms) {
      const std::size_t i = find_measured(term.output.value_or(network_.result()));
      run(term, measured_[i], written[i]);
      written[i] = true;
    }
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      if (!written[i]) zero(measured_[i].d_output());
    }
  }

  // In inference: the values of CompileRequest::outputs, which are kept until the next pass.
  std::span<const LayerPort> kept() const { return planner_.training() ? std::span<const LayerPort>() : outputs_; }
  std::size_t find_kept(LayerPort value) const {  // the index in kept(). Throws Error(usage) for another value
    const auto found = std::ranges::find(kept(), value);
    if (found != kept().end()) return static_cast<std::size_t>(found - kept().begin());
    fail(ErrorKind::usage, "the output of {} is not kept: name it in CompileRequest::outputs",
         place_of(network_.layers[static_cast<std::size_t>(value.layer)]));
  }

  Planner& planner() { return planner_; }
  const Planner& planner() const { return planner_; }
  std::span<const std::unique_ptr<Operation>> operations() const { return operations_; }
  LayerPort output() const { return network_.result(); }

  // ---- Planning, in this order; the network's input has a tensor before, or gets one from its only reader ----

  // make(node): creates the node's operation. Called again for recomputed nodes.
  template <class Make>
  void plan_forward(const Make& make, bool recompute) {
    for (const Node& node : nodes_) {
      operations_.push_back(make(node));
      Operation& operation = *operations_.back();
      planner_.set_time(static_cast<int>(operations_.size()));
      operation.at_layer([&] { operation.plan(planner_); });
    }
    if (planner_.training()) plan_steps(recompute);
    planner_.set_time(loss_time());
  }

  // Plans the values at which losses are measured, as rows of float32; the network's result stays readable until the next pass.
  // copied_bytes(value): size of these rows if the value has another layout or type and must be copied, as is its gradient; 0: no
  // copy.
  template <class CopiedBytes>
  void plan_outputs(const CopiedBytes& copied_bytes) {
    for (Measured& measured : measured_) plan_measured(measured, copied_bytes(measured.value));
    for (const LayerPort kept : outputs_) planner_.use(planner_.value(kept).tensor);
  }

  template <class Make>
  void plan_backward(const Make& make) {
    if (!planner_.training()) return;
    if (segment_ends_.size() > 1) forward_planner_ = std::make_unique<Planner>(planner_);
    for (std::size_t segment = segment_ends_.size(); segment-- > 0;) {
      const int begin = begin_of(segment), end = segment_ends_[segment];
      const bool again = segment + 1 < segment_ends_.size();
      if (again) plan_segment_again(make, begin, end);
      const int recomputed = planner_.time();
      const std::size_t tensors = planner_.lifetimes().size();
      for (int node = end; node-- > begin;) {
        planner_.set_time(planner_.time() + 1);
        const int made = nodes_[static_cast<std::size_t>(node)].output;
        if (!planner_.value(made).needs_gradient || (by_ && made == by_->layer)) continue;
        plan_zeros(node);
        Operation& operation = of_backward(node);
        operation.at_layer([&] { operation.plan_backward(planner_); });
      }
      if (again) leave_out_unused(begin, end, recomputed, tensors);
    }
    if (by_) keep_gradient();
  }

  // `share`: CompileOptions::share_memory.
  void place_tensors(std::size_t alignment, bool share) {
    std::vector<Lifetime> lifetimes = planner_.lifetimes();
    if (!share) {
      for (Lifetime& lifetime : lifetimes) lifetime = {lifetime.bytes, 0, planner_.time()};
    }
    placement_ = place(lifetimes, alignment);
  }

  // ---- After placement ----

  const Placement& placement() const { return placement_; }

  // Binds all operations to an arena of placement().bytes. rows_of(made, data): the map of a copy in rows of float32.
  template <class RowsOf>
  Binding bind(std::byte* arena, const RowsOf& rows_of) {
    const Binding binding{arena, placement_};
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      operations_[i]->at_layer([&] { operations_[i]->bind(again(i) ? *forward_planner_ : planner_, binding); });
      if (again(i)) again_[i]->at_layer([&] { again_[i]->bind(planner_, binding); });
    }
    for (Zeros& zeros : zeros_) zeros.data = binding.at(zeros.gradient);
    for (Measured& measured : measured_) {
      measured.made = map_of(planner_, binding, measured.value);
      if (measured.copied) measured.rows = rows_of(measured.made, binding.at(measured.row_tensor));
      if (!planner_.training()) continue;
      measured.d_made = gradient_of(planner_, binding, measured.value);
      if (measured.copied) measured.d_rows = rows_of(measured.made, binding.at(measured.d_row_tensor));
    }
    return binding;
  }

  // The steps of backward, in order.
  std::span<const Step> steps() const { return steps_; }
  int loss_time() const { return static_cast<int>(operations_.size()) + 1; }
  // The operation that computes a node's backward.
  Operation& of_backward(int node) const {
    const auto at = static_cast<std::size_t>(node);
    return again(at) ? *again_[at] : *operations_[at];
  }
  bool is_left_out(const Step& step) const { return step.recompute && left_out_[static_cast<std::size_t>(step.node)]; }
  bool is_computed_again(std::size_t node) const { return again(node) && !left_out_[node]; }
  // Calls fill(data, bytes) for gradients of a node's outputs that must be zeroed before its backward.
  template <class Fill>
  void each_zeros(int node, const Fill& fill) const {
    for (const Zeros& zeros : zeros_) {
      if (zeros.node == node) fill(zeros.data, planner_.lifetimes()[static_cast<std::size_t>(zeros.gradient)].bytes);
    }
  }
  // By node; the times are 0.
  std::vector<LayerTime> layer_times() const {
    std::vector<LayerTime> times;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const Operation& operation = of_backward(static_cast<int>(i));
      std::string detail = operation.detail();
      if (is_computed_again(i)) detail += detail.empty() ? "computed again" : ", computed again";
      times.push_back({operation.layer().name, std::move(detail)});
    }
    return times;
  }

 private:
  std::size_t find_measured(LayerPort value) const {
    const auto found = std::ranges::find(measured_, value, &Measured::value);
    if (found != measured_.end()) return static_cast<std::size_t>(found - measured_.begin());
    fail(ErrorKind::usage, "no loss is measured at {}: name it in CompileRequest::losses",
         place_of(network_.layers[static_cast<std::size_t>(value.layer)]));
  }

  bool again(std::size_t node) const { return !again_.empty() && again_[node] != nullptr; }
  int begin_of(std::size_t segment) const { return segment == 0 ? 0 : segment_ends_[segment - 1]; }
  int last_time() const { return loss_time() + static_cast<int>(steps_.size()); }

  void keep_gradient() {
    const TensorId gradient = planner_.value(*by_).gradient;
    if (gradient == kNoTensor) {
      fail(ErrorKind::usage, "{}: the network's result does not depend on its output, so it has no gradient",
           place_of(network_.layers[static_cast<std::size_t>(by_->layer)]));
    }
    planner_.use_at(gradient, last_time());
  }

  void plan_measured(Measured& measured, std::size_t copied_bytes) {
    auto& value = planner_.value(measured.value);
    planner_.use(value.tensor);
    measured.copied = copied_bytes > 0;
    measured.row_tensor = measured.copied ? planner_.tensor(copied_bytes) : value.tensor;
    const bool is_read_later = planner_.training() && measured.value == output();
    planner_.use_at(measured.row_tensor, is_read_later ? last_time() : planner_.time());
    if (!planner_.training()) return;
    if (measured.copied) measured.d_row_tensor = planner_.tensor(copied_bytes);
    value.gradient = planner_.tensor(value.spec.bytes());
  }

  // Counts the readers of each value and marks values that need a gradient.
  void plan_values(DataType type) {
    const int logits = final_linear(nodes_);
    for (const Node& node : nodes_) {
      const Layer& layer = network_.layers[static_cast<std::size_t>(node.layer)];
      bool needs = trains_anything(network_, layer);
      for (const LayerPort from : node.inputs) {
        ++planner_.value(from).readers;
        needs = needs || planner_.value(from).needs_gradient;
      }
      for (int port = 0; port < network_.layers[static_cast<std::size_t>(node.output)].output_count(); ++port) {
        auto& made = planner_.value({node.output, port});
        made.needs_gradient = (needs || by_ == LayerPort(node.output, port)) && planner_.training();
        made.spec.type = node.output == logits ? DataType::f32 : type;
      }
    }
    ++planner_.value(output()).readers;
    for (const LayerPort kept : outputs_) ++planner_.value(kept).readers;
  }

  void plan_steps(bool recompute) {
    const int count = static_cast<int>(nodes_.size());
    segment_ends_ = {count};
    if (recompute) {
      std::vector<std::size_t> bytes;
      for (const Node& node : nodes_) bytes.push_back(output_bytes(node));
      segment_ends_ = plan_segments(nodes_, bytes);
    }
    kept_ = kept_outputs(nodes_, segment_ends_);
    again_.resize(nodes_.size());
    tensors_of_again_.resize(nodes_.size());
    left_out_.resize(nodes_.size());
    for (std::size_t segment = segment_ends_.size(); segment-- > 0;) {
      const int begin = begin_of(segment), end = segment_ends_[segment];
      if (end != count) {
        for (int node = begin; node < end; ++node) steps_.push_back({true, node});
      }
      for (int node = end; node-- > begin;) steps_.push_back({false, node});
    }
  }

  std::size_t output_bytes(const Node& node) const {
    const int outputs = network_.layers[static_cast<std::size_t>(node.output)].output_count();
    std::size_t bytes = 0;
    for (int port = 0; port < outputs; ++port) bytes += planner_.value({node.output, port}).spec.bytes();
    return bytes;
  }

  // Adds zero gradients for outputs that receive none from a reader.
  void plan_zeros(int node) {
    const int layer = nodes_[static_cast<std::size_t>(node)].output;
    for (int port = 0; port < network_.layers[static_cast<std::size_t>(layer)].output_count(); ++port) {
      auto& value = planner_.value({layer, port});
      if (value.gradient != kNoTensor) continue;
      value.gradient = planner_.tensor(value.spec.bytes());
      zeros_.push_back({node, value.gradient, nullptr});
    }
  }

  template <class Make>
  void plan_segment_again(const Make& make, int begin, int end) {
    for (int node = begin; node < end; ++node) {
      const auto at = static_cast<std::size_t>(node);
      planner_.set_time(planner_.time() + 1);
      tensors_of_again_[at] = static_cast<TensorId>(planner_.lifetimes().size());
      again_[at] = make(nodes_[at]);
      Operation& operation = *again_[at];
      operation.follow(*operations_[at], kept_[at]);
      operation.at_layer([&] { operation.plan(planner_); });
    }
  }

  // A node is recomputed only if backward uses one of its tensors, or another recomputed node reads it.
  void leave_out_unused(int begin, int end, int recomputed, std::size_t end_of_plan) {
    std::set<int> read;  // layers whose outputs are needed
    for (int node = end; node-- > begin;) {
      const auto at = static_cast<std::size_t>(node);
      bool needed = !kept_[at] && read.contains(nodes_[at].output);
      for (auto tensor = static_cast<std::size_t>(tensors_of_again_[at]); tensor < end_of_plan; ++tensor) {
        needed = needed || planner_.lifetimes()[tensor].last > recomputed;
      }
      end_of_plan = static_cast<std::size_t>(tensors_of_again_[at]);
      left_out_[at] = !needed;
      if (!needed) continue;
      for (const LayerPort input : nodes_[at].inputs) read.insert(input.layer);
    }
  }

  struct Zeros {
    int node;
    TensorId gradient;
    void* data;
  };

  const Network& network_;
  const std::vector<Node>& nodes_;
  const std::vector<LayerPort> outputs_;
  const std::optional<LayerPort> by_;
  Planner planner_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<int> segment_ends_;
  std::vector<bool> kept_;                         // by node: its outputs outlive its segment's forward
  std::vector<std::unique_ptr<Operation>> again_;  // by node: the operation that follows it, in all segments but the last
  std::vector<TensorId> tensors_of_again_;         // by node: the first tensor of its plan
  std::vector<bool> left_out_;                     // by node: needs no recompute()
  std::unique_ptr<Planner> forward_planner_;       // locates values in forward that have another place in backward
  std::vector<Step> steps_;
  std::vector<Zeros> zeros_;
  Placement placement_;
  std::vector<Measured> measured_;
};

}  // namespace millrace
