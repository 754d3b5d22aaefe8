#include "testkit/plain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "millrace/backend/buckets.h"
#include "millrace/backend/loss_plan.h"
#include "millrace/backend/state_plan.h"
#include "millrace/error.h"
#include "testkit/host_optimizer.h"
#include "testkit/plain_stream.h"

namespace millrace::testkit {
namespace {

// Slots [begin, begin + count) of a batch, seen through a view, as normalised (count, C, H, W) floats.
std::vector<float> normalised_images(const Network& network, const Batch& batch, std::uint32_t begin, std::uint32_t count,
                                     const View& view) {
  const ImageShape window = batch.window;
  std::vector<float> values;
  std::vector<std::uint8_t> seen(window.bytes());
  for (std::uint32_t n = begin; n < begin + count; ++n) {
    AugmentationRecord record = batch.records[n];
    if (view.dx != 0 || view.dy != 0) {
      record.translate(view.dx, view.dy);
      record.border = view.border;
    }
    if (view.flip_x) record.flip_x(window.width);
    apply_record(record, {const_cast<std::uint8_t*>(batch.pixels) + n * batch.image.bytes(), batch.image}, window, seen.data());
    const auto channels = static_cast<std::size_t>(window.channels);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = c; i < seen.size(); i += channels) {
        values.push_back(static_cast<float>((seen[i] / 255.0 - network.mean[c]) / network.deviation[c]));
      }
    }
  }
  return values;
}

// total += view.weight * result; a mirrored view's maps are mirrored back.
void add_view(const Network& network, const std::vector<float>& result, const View& view, std::vector<float>& total) {
  const std::size_t width = network.output().rank() == 3 ? static_cast<std::size_t>(network.output()[2]) : 1;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const std::size_t x = i % width, from = view.flip_x ? i - x + (width - 1 - x) : i;
    total[i] += static_cast<float>(view.weight) * result[from];
  }
}

// The gradient of each sample's score by the network's result.
std::vector<float> score_gradient(const Network& network, const ScoreGradient& score, const std::vector<float>& result,
                                  std::span<const std::int32_t> labels) {
  std::vector<float> gradient(result.size(), 0.0F);
  const auto numbers = scored_numbers(score, result, labels);
  const auto width = static_cast<std::size_t>(network.output().elements());
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] >= 0) gradient[n * width + static_cast<std::size_t>(numbers[n])] = 1;
  }
  return gradient;
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }
std::size_t elements(const Shape& shape) { return static_cast<std::size_t>(shape.elements()); }

class PlainReplica : public Replica {
 public:
  PlainReplica(const Network& network, const CompileOptions& options)
      : network_(network), layout_(plan_buckets(network, options.bucket_bytes)), request_(options.request) {
    check_update(request_.update, network_);
    check_gradients(network_, request_);
    for (const Layer& layer : network.layers) {
      if (layer.op != "flatten" && layer.op != "linear" && layer.op != "relu") {
        fail(ErrorKind::usage, "layer '{}': the plain backend does not know \"{}\"", layer.name, layer.op);
      }
    }
  }

  MemoryPlan memory_plan() const override { return {}; }

  void start() override {
    full_state(kValue);
    full_state(kGradient);
    for (std::size_t p = 0; p < network_.parameters.size() && !request_.update.optimizers.empty(); ++p) {
      for (const OptimizerState& kept : optimizer_of(p).states()) {
        state(kept.name)[p].assign(elements(shape_of_state(kept.shape, network_.parameters[p])), kept.initial);
      }
    }
    for (const std::string& copy : request_.copies) full_state(copy);
    for (const std::vector<int>& parameters : layout_) {
      std::vector<std::size_t> offsets;
      std::size_t count = 0;
      for (const int p : parameters) offsets.push_back(count), count += elements(network_.parameters[at(p)].shape);
      buckets_.push_back({parameters, memory_.emplace_back(count, 0.0F).data(), count, std::move(offsets)});
    }
  }
  const std::vector<Bucket>& buckets() const override { return buckets_; }

