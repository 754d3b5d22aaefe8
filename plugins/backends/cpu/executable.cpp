#include "executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "folding.h"
#include "kernels/rearrange.h"
#include "millrace/error.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time until the end of the scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begin_(Clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  double& seconds_;
  Clock::time_point begin_;
};

InputPlane plane_of(const dnnl::memory::desc& desc, void* data, DataType type) {
  const auto [padded, strides, blocked] = strides_of(desc);
  // In a blocked layout, all channels are in the first block.
  return {data, type, padded[1], strides[0], blocked ? 1 : strides[1], strides[2], strides[3]};
}

}  // namespace

std::vector<Node> fused(const Network& network, std::vector<LayerPort> outputs) {
  return with_integers(network, fuse(network, {.backend = "cpu", .pool_with_statistics = true, .outputs = outputs}), outputs);
}

std::vector<Node> fused_to_predict(const Network& network, const std::vector<LayerPort>& outputs) {
  return folded(network, fused(network, outputs), outputs);
}

Layout preferred_layout(const Network& network, const CompileOptions& options, const dnnl::engine& engine) {
  using dnnl::memory;
  const Layer* largest = nullptr;
  for (const Layer& layer : network.layers) {
    if (layer.op == "conv" && layer.as<ConvAttributes>().groups == 1 && layer.input_shapes[0][0] >= Map::kLanes &&
        (largest == nullptr || layer.multiply_adds > largest->multiply_adds)) {
      largest = &layer;
    }
  }
  if (largest == nullptr) return Layout::channels_last;
  const auto& conv = largest->as<ConvAttributes>();
  const Shape& from = largest->input_shapes[0];
  const auto type = options.precision == Precision::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const std::uint32_t trained = std::max(options.train_batch, options.largest_train_batch);
  const std::int64_t batch = trained > 0 ? trained : options.infer_batch;
  const auto any = memory::format_tag::any;
  const memory::desc source({batch, from[0], from[1], from[2]}, type, any);
  const memory::desc weights({conv.out, from[0], conv.kernel.height, conv.kernel.width}, type, any);
  const memory::desc destination({batch, conv.out, largest->output[1], largest->output[2]}, type, any);
  const memory::dims strides = {conv.stride.height, conv.stride.width};
  const memory::dims dilates = {conv.dilation.height - 1, conv.dilation.width - 1};
  const memory::dims before = {conv.padding.top, conv.padding.left}, after = {conv.padding.bottom, conv.padding.right};
  try {
    const auto chosen = describe<dnnl::convolution_forward>(engine, attributes(), dnnl::prop_kind::forward_training,
                                                            dnnl::algorithm::convolution_direct, source, weights, memory::desc(),
                                                            destination, strides, dilates, before, after);
    const memory::desc blocked(dims_of(destination), type, memory::format_tag::nChw16c);
    return chosen.dst_desc() == blocked ? Layout::blocked : Layout::channels_last;
  } catch (const dnnl::error& error) {
    fail(ErrorKind::usage, "{}: backend 'cpu' cannot compute it in {} on this processor (oneDNN: {})", place_of(*largest),
         to_string(options.precision), error.what());
  }
}

Executable::Executable(CompileContext& compile_context, const std::vector<Node>& nodes, std::int64_t samples, bool training)
    : compile_context_(compile_context),
      samples_(samples),
      plan_(compile_context.network, nodes, training || compile_context.by, compile_context.type(),
            compile_context.options.request, compile_context.by) {
  const auto make = [this](const Node& node) { return make_operation(compile_context_, node); };
  if (!plan_.planner().training()) {
    const auto kept = plan_.kept();
    int8_ = std::make_unique<Int8Plan>(compile_context.network, nodes, std::vector<LayerPort>(kept.begin(), kept.end()));
  }
  compile_context.int8 = int8_.get();
  plan_input(nodes);
  plan_.plan_forward(make, compile_context_.options.recompute && !compile_context_.by);
  input_desc_ = compile_context_.input_desc;
  plan_.plan_outputs([this](LayerPort value) {
    const MapSpec& output = plan_.planner().value(value).spec;
    const bool vector = output.height * output.width == 1;
    const bool copies = vector && (output.type != DataType::f32 || output.layout != Layout::channels_last);
    return copies ? static_cast<std::size_t>(samples_ * output.channels) * sizeof(float) : 0;
  });
  plan_.plan_backward(make);
  plan_.place_tensors(kAlignment, compile_context_.options.share_memory);
  costs_.resize(nodes.size());
}

