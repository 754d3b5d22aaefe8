// Batch normalisation fused with a max pooling before and an addition and activation after.
//
// Kept for backward: the (pooled) input, its mean and variance, one byte per window; with a ReLU after an addition the output,
// which the next layer keeps anyway.
#include <algorithm>

#include "operation.h"

namespace millrace::cpu {
namespace {

class Normalisation final : public Operation {
 public:
  Normalisation(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), attributes_(layer().as<BatchNormAttributes>()), channels_(layer().output[0]) {
    if (node.pool >= 0) window_ = pool_window(compile_context.layer(node.pool).as<PoolAttributes>());
    std::size_t next = 0;
    if (attributes_.scale) scale_at_ = static_cast<int>(next++);
    if (attributes_.shift) shift_at_ = static_cast<int>(next++);
    statistics_at_ = next;
  }

  void plan(Planner& planner) override {
    training_ = planner.training();
    learns_ = planner.learns();
    const bool pools = node_.pool >= 0;
    Value& output = plan_output(planner, planner.value(input()).spec.type, pools ? kNoResidual : input());
    planner.use(planner.value(input()).tensor);
    if (node_.residual != kNoResidual) planner.use(planner.value(node_.residual).tensor);
    if (pools) pooled_ = training_ ? planner.tensor(output.spec.bytes()) : output.tensor;
    if (!training_) return;
    if (pools) index_ = planner.tensor(index_bytes(output.spec, window_));
    if (!learns_) return;
    if (first() != nullptr) return follow_statistics(planner);
    mean_at_ = planner.tensor(channel_bytes());
    variance_at_ = planner.tensor(channel_bytes());
  }

  void plan_backward(Planner& planner) override {
    const Value& output = planner.value(node_.output);
    has_gradient_ = output.gradient != kNoTensor;
    if (!has_gradient_) return;
    planner.use(output.gradient);
    planner.use(node_.pool >= 0 ? pooled_ : planner.value(input()).tensor);
    if (learns_) {
      planner.use(mean_at_);
      planner.use(variance_at_);
    }
    if (node_.pool >= 0) planner.use(index_);
    if (scale_at_ < 0 || !trains(static_cast<std::size_t>(scale_at_))) d_scale_at_ = planner.tensor(channel_bytes());
    if (shift_at_ < 0 || !trains(static_cast<std::size_t>(shift_at_))) d_shift_at_ = planner.tensor(channel_bytes());
    if (meets() || !learns_) shared_at_ = planner.tensor(2 * channel_bytes());
    bool gradient_is_free = true;  // the input's gradient may overwrite it
    if (node_.residual != kNoResidual) {
      if (node_.activation == Activation::relu) planner.use(output.tensor);
      if (node_.activation == Activation::gelu) planner.use(planner.value(node_.residual).tensor);
      if (planner.value(node_.residual).needs_gradient) {
        residual_contribution_ = planner.contribute_in(node_.residual, output.gradient);
        gradient_is_free = residual_contribution_.add;
      }
    }
    if (!planner.value(input()).needs_gradient) return;
    input_contribution_ =
        gradient_is_free && node_.pool < 0 ? planner.contribute_in(input(), output.gradient) : planner.contribute(input());
  }

  void bind(const Planner& planner, const Binding& binding) override {
    const MapSpec& spec = planner.value(node_.output).spec;
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    normalised_ = node_.pool >= 0 ? spec.map(binding.at(pooled_)) : x_;
    if (node_.residual != kNoResidual) residual_ = map_of(planner, binding, node_.residual);
    index_data_ = binding.at<std::uint8_t>(index_);
    mean_ = learns_ ? binding.at<float>(mean_at_) : running_mean();
    variance_ = learns_ ? binding.at<float>(variance_at_) : running_variance();
    if (!has_gradient_) return;
    dy_ = gradient_of(planner, binding, node_.output);
    d_scale_ = d_scale_at_ == kNoTensor ? gradient(static_cast<std::size_t>(scale_at_)) : binding.at<float>(d_scale_at_);
    d_shift_ = d_shift_at_ == kNoTensor ? gradient(static_cast<std::size_t>(shift_at_)) : binding.at<float>(d_shift_at_);
    if (residual_contribution_.tensor != kNoTensor) {
      d_residual_ = target_of(planner, binding, node_.residual, residual_contribution_);
    }
    if (input_contribution_.tensor != kNoTensor) d_input_ = target_of(planner, binding, input(), input_contribution_);
    shared_ = binding.at<float>(shared_at_);
  }

