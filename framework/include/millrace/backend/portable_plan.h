// The half of a portable operation that backends share: the tensors of its calls and their lifetimes, and each call as an element
// with addresses. A backend describes its maps as TensorViews, and submits.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"
#include "millrace/kernels/portable.h"
#include "millrace/layer.h"

namespace millrace {

// A layer's tensors. Indices are those of PassTensor.
struct PortableLayout {
  std::vector<LayerPort> inputs;
  int output = -1;            // index of a layer
  std::vector<bool> trained;  // by parameter
};

template <class Planner>
class PortablePlan {
 public:
  using Element = PortableElement;

  // REQUIRES: layer.portable.
  PortablePlan(const Layer& layer, PortableLayout layout)
      : layout_(std::move(layout)), outputs_(layer.output_count()), forward_(layer.input_shapes) {
    layer.portable->forward(forward_);
    Pass backward(layer.input_shapes);
    layer.portable->backward(backward);
    backward_ = backward.calls();
    places_ = std::max(forward_.count(PassTensor::Kind::places), backward.count(PassTensor::Kind::places));
  }

  // Whether forward may write its output over its first input.
  bool in_place() const {
    const std::vector<PassCall>& calls = forward_.calls();
    return calls.size() == 1 && calls[0].writes.size() == 1 && calls[0].kernel->form == PortableForm::each &&
           calls[0].reads_tensor(forward_.in());
  }
  bool keeps_places() const { return places_ > 0; }

  // Call after the outputs' tensors were planned.
  void plan(Planner& planner) {
    for (const LayerPort input : layout_.inputs) planner.use(planner.value(input).tensor);
    for (int i = 0; i < places_; ++i) place_at_.push_back(planner.tensor(place_bytes(planner)));
    plan_sums(planner, forward_.calls(), forward_partial_);
  }

  void plan_backward(Planner& planner) {
    const TensorId d_output = planner.value(layout_.output).gradient;
    std::erase_if(backward_, [&](const PassCall& call) { return !is_wanted(planner, call); });
    contributions_.resize(layout_.inputs.size());
    for (std::size_t i = 0; i < backward_.size(); ++i) {
      for (const PassTensor& read : backward_[i].reads) use(planner, read);
      for (const PassTensor& written : backward_[i].writes) {
        if (written.kind != PassTensor::Kind::d_input) continue;
        const LayerPort input = layout_.inputs[static_cast<std::size_t>(written.index)];
        const bool takes_over = takes_gradient(i) && planner.value(input).gradient == kNoTensor &&
                                planner.value(input).spec.bytes() == planner.value(layout_.output).spec.bytes();
        contributions_[static_cast<std::size_t>(written.index)] =
            takes_over ? planner.contribute_in(input, d_output) : planner.accumulate(input);
      }
    }
    plan_sums(planner, backward_, backward_partial_);
  }

  // Places: locates a backend's tensors.
  //   void* memory(TensorId) const;                               null for kNoTensor
  //   TensorView view(const Spec& spec, void* data) const;        for a value or its gradient
  //   float* parameter(std::size_t) const, *gradient(std::size_t) const;
  template <class Places>
  void bind(const Planner& planner, const Places& places) {
    const auto bound = [&](const std::vector<PassCall>& calls, const std::vector<TensorId>& partial) {
      std::vector<Element> elements;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        elements.push_back(element_of(planner, calls[i], places));
        elements.back().partial = static_cast<float*>(places.memory(partial[i]));
      }
      return elements;
    };
    forward_elements_ = bound(forward_.calls(), forward_partial_);
    backward_elements_ =
        backward_partial_.size() == backward_.size() ? bound(backward_, backward_partial_) : std::vector<Element>();
  }

  // Calls submit(const Kernel&, const PortableElement&), in order.
  template <class Submit>
  void forward(const Submit& submit) const {
    submit_all(forward_elements_, submit);
  }
  template <class Submit>
  void backward(const Submit& submit) const {
    submit_all(backward_elements_, submit);
  }

 private:
  using Kind = PassTensor::Kind;

  std::size_t place_bytes(const Planner& planner) const {
    const auto& spec = planner.value(layout_.output).spec;
    return static_cast<std::size_t>(spec.n * spec.height * spec.width) * sizeof(float);
  }

  bool is_wanted(const Planner& planner, const PassCall& call) const {
    return std::any_of(call.writes.begin(), call.writes.end(), [&](const PassTensor& tensor) {
      const auto index = static_cast<std::size_t>(tensor.index);
      if (tensor.kind == Kind::d_input) return planner.value(layout_.inputs[index]).needs_gradient;
      return tensor.kind == Kind::d_parameter && layout_.trained[index];
    });
  }

  // Whether call i may overwrite the output's gradient: it computes each element independently, and no later call reads the
  // gradient.
  bool takes_gradient(std::size_t i) const {
    const PassTensor gradient = forward_.d_out();
    if (outputs_ > 1) return false;
    if (backward_[i].kernel->form != PortableForm::each || !backward_[i].reads_tensor(gradient)) return false;
    return std::none_of(backward_.begin() + static_cast<std::ptrdiff_t>(i) + 1, backward_.end(),
                        [&](const PassCall& later) { return later.reads_tensor(gradient); });
  }

  void use(Planner& planner, const PassTensor& tensor) {
    const auto index = static_cast<std::size_t>(tensor.index);
    if (tensor.kind == Kind::input) planner.use(planner.value(layout_.inputs[index]).tensor);
    if (tensor.kind == Kind::output) planner.use(planner.value(value_of(tensor)).tensor);
    if (tensor.kind == Kind::d_output) planner.use(planner.value(value_of(tensor)).gradient);
    if (tensor.kind == Kind::places) planner.use(place_at_[index]);
  }

