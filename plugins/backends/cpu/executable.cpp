#include "executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "kernels/rearrange.h"
#include "millrace/error.h"
#include "primitives.h"

namespace millrace::cpu {
namespace {

// MILLRACE_CPU_PROFILE: "1" for time on the clock, "cpu" for processor time of all threads, which others on the machine disturb
// less.
const char* profiling() {
  static const char* const wanted = std::getenv("MILLRACE_CPU_PROFILE");
  return wanted;
}

double seconds_now() {
  timespec time{};
  const bool all_threads = profiling() != nullptr && std::strcmp(profiling(), "cpu") == 0;
  clock_gettime(all_threads ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Adds the time that passes until the end of the scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begin_(seconds_now()) {}
  ~Stopwatch() { seconds_ += seconds_now() - begin_; }

 private:
  double& seconds_;
  double begin_;
};

InputPlane plane_of(const dnnl::memory::desc& desc, void* data, DataType type) {
  const auto [padded, strides, blocked] = strides_of(desc);
  // Where channels are blocked, all of them lie in the first block.
  return {data, type, padded[1], strides[0], blocked ? 1 : strides[1], strides[2], strides[3]};
}

}  // namespace

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
  const std::int64_t batch = std::max(options.train_batch, options.infer_batch);
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
    fail(ErrorKind::usage, "{}: backend 'cpu' cannot compute it in {} on this processor (oneDNN: {}){}", place_of(*largest),
         to_string(options.precision), error.what(),
         options.precision == Precision::bf16 ? "; bf16 needs AVX-512, precision = \"fp32\" does not" : "");
  }
}

template <class Call>
void Executable::at_layer(const Operation& operation, const Call& call) {
  try {
    call();
  } catch (const dnnl::error& error) {
    fail(ErrorKind::device, "{}: oneDNN: {}", place_of(operation.layer()), error.what());
  } catch (Error& error) {
    throw error.in(place_of(operation.layer()));
  }
}

Executable::Executable(Workshop& workshop, const std::vector<Node>& nodes, std::int64_t samples, bool training)
    : workshop_(workshop), samples_(samples), planner_(training, workshop.network.layers.size()) {
  workshop_.reorders = 0;
  plan_values(nodes);
  for (const Node& node : nodes) {
    operations_.push_back(make_operation(workshop_, node));
    Operation& operation = *operations_.back();
    planner_.set_time(static_cast<int>(operations_.size()));
    at_layer(operation, [&] { operation.plan(planner_); });
  }
  input_desc_ = workshop_.input_desc;
  planner_.set_time(static_cast<int>(nodes.size()) + 1);
  plan_output();
  if (training) {
    plan_gradient_of_output();
    for (auto operation = operations_.rbegin(); operation != operations_.rend(); ++operation) {
      planner_.set_time(planner_.time() + 1);
      if (!planner_.value((*operation)->node().output).needs_gradient) continue;
      at_layer(**operation, [&] { (*operation)->plan_backward(planner_); });
    }
  }
  placement_ = place(planner_.lifetimes(), kAlignment);
  reorders_ = workshop_.reorders;
  costs_.resize(operations_.size());
}

// The input, who reads what, and what needs a gradient.
void Executable::plan_values(const std::vector<Node>& nodes) {
  const Network& network = workshop_.network;
  for (const Node& node : nodes) {
    bool needs = trains_anything(network, workshop_.layer(node.layer));
    for (const int from : node.inputs) {
      ++planner_.value(from).readers;
      needs = needs || planner_.value(from).needs_gradient;
    }
    planner_.value(node.output).needs_gradient = needs && planner_.training();
    planner_.value(node.output).spec.type = node.output == final_linear(nodes) ? DataType::f32 : workshop_.type();
  }
  ++planner_.value(static_cast<int>(network.layers.size()) - 1).readers;

  Value& input = planner_.value(Network::kInput);
  const Shape shape{network.input.channels, network.input.height, network.input.width};
  input.spec = MapSpec::of(shape, samples_, workshop_.type(), workshop_.layout);
  const auto reads_input = [](const Node& node) { return node.inputs.front() == Network::kInput; };
  const auto reader = std::find_if(nodes.begin(), nodes.end(), reads_input);
  const bool free = input.readers == 1 && reader != nodes.end() && reader->kind == Node::Kind::conv;
  workshop_.input_desc = input.spec.desc();
  if (!free) input.tensor = planner_.tensor(input.spec.bytes());
}