  void forward(const Pass&) override {
    pool_and_measure(true);
    total_count_ = count();
    if (meets()) share_statistics(count());
    normalise();
    if (learns_) update_running();
  }

  void meet_forward() override {
    if (!meets()) return;
    share_statistics(0);
    update_running();
  }

  void recompute(const Pass&) override {
    if (node_.pool >= 0) pool_and_measure(!meets());  // recomputes the same statistics
    if (!output_is_kept()) normalise();
  }

  void backward(const Pass&) override {
    if (!has_gradient_) return;
    auto arguments = shared_arguments<NormaliseBackwardArguments>();
    arguments.dy = dy_;
    if (node_.residual != kNoResidual) {
      arguments.residual = &residual_;
      if (node_.activation == Activation::relu) arguments.y = &y_;
    }
    // After an addition the gradient of the sum overwrites dy: pass 2 and the residual both start from it.
    const bool masks = node_.residual != kNoResidual;
    kernels().normalise_backward_sums(arguments, d_shift_, d_scale_, masks ? &dy_ : nullptr);
    if (masks) {
      arguments.activation = Activation::none;
      arguments.residual = nullptr;
      arguments.y = nullptr;
    }
    // Before pass 2, which may overwrite dy.
    if (d_residual_) d_residual_.finish();
    if (!d_input_) return;
    if (meets()) share_sums(false);
    // Statistics that do not depend on the input pass on no gradient: pass 2 with zero sums.
    if (!learns_) std::fill_n(shared_, 2 * channels_, 0.0F);
    const float* const d_shift = shared_ != nullptr ? shared_ : d_shift_;
    const float* const d_scale = shared_ != nullptr ? shared_ + channels_ : d_scale_;
    if (node_.pool >= 0) {
      kernels().normalise_backward_unpool(arguments, d_shift, d_scale, total_count(), window_, index_data_, d_input_.written);
    } else {
      kernels().normalise_backward(arguments, d_shift, d_scale, total_count(), d_input_.written);
    }
    d_input_.finish();
  }

  void meet_backward() override {
    if (meets() && has_gradient_ && d_input_) share_sums(true);
  }

 private:
  // Statistics are small, so an operation that follows another reuses them, and running ones are updated once.
  void follow_statistics(Planner& planner) {
    const auto& kept = static_cast<const Normalisation&>(*first());
    mean_at_ = kept.mean_at_;
    variance_at_ = kept.variance_at_;
    planner.use(mean_at_);
    planner.use(variance_at_);
  }

  // True if all replicas share statistics.
  bool meets() const {
    const CompileOptions& options = compile_context_.options;
    return learns_ && options.request.sync_batch_norm && options.all_gather != nullptr && options.all_gather->replicas() > 1;
  }

  // The mean and variance over all replicas from each replica's, which has `count` values per channel: with n_r values of mean
  // m_r and variance v_r, mean = sum n_r m_r / N and variance = sum n_r (v_r + (m_r - mean)^2) / N (Chan et al. 1979), in order
  // of replicas.
  void share_statistics(double count) {
    const auto channels = static_cast<std::size_t>(channels_);
    std::vector<double> mine(2 * channels + 1), all(mine.size() * compile_context_.options.all_gather->replicas());
    mine[0] = count;
    for (std::size_t c = 0; c < channels && count > 0; ++c) {
      mine[1 + c] = static_cast<double>(mean_[c]);
      mine[1 + channels + c] = static_cast<double>(variance_[c]);
    }
    compile_context_.options.all_gather->gather(compile_context_.options.replica, mine, all);
    total_count_ = 0;
    for (std::size_t r = 0; r < all.size(); r += mine.size()) total_count_ += all[r];
    for (std::size_t c = 0; c < channels; ++c) {
      double mean = 0, variance = 0;
      for (std::size_t r = 0; r < all.size(); r += mine.size()) mean += all[r] * all[r + 1 + c];
      mean /= total_count_;
      for (std::size_t r = 0; r < all.size(); r += mine.size()) {
        variance += all[r] * (all[r + 1 + channels + c] + (all[r + 1 + c] - mean) * (all[r + 1 + c] - mean));
      }
      mean_[c] = static_cast<float>(mean);
      variance_[c] = static_cast<float>(variance / total_count_);
    }
  }