  void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) override { read_batch(*batch, begin, count, View{}); }

  void forward(std::uint64_t) override {
    for (std::size_t l = 0; l < network_.layers.size(); ++l) activations_[l + 1] = forward(network_.layers[l], activations_[l]);
  }

  Ref<Event> losses(std::span<const LossTerm> terms) override {
    logits_ = activations_.back();
    logit_gradient_.assign(logits_.size(), 0.0F);
    for (const LossTerm& term : terms) {
      if (term.output.value_or(network_.result()) != network_.result()) {
        fail(ErrorKind::usage, "the plain backend computes chains: it measures losses at the network's result alone");
      }
      measure(term.loss, term.divisor, *term.sums);
    }
    return make_ref<Done>();
  }

  void backward(BucketReady ready) override {
    for (Bucket& bucket : buckets_) {
      if (!adds_) std::fill_n(bucket.gradients, bucket.elements, 0.0F);
    }
    adds_ = false;
    std::vector<float> gradient = logit_gradient_;
    for (std::size_t l = network_.layers.size(); l-- > 0;) gradient = backward(network_.layers[l], activations_[l], gradient);
    for (std::size_t b = 0; b < buckets_.size(); ++b) ready(static_cast<int>(b), make_ref<Done>());
  }

  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>&) override {
    if (request_.update.optimizers.empty())
      fail(ErrorKind::usage, "nothing is updated: the network was compiled without an optimizer");
    const float* gradient = buckets_[at(bucket)].gradients;
    for (const int p : buckets_[at(bucket)].parameters) {
      update_parameter(at(p), gradient, step);
      gradient += elements(network_.parameters[at(p)].shape);
    }
    return make_ref<Done>();
  }

  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) override {
    const bool begins = begun_.insert(std::string(copy)).second;
    for (std::size_t p = 0; p < network_.parameters.size(); ++p) {
      std::vector<float>&value = state(kValue)[p], &copied = state(copy)[p];
      if (begins) copied = value;
      const auto d = static_cast<float>(decay);
      for (std::size_t i = 0; i < value.size(); ++i) copied[i] = d * copied[i] + (1 - d) * value[i];
      if (write_back) value = copied;
    }
    return make_ref<Done>();
  }

  void keep_gradients() override { adds_ = true; }

  Ref<Event> swap_with(std::string_view copy) override {
    if (begun_.contains(std::string(copy))) std::swap(state(kValue), state(copy));
    return make_ref<Done>();
  }

  Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                   const std::shared_ptr<const Loss>& loss, StepSums& sums) override {
    check_views(network_, views);
    std::vector<float> total(count * elements(network_.output()), 0.0F);
    for (const View& view : views) {
      read_batch(*batch, begin, count, view);
      forward(0);
      add_view(network_, activations_.back(), view, total);
    }
    logits_ = std::move(total);
    logit_gradient_.assign(logits_.size(), 0.0F);
    if (loss != nullptr) measure(loss, 1, sums);
    return make_ref<Done>();
  }
  Ref<Event> read_outputs(std::span<const OutputCopy> copies) override {
    for (const OutputCopy& copy : copies) {
      const bool result = copy.value == network_.result();
      const std::vector<float>& values = result ? logits_ : activations_[at(copy.value.layer) + 1];
      std::copy(values.begin(), values.end(), copy.host);
    }
    return make_ref<Done>();
  }
  Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                            std::span<const GradientCopy> copies) override {
    const std::vector<std::vector<float>> kept = memory_;  // backward() adds to it
    for (const auto& [score, host] : copies) {
      read_batch(*batch, begin, count, View{});
      forward(0);
      std::vector<float> gradient = score_gradient(network_, score, activations_.back(), {batch->labels + begin, count});
      for (std::size_t l = network_.layers.size(); l-- > at(score.by.layer) + 1;) {
        gradient = backward(network_.layers[l], activations_[l], gradient);
      }
      std::copy(gradient.begin(), gradient.end(), host);
    }
    for (std::size_t b = 0; b < kept.size(); ++b) std::copy(kept[b].begin(), kept[b].end(), memory_[b].begin());
    return make_ref<Done>();
  }
  std::vector<float> logits() override { return logits_; }
  std::vector<std::string> states() const override {
    std::vector<std::string> names;
    for (const auto& [name, values] : states_) {
      if (!is_copy(name) || begun_.contains(name)) names.push_back(name);
    }
    return names;
  }
  std::optional<Shape> state_shape(std::string_view name, int parameter) const override {
    const auto found = states_.find(std::string(name));
    if (found == states_.end() || found->second[at(parameter)].empty()) return std::nullopt;
    const Parameter& own = network_.parameters[at(parameter)];
    if (name == kValue || name == kGradient || is_copy(name)) return own.shape;
    return shape_of_state(std::ranges::find(optimizer_of(at(parameter)).states(), name, &OptimizerState::name)->shape, own);
  }
  std::vector<float> read(std::string_view name, int parameter) override {
    if (name != kGradient) return state_of(name, parameter);
    const auto [begin, end] = gradient_of(parameter);
    return {begin, end};
  }
  void write(std::string_view name, int parameter, std::span<const float> values) override {
    if (name == kGradient) {
      std::copy(values.begin(), values.end(), gradient_of(parameter).first);
    } else {
      state_of(name, parameter).assign(values.begin(), values.end());
      if (is_copy(name)) begun_.emplace(name);
    }
  }
  void finish() override {}

 private:
  const Optimizer& optimizer_of(std::size_t p) const {
    const OptimizerSpec& update = request_.update;
    return *update.optimizers[update.optimizer_of.empty() ? 0 : at(update.optimizer_of[p])];
  }
  bool is_copy(std::string_view name) const {
    return std::find(request_.copies.begin(), request_.copies.end(), name) != request_.copies.end();
  }

  // By parameter; empty for those without the state.
  std::vector<std::vector<float>>& state(std::string_view name) {
    const auto [found, made] = states_.try_emplace(std::string(name), network_.parameters.size());
    return found->second;
  }
  std::vector<std::vector<float>>& full_state(std::string_view name) {
    std::vector<std::vector<float>>& values = state(name);
    for (std::size_t p = 0; p < values.size(); ++p) values[p].assign(elements(network_.parameters[p].shape), 0.0F);
    return values;
  }
  std::vector<float>& state_of(std::string_view name, int parameter) {
    std::vector<float>& values = state(name)[at(parameter)];
    if (values.empty()) {
      fail(ErrorKind::usage, "parameter '{}' has no state '{}' here", network_.parameters[at(parameter)].name, name);
    }
    return values;
  }

  // Works on copies of whole packs.
  void update_parameter(std::size_t p, const float* gradient, const UpdateStep& step) {
    const std::size_t count = elements(network_.parameters[p].shape),
                      padded = (count + kUpdatePack - 1) / kUpdatePack * kUpdatePack;
    const std::vector<OptimizerState>& kept = optimizer_of(p).states();
    std::vector<std::vector<float>> arrays(kept.size() + 2, std::vector<float>(padded));
    std::copy_n(gradient, count, arrays[0].begin());
    std::copy_n(state(kValue)[p].begin(), count, arrays[1].begin());
    UpdateArguments arguments;
    arguments.gradient = arrays[0].data();
    arguments.value = arrays[1].data();
    for (std::size_t s = 2; s < arrays.size(); ++s) {
      std::ranges::copy(state(kept[s - 2].name)[p], arrays[s].begin());
      arguments.states[s - 2] = arrays[s].data();
    }
    run_optimizer(arguments, p, step);
    state(kValue)[p].assign(arguments.value, arguments.value + count);
    for (std::size_t s = 2; s < arrays.size(); ++s) {
      std::vector<float>& values = state(kept[s - 2].name)[p];
      std::copy_n(arguments.states[s - 2], values.size(), values.begin());
    }
  }

  void run_optimizer(UpdateArguments& arguments, std::size_t p, const UpdateStep& step) const {
    const std::vector<double>&factors = request_.update.rate_factor, &decay = request_.update.decay;
    UpdateSegment segment;
    segment.rate_factor = static_cast<float>(!step.rate_factor.empty() ? step.rate_factor[p] : factors.empty() ? 1 : factors[p]);
    segment.decay = decay.empty() ? 0.0F : static_cast<float>(decay[p]);
    set_matrix(matrix_of(network_.parameters[p]), segment, arguments);
    arguments.packs = static_cast<std::int64_t>(elements(network_.parameters[p].shape) + kUpdatePack - 1) / kUpdatePack;
    arguments.learning_rate = static_cast<float>(step.learning_rate);
    arguments.scale = step.scale, arguments.wrong = step.wrong;
    arguments.chunks = chunks_of_norms(arguments.packs);
    std::vector<Squares> squares(at(static_cast<int>(arguments.chunks)) + 1);
    arguments.squares = squares.data();
    arguments.partial_squares = squares.data() + 1;
    update_on_host(optimizer_of(p), arguments, step);
  }

  std::pair<float*, float*> gradient_of(int parameter) {
    for (const Bucket& bucket : buckets_) {
      float* begin = bucket.gradients;
      for (const int p : bucket.parameters) {
        float* end = begin + network_.parameters[at(p)].shape.elements();
        if (p == parameter) return {begin, end};
        begin = end;
      }
    }
    return {nullptr, nullptr};
  }

  // Copies the samples, and the parts of the batch that backward and loss need.
  void read_batch(const Batch& batch, std::uint32_t begin, std::uint32_t count, const View& view) {
    labels_.assign(batch.labels + begin, batch.labels + begin + count);
    weights_.assign(batch.weights + begin, batch.weights + begin + count);
    second_labels_ = labels_;
    shares_.assign(count, 1.0F);
    if (batch.shares != nullptr) {
      second_labels_.assign(batch.second_labels + begin, batch.second_labels + begin + count);
      shares_.assign(batch.shares + begin, batch.shares + begin + count);
    }
    numbers_.clear();
    const std::size_t each = batch.numbers_for_loss();
    if (each > 0) numbers_.assign(batch.numbers + begin * each, batch.numbers + (begin + count) * each);
    activations_.assign(network_.layers.size() + 1, {});
    activations_[0] = normalised_images(network_, batch, begin, count, view);
  }

  std::vector<float> forward(const Layer& layer, const std::vector<float>& in) {  // (N, inputs) -> (N, outputs)
    std::vector<float> out = in;
    if (layer.op == "relu") {
      for (float& value : out) value = std::max(value, 0.0F);
    } else if (layer.op == "linear") {
      const std::size_t inputs = elements(layer.input_shapes[0]), outputs = elements(layer.output), samples = in.size() / inputs;
      const std::vector<float>& weight = state(kValue)[at(layer.parameters[0])];  // (outputs, inputs)
      const std::vector<float>& bias = state(kValue)[at(layer.parameters[1])];
      out.assign(samples * outputs, 0.0F);
      for (std::size_t n = 0; n < samples; ++n) {
        for (std::size_t o = 0; o < outputs; ++o) {
          float sum = bias[o];
          for (std::size_t i = 0; i < inputs; ++i) sum += weight[o * inputs + i] * in[n * inputs + i];
          out[n * outputs + o] = sum;
        }
      }
    }
    return out;
  }

  // Returns the gradient of the layer's input; adds its parameters' gradients to their buckets.
  std::vector<float> backward(const Layer& layer, const std::vector<float>& in, const std::vector<float>& gradient) {
    std::vector<float> result = gradient;
    if (layer.op == "relu") {
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = in[i] > 0 ? result[i] : 0;
    } else if (layer.op == "linear") {
      const std::size_t inputs = elements(layer.input_shapes[0]), outputs = elements(layer.output), samples = in.size() / inputs;
      const std::vector<float>& weight = state(kValue)[at(layer.parameters[0])];
      float* weight_gradient = gradient_of(layer.parameters[0]).first;
      float* bias_gradient = gradient_of(layer.parameters[1]).first;
      result.assign(in.size(), 0.0F);
      for (std::size_t n = 0; n < samples; ++n) {
        for (std::size_t o = 0; o < outputs; ++o) {
          const float g = gradient[n * outputs + o];
          bias_gradient[o] += g;
          for (std::size_t i = 0; i < inputs; ++i) {
            weight_gradient[o * inputs + i] += g * in[n * inputs + i];
            result[n * inputs + i] += g * weight[o * inputs + i];
          }
        }
      }
    }
    return result;
  }

  // Sums a loss over logits_, and adds its gradient.
  void measure(const std::shared_ptr<const Loss>& loss, double divisor, StepSums& sums) {
    const LossPlan plan(loss, network_.output());
    const auto samples = static_cast<std::int64_t>(weights_.size()), outputs = network_.output().elements();
    sums.values.assign(plan.sums(), 0.0);
    if (samples == 0) return;
    const auto rows = [&](std::vector<float>& values) {
      TensorView view;
      view.data = values.data();
      view.stride_n = view.padded = outputs;
      return view;
    };
    LossTensors tensors;
    tensors.samples = samples;
    tensors.output = rows(logits_);
    tensors.d_output = rows(logit_gradient_);
    tensors.d_output.add = true;
    tensors.weights = weights_.data();
    tensors.labels = labels_.data();
    tensors.second_labels = second_labels_.data();
    tensors.shares = shares_.data();
    tensors.target = rows(numbers_);
    tensors.constants = plan.constants().data();
    tensors.divisor = divisor;
    std::vector<double> workspace(plan.workspace(samples) / sizeof(double) + 1);
    plan.run(tensors, reinterpret_cast<std::byte*>(workspace.data()),
             [](const Kernel& kernel, const void* element) { kernel.run_on_host(element, 0, kernel.units(element)); });
    std::copy_n(workspace.begin(), plan.sums(), sums.values.begin());
  }

  const Network network_;
  const std::vector<std::vector<int>> layout_;
  std::map<std::string, std::vector<std::vector<float>>> states_;  // by parameter; gradients are in memory_ instead
  bool adds_ = false;                                              // whether backward adds to existing gradients
  std::set<std::string> begun_;                                    // copies
  std::vector<std::vector<float>> memory_;                         // by bucket
  std::vector<Bucket> buckets_;
  const CompileRequest request_;
  std::vector<std::vector<float>> activations_;  // the input, then each layer's output
  std::vector<float> labels_, second_labels_, weights_, shares_, numbers_;
  std::vector<float> logits_, logit_gradient_;
};

template <class T>
std::shared_ptr<T> zeroed(std::size_t bytes) {
  const std::size_t padded = (bytes / 64 + 1) * 64;
  return {static_cast<std::remove_extent_t<T>*>(std::memset(std::aligned_alloc(64, padded), 0, padded)), std::free};
}

class PlainDevice : public Device {
 public:
  explicit PlainDevice(int index) {
    info_ = {.backend = "plain", .index = index, .name = "plain loops", .uuid = {}, .details = {}, .versions = {}};
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string&) override { return std::make_unique<PlainStream>(); }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override { return zeroed<std::uint8_t[]>(bytes); }
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string&) override { return zeroed<std::byte>(bytes); }
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override {
    return std::make_unique<PlainReplica>(network, options);
  }

 private:
  DeviceInfo info_;
};

class PlainBackend : public Backend {
 public:
  std::string name() const override { return "plain"; }
  std::vector<DeviceInfo> devices() override { return {PlainDevice(0).info()}; }
  std::unique_ptr<Device> open(int index, const DeviceOptions&) override { return std::make_unique<PlainDevice>(index); }
};

}  // namespace

std::shared_ptr<Backend> make_plain_backend() { return std::make_shared<PlainBackend>(); }

}  // namespace millrace::testkit
