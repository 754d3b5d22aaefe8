// Batch normalisation fused with what follows: an addition and an activation, or a ReLU and a max pooling.
//
// Kept for backward: the input, its mean, variance and factor; with a ReLU after an addition one bit per value, or the output,
// which the next layer keeps anyway; with a pooling the positions of the largest values. Statistics are small, so an operation
// that follows another reuses them: nothing is summed twice, and running statistics are updated once.
#include "operation.h"
#include "sums.h"

namespace millrace::cuda {
namespace {

class Normalisation final : public Operation {
 public:
  Normalisation(CompileContext& compile_context, const Node& node)
      : Operation(compile_context, node), attributes_(layer().as<BatchNormAttributes>()) {
    std::size_t next = 0;
    if (attributes_.scale) scale_at_ = static_cast<int>(next++);
    if (attributes_.shift) shift_at_ = static_cast<int>(next++);
    statistics_at_ = next;
  }

  void plan(Planner& planner) override {
    training_ = planner.training();
    const MapSpec spec = planner.value(input()).spec;
    const Value& output = plan_output(planner, spec.type, pools() ? kNoResidual : input());
    channel_bytes_ = static_cast<std::size_t>(spec.pitch()) * sizeof(float);
    plan_pool(planner, spec, output.spec);
    planner.use(planner.value(input()).tensor);
    if (has_residual()) planner.use(planner.value(node_.residual).tensor);
    if (first() != nullptr) {
      const auto& kept = static_cast<const Normalisation&>(*first());
      factor_at_ = kept.factor_at_;
      mean_at_ = kept.mean_at_;
      variance_at_ = kept.variance_at_;
      for (const TensorId tensor : {factor_at_, mean_at_, variance_at_}) planner.use(tensor);
      plan_signs(planner, output);
      return;
    }
    factor_at_ = planner.tensor(channel_bytes_);
    if (!training_) return;
    mean_at_ = planner.tensor(channel_bytes_);
    variance_at_ = planner.tensor(channel_bytes_);
    moments_at_ = SumsPlan::of(planner, compile_context_, spec, 2);
    plan_signs(planner, output);
  }

  void plan_backward(Planner& planner) override {
    const Value& output = planner.value(node_.output);
    has_gradient_ = output.gradient != kNoTensor;
    if (!has_gradient_) return;
    for (const TensorId tensor : {output.gradient, planner.value(input()).tensor, mean_at_, variance_at_, factor_at_}) {
      planner.use(tensor);
    }
    if (pools()) planner.use(index_at_);
    sums_at_ = SumsPlan::of(planner, compile_context_, planner.value(input()).spec, 2);
    d_scale_at_ = planner.tensor(channel_bytes_);
    d_shift_at_ = planner.tensor(channel_bytes_);
    bool gradient_is_free = !pools();  // may be overwritten by the gradient of the input
    if (has_residual()) {
      if (node_.activation == Activation::relu) planner.use(positive_at_ != kNoTensor ? positive_at_ : output.tensor);
      if (node_.activation == Activation::gelu) planner.use(planner.value(node_.residual).tensor);
      if (wants_gradient(planner, node_.residual)) {
        residual_contribution_ = contribute(planner, node_.residual, output.gradient);
        gradient_is_free = residual_contribution_.add;
      }
    }
    if (!wants_gradient(planner, input())) return;
    input_contribution_ = contribute(planner, input(), gradient_is_free ? output.gradient : kNoTensor);
  }

  void bind(const Planner& planner, const Binding& binding) override {
    x_ = map_of(planner, binding, input());
    y_ = map_of(planner, binding, node_.output);
    if (has_residual()) residual_ = map_of(planner, binding, node_.residual);
    factor_ = binding.at<float>(factor_at_);
    mean_ = training_ ? binding.at<float>(mean_at_) : running(0);
    variance_ = training_ ? binding.at<float>(variance_at_) : running(1);
    moments_ = SumsMemory::of(moments_at_, binding);
    positive_ = binding.at<std::uint8_t>(positive_at_);
    index_ = binding.at<std::uint8_t>(index_at_);
    if (!has_gradient_) return;
    dy_ = gradient_of(planner, binding, node_.output);
    sums_ = SumsMemory::of(sums_at_, binding);
    d_scale_ = binding.at<float>(d_scale_at_);
    d_shift_ = binding.at<float>(d_shift_at_);
    if (residual_contribution_.tensor != kNoTensor)
      d_residual_ = target_of(planner, binding, node_.residual, residual_contribution_);
    if (input_contribution_.tensor != kNoTensor) d_input_ = target_of(planner, binding, input(), input_contribution_);
  }

