// Convolution of 3x3 windows by Winograd's algorithm: 16 products instead of 36 of a direct convolution, which already run at the
// processor's peak.
#include <fmt/format.h>

#include <algorithm>

#include "convolution/own_convolution.h"
#include "device_info.h"
#include "millrace/backend/int8.h"

namespace millrace::cpu {
namespace {

// Weights are read in the network's order in float32; in bf16 they are rounded once, when transformed.
class Winograd final : public OwnConvolution {
 public:
  Winograd(CompileContext& compile_context, const Node& node) : OwnConvolution(compile_context, node) {
    const Shape& from = layer().input_shapes[0];
    shape_ = {from[0], layer().output[0], conv().padding.top, conv().padding.left};
    kernels_ = kernels().winograd(compile_context.type());
  }

  std::string detail() const override { return fmt::format("own Winograd kernels ({})", kernels().instruction_set); }

 protected:
  void plan_forward(Planner& planner) override { forward_weights_ = planner.tensor(transformed_bytes()); }
  void plan_data(Planner& planner) override { data_weights_ = planner.tensor(transformed_bytes()); }
  void plan_weights(Planner& planner) override {
    const MapSpec& output = planner.value(node_.output).spec;
    sums_ = planner.tensor(kernels_->backward_floats(shape_, output.map(nullptr)) * sizeof(float));
  }
  void bind_scratch(const Binding& binding) override {
    forward_bound_ = binding.at<std::byte>(forward_weights_);
    data_bound_ = binding.at<std::byte>(data_weights_);
    sums_bound_ = binding.at<float>(sums_);
  }

  PreparedWeights* prepare() override {
    return &compile_context_.parameters.prepare(layer(), norm(), "Winograd", transformed_bytes(),
                                                [shape = shape_, kernels = kernels_](const float* weights, void* to) {
                                                  kernels->transform_weights(shape, weights, false, to);
                                                });
  }

  void convolve(const Map& x, const float* bias, bool relu, const Map& y) override {
    if (prepared() == nullptr) kernels_->transform_weights(shape_, value(0), false, forward_bound_);
    kernels_->convolve(shape_, x, prepared() != nullptr ? prepared()->weights : forward_bound_, bias, relu, y);
  }
  void convolve_backward_weights(const Map& x, const Map& dy, float* d_weights) override {
    kernels_->backward_weights(shape_, x, dy, sums_bound_, d_weights);
  }
  void convolve_backward_data(const Map& dy, const Map& dx) override {
    kernels_->transform_weights(shape_, value(0), true, data_bound_);
    kernels_->convolve(shape_.backward(), dy, data_bound_, nullptr, false, dx);
  }

 private:
  std::size_t transformed_bytes() const { return kernels_->transformed_bytes(shape_); }

  WinogradShape shape_;
  const WinogradKernels* kernels_ = nullptr;
  TensorId forward_weights_ = kNoTensor, data_weights_ = kNoTensor, sums_ = kNoTensor;
  std::byte *forward_bound_ = nullptr, *data_bound_ = nullptr;  // transformed weights
  float* sums_bound_ = nullptr;
};

// True if ours is the fastest for such maps. Not in bf16 if oneDNN multiplies with AMX; not in float32 if oneDNN has Winograd's
// algorithm itself, with tiles of 4 x 4 (see convolution.cpp).
bool is_fastest(const CompileContext& compile_context, const Layer& layer) {
  if (kernels().winograd(compile_context.type()) == nullptr) return false;
  if (compile_context.type() == DataType::bf16) return !multiplies_tiles();
  // oneDNN's is for training: see convolution.cpp. Sums of integers stay exact.
  if (compile_context.predicts() && !is_int8(layer)) return true;
  return DNNL_VERSION_MAJOR >= 3 || compile_context.layout == Layout::channels_last;
}

// The numbers of a trial are exact in bf16 even as transformed weights and pixels: only the result is rounded.
bool winograd_is_right(const CompileContext& compile_context, const Node& node, WindowOperand result) {
  OwnTrial trial = own_trial(compile_context, node, result);
  const WinogradKernels& own = *kernels().winograd(compile_context.type());
  const WinogradShape shape{trial.shape.c, trial.shape.k, trial.shape.rows.before, trial.shape.columns.before};
  trial.scratch = result == WindowOperand::w ? own.backward_floats(shape, trial.output.map(nullptr)) * sizeof(float)
                                             : own.transformed_bytes(shape);
  const std::string name = fmt::format("own Winograd kernels ({}), {}", kernels().instruction_set, trial.text);
  return compile_context.checks.is_right(name, trial, [&](const TrialMemory& at) {
    const Map x = trial.x_map(at), y = trial.y_map(at);
    auto* const weights = static_cast<float*>(at.w);
    if (result == WindowOperand::w) return own.backward_weights(shape, x, y, static_cast<float*>(at.scratch), weights);
    const bool backward = result == WindowOperand::x;
    own.transform_weights(shape, weights, backward, at.scratch);
    own.convolve(backward ? shape.backward() : shape, backward ? y : x, at.scratch, nullptr, false, backward ? x : y);
  });
}

}  // namespace

// Measured against direct ones of oneDNN 2.6 on two cores of Zen 4, forward and backward together: 1.2 times as fast for 512
// channels of 7x7 pixels, 1.3 for 32 of 180x240, 1.5 to 1.9 between. With AVX2 alone airbench94 trains 1.27 times as fast.
// Depends on the layer alone, not the batch, so that validation and prediction agree.
bool takes_winograd(const CompileContext& compile_context, const Node& node) {
  const Layer& layer = compile_context.layer(node.layer);
  const auto& conv = layer.as<ConvAttributes>();
  const auto is = [](const Size& size, std::int64_t extent) { return size.height == extent && size.width == extent; };
  const bool fits = !conv.transposed && conv.groups == 1 && is(conv.kernel, 3) && is(conv.stride, 1) && is(conv.dilation, 1) &&
                    conv.padding.top <= 2 && conv.padding.left <= 2 && node.inputs.front() != Network::kInput;
  if (!fits || !is_fastest(compile_context, layer)) return false;
  const std::int64_t in = layer.input_shapes[0][0], out = layer.output[0], height = layer.output[1], width = layer.output[2];
  const std::int64_t tiles = (height + 1) / 2 * ((width + 1) / 2);
  const bool pays = in * out >= 1024 && tiles >= 16 && 2 * 4 * tiles <= 3 * height * width;
  if (in % Map::kLanes != 0 || out % Map::kLanes != 0 || !pays) return false;
  return std::ranges::all_of(kPassesOfTrials,
                             [&](WindowOperand result) { return winograd_is_right(compile_context, node, result); });
}

std::unique_ptr<Operation> make_winograd(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Winograd>(compile_context, node);
}

}  // namespace millrace::cpu
