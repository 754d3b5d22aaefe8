#include "clip_gradients.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/kernels/host_element.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"

namespace millrace {
namespace {

constexpr const char* kFigure = "gradient_norm";

}  // namespace

void ClipGradients::describe(StageDescription<Params>& d) {
  d.name("clip_gradients")
      .text("Clips a step's gradients in one way; use two stages for two ways. Belongs between allreduce and optimizer.");
  d.input(payload::kGradientBucket).output(payload::kGradientBucket).per_replica();
  d.params.add("global_norm", &Params::global_norm)
      .range(0)
      .text(
          "maximum Euclidean norm of all gradients of a step together; larger ones are scaled down to it; default: 1, without "
          "`norm` and `value`")
      .alternative("bound");
  d.params.add("norm", &Params::norm)
      .range(0)
      .text("maximum Euclidean norm of each parameter's gradients; larger ones are scaled down to it")
      .alternative("bound");
  d.params.add("value", &Params::value)
      .range(0)
      .text("maximum magnitude of each gradient; larger ones become +-value")
      .alternative("bound");
}

void ClipGradients::request(const Params& params, const StageSite&, CompileRequest& request) {
  if (way_of(params) == Way::global_norm) request.reads_all_gradients = true;
}

ClipGradients::Way ClipGradients::way_of(const Params& params) {
  return params.value ? Way::value : params.norm ? Way::norm : Way::global_norm;
}

ClipGradients::ClipGradients(const Params& params, const StepContext& context)
    : way_(way_of(params)),
      limit_(way_ == Way::value  ? *params.value
             : way_ == Way::norm ? *params.norm
                                 : params.global_norm.value_or(1)),
      context_(context) {
  if (limit_ <= 0) {
    const char* const key = way_ == Way::value ? "value" : way_ == Way::norm ? "norm" : "global_norm";
    fail(ErrorKind::usage, "{} = {}: nothing would ever be updated", key, limit_);
  }
}

void ClipGradients::open() {
  const auto index = static_cast<std::size_t>(context_.replica);
  Device& device = *context_.devices[index];
  stream_ = device.make_stream(fmt::format("clip_gradients[{}]", context_.replica));
  if (way_ == Way::value) return;
  first_chunk_ = {0};
  for (const Bucket& bucket : context_.replicas[index]->buckets()) {
    if (way_ == Way::norm) {
      plan_parameters(bucket);
    } else {
      first_chunk_.push_back(first_chunk_.back() + chunks_of_gradients(static_cast<std::int64_t>(bucket.elements)));
    }
  }
  squares_ = device.memory(static_cast<std::size_t>(first_chunk_.back()) * sizeof(double), "squares of gradients");
  if (way_ != Way::global_norm) return;
  result_ = device.memory(sizeof(ClipResult), "norm of gradients");
  scales_ = device.memory(context_.replicas[index]->buckets().size() * sizeof(float), "scales of gradients");
  readback_.emplace(device, sizeof(ClipResult));
}

// Splits a bucket's parameters into as many groups as needed. Includes their padding, which is 0.
void ClipGradients::plan_parameters(const Bucket& bucket) {
  std::vector<ParameterChunks>& groups = parameters_.emplace_back();
  std::int64_t chunks = 0;
  for (std::size_t i = 0; i < bucket.offsets.size(); ++i) {
    const std::size_t end = i + 1 < bucket.offsets.size() ? bucket.offsets[i + 1] : bucket.elements;
    if (groups.empty() || groups.back().parameters == ParameterChunks::kMax) {
      groups.emplace_back().begin[0] = static_cast<std::int64_t>(bucket.offsets[i]);
    }
    groups.back().add(static_cast<std::int64_t>(end - bucket.offsets[i]));
  }
  for (const ParameterChunks& group : groups) chunks += group.chunks();
  first_chunk_.push_back(first_chunk_.back() + chunks);
}

void ClipGradients::process(int, Packet packet, Output& output) {
  auto& bucket = static_cast<GradientBucket&>(*packet.payload);
  if (way_ != Way::global_norm) {
    way_ == Way::value ? clip_by_value(bucket) : clip_by_norm(bucket);
    return output.emit(0, std::move(packet));
  }
  const auto buckets = static_cast<std::size_t>(bucket.buckets);
  add_squares(bucket);
  held_.push_back(std::move(packet));
  if (held_.size() == buckets) finish_step(output);
}

void ClipGradients::clip_by_value(GradientBucket& bucket) {
  ClipByValue clip{.gradients = bucket.data,
                   .scale = bucket.scale,
                   .elements = static_cast<std::int64_t>(bucket.elements),
                   .limit = static_cast<float>(limit_)};
  stream_->wait(bucket.ready);
  stream_->run(group_kernel<ClipByValue>, &clip);
  bucket.ready = stream_->record();
}

void ClipGradients::clip_by_norm(GradientBucket& bucket) {
  const auto number = static_cast<std::size_t>(bucket.bucket);
  auto* squares = reinterpret_cast<double*>(squares_.get()) + first_chunk_[number];
  stream_->wait(bucket.ready);
  for (const ParameterChunks& of : parameters_[number]) {
    SquaresOfParameters sum{.of = of, .gradients = bucket.data, .squares = squares};
    stream_->run(group_kernel<SquaresOfParameters>, &sum);
    BoundParameters bound{.of = of, .gradients = bucket.data, .squares = squares, .scale = bucket.scale, .limit = limit_};
    stream_->run(group_kernel<BoundParameters>, &bound);
    squares += of.chunks();
  }
  bucket.ready = stream_->record();
}

void ClipGradients::add_squares(const GradientBucket& bucket) {
  SumOfSquares sum{.gradients = bucket.data,
                   .scale = bucket.scale,
                   .squares = reinterpret_cast<double*>(squares_.get()) + first_chunk_[static_cast<std::size_t>(bucket.bucket)],
                   .elements = static_cast<std::int64_t>(bucket.elements)};
  stream_->wait(bucket.ready);
  stream_->run(group_kernel<SumOfSquares>, &sum);
}

void ClipGradients::finish_step(Output& output) {
  ClipByNorm clip{.squares = reinterpret_cast<const double*>(squares_.get()),
                  .result = reinterpret_cast<ClipResult*>(result_.get()),
                  .count = first_chunk_.back(),
                  .limit = limit_};
  stream_->run(group_kernel<ClipByNorm>, &clip);
  std::vector<Packet> step = std::exchange(held_, {});
  std::vector<const float*> scales;
  for (const Packet& packet : step) scales.push_back(scale_after(static_cast<const GradientBucket&>(*packet.payload)));
  const Ref<Event> known = stream_->record();
  if (context_.replica == 0 && context_.run) report_norm(static_cast<const GradientBucket&>(*step.front().payload), output);
  for (std::size_t i = 0; i < step.size(); ++i) {
    auto& bucket = static_cast<GradientBucket&>(*step[i].payload);
    bucket.ready = known;
    bucket.scale = scales[i];
    output.emit(0, std::move(step[i]));
  }
}

const float* ClipGradients::scale_after(const GradientBucket& bucket) {
  const float* const factor = &reinterpret_cast<const ClipResult*>(result_.get())->scale;
  if (bucket.scale == nullptr) return factor;
  ProductOfScales product{
      .earlier = bucket.scale, .factor = factor, .scale = reinterpret_cast<float*>(scales_.get()) + bucket.bucket};
  stream_->run(group_kernel<ProductOfScales>, &product);
  return product.scale;
}

void ClipGradients::report_norm(const GradientBucket& bucket, Output& output) {
  const std::string figure = bucket.scale == nullptr ? kFigure : fmt::format("{}.{}", kFigure, context_.name);
  context_.run->promise_scalar(context_.graph, bucket.step, figure);
  readback_->read(*stream_, result_.get(), output, [this, step = bucket.step, figure](const std::uint8_t* bytes) {
    ClipResult found;
    std::memcpy(&found, bytes, sizeof found);
    context_.run->scalar(context_.graph, step, figure, static_cast<double>(found.norm));
  });
}

}  // namespace millrace

MILLRACE_PLUGIN("clip_gradients", "1.0",
                "Clipping of gradients, by their global norm, by the norm of each parameter or by value.") {
  registry.add_stage<millrace::ClipGradients>();
}