  void forward(Queue& queue) override {
    with_type(x_.spec.type, [&]<class T>(T) {
      if (training_)
        statistics<T>(queue);
      else
        running_factor(queue);
    });
    normalise(queue);
  }

  void recompute(Queue& queue) override {
    if (pools() || !output_is_kept()) normalise(queue);  // index_ is needed too
  }

  void normalise(Queue& queue) const {
    with_type(x_.spec.type, [&]<class T>(T) {
      if (pools()) return normalise_and_pool<T>(queue);
      queue.run(Normalise<T>{.x = x_.as<T>(),
                             .residual = residual_.as<T>(),
                             .y = y_.as<T>(),
                             .mean = mean_,
                             .factor = factor_,
                             .shift = shift(),
                             .rows = y_.spec.rows(),
                             .packs = y_.spec.row_packs(),
                             .activation = node_.activation,
                             .positive = positive_});
    });
  }

  void backward(Queue& queue) override {
    if (!has_gradient_) return;
    with_type(x_.spec.type, [&]<class T>(T) {
      sums<T>(queue);
      // Before the gradient of the input, which may overwrite dy.
      if (d_residual_ && d_residual_.add) {
        Add<T> kernel;
        kernel.a = kernel.y = d_residual_.map.as<T>();
        kernel.b = dy_.as<T>();
        kernel.packs = dy_.spec.packs();
        queue.run(kernel);
      }
      if (d_input_) input_gradient<T>(queue);
    });
  }

 private:
  bool has_residual() const { return node_.residual != kNoResidual; }
  // After an addition the gradient of the sum overwrites dy: the gradients of both operands start from it.
  bool masks() const { return has_residual() && node_.activation != Activation::none; }
  // If forward's output is kept, so are its bits; otherwise they are recomputed with it.
  void plan_signs(Planner& planner, const Value& output) {
    if (!compile_context_.shortcuts.sign_bits || !masks() || node_.activation != Activation::relu || !output.needs_gradient)
      return;
    positive_at_ = output_is_kept() ? static_cast<const Normalisation*>(first())->positive_at_
                                    : planner.tensor(static_cast<std::size_t>(output.spec.packs()));
    planner.use(positive_at_);
  }
  bool pools() const { return node_.pool_behind >= 0; }
  void plan_pool(Planner& planner, const MapSpec& from, const MapSpec& to) {
    if (!pools()) return;
    at_ = extents_of(from, to);
    window_ = window_of(compile_context_.layer(node_.pool_behind).as<PoolAttributes>());
    if (training_) index_at_ = planner.tensor(static_cast<std::size_t>(to.rows() * to.pitch()));
  }
  const float* scale() const { return scale_at_ < 0 ? nullptr : value(static_cast<std::size_t>(scale_at_)); }
  const float* shift() const { return shift_at_ < 0 ? nullptr : value(static_cast<std::size_t>(shift_at_)); }
  float* running(std::size_t which) const { return value(statistics_at_ + which); }
  float* kept_gradient(int at) const { return at < 0 ? nullptr : gradient(static_cast<std::size_t>(at)); }

  template <class T>
  void statistics(Queue& queue) const {
    Moments<T> moments{.x = x_.as<T>(), .rows = x_.spec.rows(), .packs = x_.spec.row_packs()};
    FinishMoments<T> finish{.x = x_.as<T>(),
                            .partial = moments_.partial,
                            .rows = moments.rows,
                            .packs = moments.packs,
                            .epsilon = static_cast<float>(attributes_.epsilon),
                            .momentum = static_cast<float>(attributes_.momentum),
                            .scale = scale(),
                            .mean = mean_,
                            .variance = variance_,
                            .factor = factor_};
    if (!compile_context_.rehearsal) {
      finish.running_mean = running(0);
      finish.running_variance = running(1);
    }
    moments_.run(queue, compile_context_, moments, finish);
  }