void Executable::plan_output() {
  const Value& output = planner_.value(last_layer());
  const bool vector = output.spec.height * output.spec.width == 1;
  copies_output_ = vector && (output.spec.type != DataType::f32 || output.spec.layout != Layout::channels_last);
  rows_ = copies_output_ ? planner_.tensor(row_bytes()) : output.tensor;
  planner_.use(output.tensor);
  planner_.use_at(rows_, planner_.training() ? last_time() : planner_.time());  // readable until the next pass
}

void Executable::plan_gradient_of_output() {
  Value& output = planner_.value(last_layer());
  if (copies_output_) d_rows_ = planner_.tensor(row_bytes());
  output.gradient = planner_.tensor(output.spec.bytes());
}

std::size_t Executable::row_bytes() const {
  return static_cast<std::size_t>(samples_ * planner_.value(last_layer()).spec.channels) * sizeof(float);
}

void Executable::bind(std::byte* arena) {
  const Binding binding{arena, placement_};
  for (const auto& operation : operations_) {
    at_layer(*operation, [&] { operation->bind(planner_, binding); });
  }
  const Value& input = planner_.value(Network::kInput);
  input_ = plane_of(input_desc_, binding.at(input.tensor), workshop_.type());
  output_ = map_of(planner_, binding, last_layer());
  const std::int64_t channels = output_.channels;
  if (copies_output_) rows_map_ = Map::channels_last(binding.as<float>(rows_), DataType::f32, samples_, channels);
  if (!planner_.training()) return;
  d_output_ = gradient_of(planner_, binding, last_layer());
  if (copies_output_) d_rows_map_ = Map::channels_last(binding.as<float>(d_rows_), DataType::f32, samples_, channels);
}

void Executable::forward(const Pass& pass) {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Stopwatch watch(costs_[i].forward);
    at_layer(*operations_[i], [&] { operations_[i]->forward(pass); });
  }
  if (copies_output_) copy(output_, rows_map_);
  ++passes_;
}

void Executable::backward(const Pass& pass, const std::function<void(int node)>& done) {
  if (copies_output_) copy(d_rows_map_, d_output_);
  for (std::size_t i = operations_.size(); i-- > 0;) {
    {
      const Stopwatch watch(costs_[i].backward);
      at_layer(*operations_[i], [&] { operations_[i]->backward(pass); });
    }
    done(static_cast<int>(i));
  }
}

std::string Executable::profile() const {
  if (profiling() == nullptr || passes_ == 0) return {};
  const double scale = 1e3 / static_cast<double>(passes_);
  double forward = 0, backward = 0;
  std::string text = fmt::format("cpu: {} of {} samples, {} passes, {} reorders, arena {:.1f} MiB; milliseconds\n",
                                 planner_.training() ? "training" : "inference", samples_, passes_, reorders_,
                                 static_cast<double>(placement_.bytes) / 1048576.0);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    text += fmt::format("  {:32} {:9.3f} {:9.3f}  {}\n", operations_[i]->layer().name, costs_[i].forward * scale,
                        costs_[i].backward * scale, operations_[i]->detail());
    forward += costs_[i].forward * scale;
    backward += costs_[i].backward * scale;
  }
  return text + fmt::format("  {:32} {:9.3f} {:9.3f}\n", "total", forward, backward);
}

}  // namespace millrace::cpu