  void plan_sums(Planner& planner, const std::vector<PassCall>& calls, std::vector<TensorId>& partial) {
    partial.clear();
    for (const PassCall& call : calls) {
      const bool sums = call.kernel->form == PortableForm::sum;
      partial.push_back(sums ? planner.tensor(extents_of(planner, call).partial_bytes()) : kNoTensor);
    }
  }

  LayerPort value_of(const PassTensor& tensor) const {
    const bool input = tensor.kind == Kind::input || tensor.kind == Kind::d_input;
    const bool output = tensor.kind == Kind::output || tensor.kind == Kind::d_output;
    if (input) return layout_.inputs[static_cast<std::size_t>(tensor.index)];
    return {layout_.output, output ? tensor.index : 0};
  }

  // An element without views, over the maximum of places and channels of its tensors; for a gather, over its outputs.
  Element extents_of(const Planner& planner, const PassCall& call) const {
    Element element;
    element.kernel = call.kernel;
    element.functor = call.functor;
    element.reads = static_cast<std::int32_t>(call.reads.size());
    element.writes = static_cast<std::int32_t>(call.writes.size());
    const auto take = [&](const PassTensor& tensor) {
      if (tensor.kind == Kind::parameter || tensor.kind == Kind::d_parameter || tensor.kind == Kind::places) return;
      const auto& spec = planner.value(value_of(tensor)).spec;
      element.n = spec.n;
      element.pixels = std::max(element.pixels, spec.height * spec.width);
      element.channels = std::max(element.channels, spec.channels);
    };
    if (call.kernel->form != PortableForm::gather) {
      for (const PassTensor& tensor : call.reads) take(tensor);
    }
    for (const PassTensor& tensor : call.writes) take(tensor);
    element.by_sample = !call.writes.empty() && call.writes[0].kind != Kind::d_parameter;
    return element;
  }

  template <class Places>
  TensorView view_of(const Planner& planner, const PassTensor& tensor, const Places& places, std::int64_t channels) const {
    const auto index = static_cast<std::size_t>(tensor.index);
    TensorView view;
    switch (tensor.kind) {
      case Kind::places:
        view.data = places.memory(place_at_[index]);
        view.stride_n = pixels_of(planner, tensor);
        view.stride_pixel = 1;
        view.by_channel = false;
        view.padded = 1;
        return view;
      case Kind::parameter:
      case Kind::d_parameter:
        view.data = tensor.kind == Kind::parameter ? places.parameter(index) : places.gradient(index);
        view.padded = channels;
        return view;
      case Kind::input:
      case Kind::output: {
        const auto& value = planner.value(value_of(tensor));
        return places.view(value.spec, places.memory(value.tensor));
      }
      case Kind::d_input:
      case Kind::d_output: {
        const auto& value = planner.value(value_of(tensor));
        return places.view(value.spec, places.memory(value.gradient));
      }
      default: return view;  // for losses
    }
  }

  template <class Places>
  Element element_of(const Planner& planner, const PassCall& call, const Places& places) const {
    Element element = extents_of(planner, call);
    std::size_t at = 0;
    const auto take = [&](const PassTensor& tensor, bool add) {
      TensorView& view = element.tensors[at++] = view_of(planner, tensor, places, element.channels);
      view.add = add;
      if (element.kernel->form == PortableForm::gather) take_extents(planner, tensor, view);
      const bool value = tensor.kind != Kind::parameter && tensor.kind != Kind::d_parameter;
      if (value && element.pixels > 1 && pixels_of(planner, tensor) == 1) view.stride_pixel = 0;  // the same for every pixel
    };
    for (const PassTensor& tensor : call.reads) take(tensor, false);
    for (const PassTensor& tensor : call.writes) {
      const bool d_input = tensor.kind == Kind::d_input;
      take(tensor, d_input && contributions_[static_cast<std::size_t>(tensor.index)].add);
    }
    return element;
  }

  void take_extents(const Planner& planner, const PassTensor& tensor, TensorView& view) const {
    const auto& spec = planner.value(value_of(tensor)).spec;
    if (view.stride_n > std::numeric_limits<std::int32_t>::max()) {
      fail(ErrorKind::usage, "an image of {} x {} x {} is too large for a gather", spec.channels, spec.height, spec.width);
    }
    view.channels = static_cast<std::int32_t>(spec.channels);
    view.height = static_cast<std::int32_t>(spec.height);
    view.width = static_cast<std::int32_t>(spec.width);
  }

  std::int64_t pixels_of(const Planner& planner, const PassTensor& tensor) const {
    const auto& spec = planner.value(value_of(tensor)).spec;
    return spec.height * spec.width;
  }

  template <class Submit>
  static void submit_all(const std::vector<Element>& elements, const Submit& submit) {
    for (const Element& element : elements) {
      submit(element.kernel->first, element);
      if (element.kernel->form == PortableForm::sum) submit(element.kernel->second, element);
    }
  }

  const PortableLayout layout_;
  const int outputs_;
  Pass forward_;
  std::vector<PassCall> backward_;
  int places_ = 0;
  std::vector<TensorId> place_at_, forward_partial_, backward_partial_;  // by call; kNoTensor unless it is a sum
  std::vector<typename Planner::Contribution> contributions_;            // by input
  std::vector<Element> forward_elements_, backward_elements_;
};

}  // namespace millrace