// A convolution that is the only reader of the input chooses its layout.
void Executable::plan_input(const std::vector<Node>& nodes) {
  const ImageShape& image = compile_context_.network.input;
  Value& input = plan_.planner().value(Network::kInput);
  input.spec =
      MapSpec::of({image.channels, image.height, image.width}, samples_, compile_context_.type(), compile_context_.layout);
  const auto reads_input = [](const Node& node) { return node.inputs.front() == Network::kInput; };
  const auto reader = std::find_if(nodes.begin(), nodes.end(), reads_input);
  const bool free = input.readers == 1 && reader != nodes.end() && reader->kind == Node::Kind::conv;
  if (reader != nodes.end() && compile_context_.layer(reader->layer).op == kQuantise) input.spec.layout = Layout::channels_last;
  compile_context_.input_desc = input.spec.desc();
  if (!free) input.tensor = plan_.planner().tensor(input.spec.bytes());
}

void Executable::bind(std::byte* arena) {
  const Binding binding = plan_.bind(
      arena, [this](const Map& made, void* data) { return Map::channels_last(data, DataType::f32, samples_, made.channels); });
  const Planner& planner = plan_.planner();
  input_ = plane_of(input_desc_, binding.at(planner.value(Network::kInput).tensor), compile_context_.type());
  kept_maps_.clear();
  for (const LayerPort value : plan_.kept()) kept_maps_.push_back(map_of(planner, binding, value));
  if (compile_context_.by) gradient_ = gradient_of(planner, binding, *compile_context_.by);
}

void Executable::forward(const Pass& pass) {
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    const Stopwatch watch(costs_[i].forward);
    Operation& operation = *plan_.operations()[i];
    operation.at_layer([&] { operation.forward(pass); });
  }
  for (const auto& measured : plan_.measured()) {
    if (measured.copied) copy(measured.made, measured.rows);
  }
  ++passes_;
}

void Executable::meet_forward() {
  for (const auto& operation : plan_.operations()) operation->at_layer([&] { operation->meet_forward(); });
}

void Executable::meet_backward() {
  for (const auto& step : plan_.steps()) {
    if (step.recompute) continue;
    Operation& operation = plan_.of_backward(step.node);
    operation.at_layer([&] { operation.meet_backward(); });
  }
}

void Executable::backward(const Pass& pass, const std::function<void(int node)>& done) {
  for (const auto& measured : plan_.measured()) {
    if (measured.copied) copy(measured.d_rows, measured.d_made);
  }
  for (const auto& step : plan_.steps()) {
    if (plan_.is_left_out(step)) continue;
    {
      const Stopwatch watch(costs_[static_cast<std::size_t>(step.node)].backward);
      Operation& operation = plan_.of_backward(step.node);
      if (!step.recompute) plan_.each_zeros(step.node, [](void* data, std::size_t bytes) { std::memset(data, 0, bytes); });
      operation.at_layer([&] { step.recompute ? operation.recompute(pass) : operation.backward(pass); });
    }
    if (!step.recompute) done(step.node);
  }
}

std::vector<LayerTime> Executable::layer_times() const {
  std::vector<LayerTime> times = plan_.layer_times();
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i].forward = costs_[i].forward;
    times[i].backward = costs_[i].backward;
    times[i].passes = passes_;
  }
  return times;
}

}  // namespace millrace::cpu