  // The sums of pass 1 over all replicas. A parameter's gradient remains this replica's. `absent`: this replica has no samples.
  void share_sums(bool absent) {
    const auto channels = static_cast<std::size_t>(channels_);
    std::vector<double> mine(2 * channels), all(mine.size() * compile_context_.options.all_gather->replicas());
    for (std::size_t c = 0; c < channels && !absent; ++c) {
      mine[c] = static_cast<double>(d_shift_[c]);
      mine[channels + c] = static_cast<double>(d_scale_[c]);
    }
    compile_context_.options.all_gather->gather(compile_context_.options.replica, mine, all);
    for (std::size_t i = 0; i < mine.size() && !absent; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < all.size(); r += mine.size()) sum += all[r + i];
      shared_[i] = static_cast<float>(sum);
    }
  }

  void update_running() {
    cpu::update_running(mean_, variance_, channels_, total_count_, attributes_.momentum, running_mean(), running_variance());
  }

  void pool_and_measure(bool measures) {
    const bool wanted = learns_ && measures;
    if (node_.pool >= 0) {
      kernels().max_pool(window_, x_, normalised_, training_ ? index_data_ : nullptr, wanted ? mean_ : nullptr,
                         wanted ? variance_ : nullptr);
    } else if (wanted) {
      kernels().batch_statistics(x_, mean_, variance_);
    }
  }

  template <class Arguments>
  Arguments shared_arguments() const {
    Arguments arguments;
    arguments.x = normalised_;
    arguments.mean = mean_;
    arguments.variance = variance_;
    arguments.epsilon = static_cast<float>(attributes_.epsilon);
    arguments.scale = scale();
    arguments.shift = shift();
    arguments.activation = node_.activation;
    return arguments;
  }

  void normalise() {
    auto arguments = shared_arguments<NormaliseArguments>();
    arguments.y = y_;
    arguments.residual = node_.residual != kNoResidual ? &residual_ : nullptr;
    kernels().normalise(arguments);
  }

  std::size_t channel_bytes() const { return static_cast<std::size_t>(channels_) * sizeof(float); }
  double total_count() const {  // from the last forward
    return first() == nullptr ? total_count_ : static_cast<const Normalisation&>(*first()).total_count_;
  }
  double count() const { return static_cast<double>(y_.n * y_.pixels()); }
  const float* scale() const { return scale_at_ < 0 ? nullptr : value(static_cast<std::size_t>(scale_at_)); }
  const float* shift() const { return shift_at_ < 0 ? nullptr : value(static_cast<std::size_t>(shift_at_)); }
  float* running_mean() const { return value(statistics_at_); }
  float* running_variance() const { return value(statistics_at_ + 1); }

  const BatchNormAttributes& attributes_;
  std::int64_t channels_;
  PoolWindow window_;
  int scale_at_ = -1, shift_at_ = -1;  // indices among the layer's parameters
  std::size_t statistics_at_ = 0;
  bool training_ = false, learns_ = false, has_gradient_ = false;
  TensorId pooled_ = kNoTensor, index_ = kNoTensor, mean_at_ = kNoTensor, variance_at_ = kNoTensor;
  TensorId d_scale_at_ = kNoTensor, d_shift_at_ = kNoTensor, shared_at_ = kNoTensor;
  Planner::Contribution residual_contribution_, input_contribution_;
  GradientTarget d_residual_, d_input_;
  Map x_, normalised_, y_, residual_, dy_;
  std::uint8_t* index_data_ = nullptr;
  float *mean_ = nullptr, *variance_ = nullptr, *d_scale_ = nullptr, *d_shift_ = nullptr;
  float* shared_ = nullptr;  // for pass 2, instead of this replica's sums: shift, then scale
  double total_count_ = 0;   // values per channel over all replicas that share statistics
};

}  // namespace

std::unique_ptr<Operation> make_normalisation(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Normalisation>(compile_context, node);
}

}  // namespace millrace::cpu