  template <class T>
  void normalise_and_pool(Queue& queue) const {
    queue.run(NormaliseMaxPool<T>{.x = x_.as<T>(),
                                  .y = y_.as<T>(),
                                  .index = index_,
                                  .mean = mean_,
                                  .factor = factor_,
                                  .shift = shift(),
                                  .at = at_,
                                  .window = window_});
  }

  // Sets the source of the result's gradient in a backward kernel.
  template <class T, class Kernel>
  void take_gradient(Kernel& kernel) const {
    if (pools())
      kernel.pooled = {dy_.as<T>(), index_, at_, window_};
    else
      kernel.dy = dy_.as<T>();
  }

  void running_factor(Queue& queue) const {
    queue.run(RunningMoments{.variance = variance_,
                             .scale = scale(),
                             .epsilon = static_cast<float>(attributes_.epsilon),
                             .factor = factor_,
                             .channels = x_.spec.pitch()});
  }

  template <class T>
  void sums(Queue& queue) const {
    NormaliseBackwardSums<T> kernel;
    kernel.x = x_.as<T>();
    take_gradient<T>(kernel);
    if (has_residual() && node_.activation == Activation::relu && positive_ == nullptr) kernel.y = y_.as<T>();
    kernel.positive = positive_;
    if (has_residual() && node_.activation == Activation::gelu) kernel.residual = residual_.as<T>();
    kernel.masked = masks() ? dy_.as<T>() : nullptr;
    kernel.mean = mean_;
    kernel.factor = factor_;
    kernel.shift = shift();
    kernel.rows = x_.spec.rows();
    kernel.packs = x_.spec.row_packs();
    kernel.activation = node_.activation;
    FinishSums finish{
        .partial = sums_.partial, .chunks = chunks_of(kernel.rows, kernel.packs), .channels = x_.spec.pitch(), .sums = 2};
    finish.out[0] = d_shift();
    finish.out[1] = d_scale();
    finish.variance = variance_;
    finish.epsilon = static_cast<float>(attributes_.epsilon);
    sums_.run(queue, compile_context_, kernel, finish);
  }

  template <class T>
  void input_gradient(Queue& queue) const {
    NormaliseBackward<T> kernel;
    kernel.x = x_.as<T>();
    take_gradient<T>(kernel);
    kernel.dx = d_input_.map.as<T>();
    kernel.mean = mean_;
    kernel.variance = variance_;
    kernel.factor = factor_;
    kernel.shift = shift();
    kernel.d_shift = d_shift();
    kernel.d_scale = d_scale();
    kernel.epsilon = static_cast<float>(attributes_.epsilon);
    kernel.rows = x_.spec.rows();
    kernel.packs = x_.spec.row_packs();
    kernel.activation = masks() ? Activation::none : node_.activation;
    kernel.add = d_input_.add;
    queue.run(kernel);
  }

  // The sums are the gradients of scale and shift if those are trained.
  float* d_shift() const { return kept_gradient(shift_at_) != nullptr ? kept_gradient(shift_at_) : d_shift_; }
  float* d_scale() const { return kept_gradient(scale_at_) != nullptr ? kept_gradient(scale_at_) : d_scale_; }

  const BatchNormAttributes& attributes_;
  int scale_at_ = -1, shift_at_ = -1;  // indices among the layer's parameters
  std::size_t statistics_at_ = 0, channel_bytes_ = 0;
  bool training_ = false, has_gradient_ = false;
  TensorId factor_at_ = kNoTensor, mean_at_ = kNoTensor, variance_at_ = kNoTensor, positive_at_ = kNoTensor;
  TensorId index_at_ = kNoTensor, d_scale_at_ = kNoTensor, d_shift_at_ = kNoTensor;
  SumsPlan moments_at_, sums_at_;
  Planner::Contribution residual_contribution_, input_contribution_;
  GradientTarget d_residual_, d_input_;
  Map x_, y_, residual_, dy_;
  SumsMemory moments_, sums_;
  std::uint8_t* positive_ = nullptr;
  PoolExtents at_;  // for the pooling after, as window_ and index_
  PoolWindow window_;
  std::uint8_t* index_ = nullptr;
  float *factor_ = nullptr, *mean_ = nullptr, *variance_ = nullptr;
  float *d_scale_ = nullptr, *d_shift_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_normalisation(CompileContext& compile_context, const Node& node) {
  return std::make_unique<Normalisation>(compile_context, node);
}

}  // namespace millrace::cuda
