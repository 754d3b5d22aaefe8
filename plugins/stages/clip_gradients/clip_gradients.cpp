#include "clip_gradients.h"

#include <fmt/format.h>

#include <cstring>

#include "millrace/error.h"
#include "millrace/host_element.h"
#include "millrace/plugin.h"
#include "millrace/run.h"

namespace millrace {
namespace {

constexpr const char* kFigure = "gradient_norm";

}  // namespace

void ClipGradients::describe(StageDescription<Params>& d) {
  d.name("clip_gradients").text("Bounds a step's gradients. Stands between allreduce and optimizer.");
  d.input(payload::kGradientBucket).output(payload::kGradientBucket).per_replica();
  d.params.add("global_norm", &Params::global_norm)
      .range(0)
      .text(
          "the largest Euclidean norm that all gradients of a step have together; beyond it they are scaled down to it; default: "
          "1, without `value`");
  d.params.add("value", &Params::value).range(0).text("the largest size of each gradient; beyond it a gradient becomes +-value");
}

ClipGradients::ClipGradients(const Params& params, const StageContext& context)
    : by_value_(params.value.has_value()), limit_(by_value_ ? *params.value : params.global_norm.value_or(1)), context_(context) {
  if (by_value_ && params.global_norm) {
    fail(ErrorKind::usage, "global_norm and value are two ways to bound gradients: name one; for both, put two stages into flow");
  }
  if (limit_ <= 0) {
    fail(ErrorKind::usage, "{} = {}: nothing would ever be updated", by_value_ ? "value" : "global_norm", limit_);
  }
}

void ClipGradients::open() {
  const auto index = static_cast<std::size_t>(context_.replica);
  Device& device = *context_.devices[index];
  stream_ = device.make_stream(fmt::format("clip_gradients[{}]", context_.replica));
  if (by_value_) return;
  first_chunk_ = {0};
  for (const Bucket& bucket : context_.replicas[index]->buckets()) {
    first_chunk_.push_back(first_chunk_.back() + chunks_of_gradients(static_cast<std::int64_t>(bucket.elements)));
  }
  squares_ = device.memory(static_cast<std::size_t>(first_chunk_.back()) * sizeof(double), "squares of gradients");
  result_ = device.memory(sizeof(ClipResult), "norm of gradients");
}

void ClipGradients::process(int, Packet packet, Output& output) {
  auto& bucket = static_cast<GradientBucket&>(*packet.payload);
  if (by_value_) {
    clip_by_value(bucket);
    return output.emit(0, std::move(packet));
  }
  const auto buckets = static_cast<std::size_t>(bucket.buckets);
  add_squares(bucket);
  held_.push_back(std::move(packet));
  if (held_.size() == buckets) finish_step(output);
}

void ClipGradients::clip_by_value(GradientBucket& bucket) {
  ClipByValue clip;
  clip.gradients = bucket.data;
  clip.scale = bucket.scale;
  clip.elements = static_cast<std::int64_t>(bucket.elements);
  clip.limit = static_cast<float>(limit_);
  stream_->wait(bucket.ready);
  stream_->run(group_kernel<ClipByValue>, &clip);
  bucket.ready = stream_->record();
}

void ClipGradients::add_squares(const GradientBucket& bucket) {
  SumOfSquares sum;
  sum.gradients = bucket.data;
  sum.squares = reinterpret_cast<double*>(squares_.get()) + first_chunk_[static_cast<std::size_t>(bucket.bucket)];
  sum.elements = static_cast<std::int64_t>(bucket.elements);
  stream_->wait(bucket.ready);
  stream_->run(group_kernel<SumOfSquares>, &sum);
}

void ClipGradients::finish_step(Output& output) {
  auto* const result = reinterpret_cast<ClipResult*>(result_.get());
  ClipByNorm clip;
  clip.squares = reinterpret_cast<const double*>(squares_.get());
  clip.result = result;
  clip.count = first_chunk_.back();
  clip.limit = limit_;
  stream_->run(group_kernel<ClipByNorm>, &clip);
  const Ref<Event> known = stream_->record();
  if (context_.replica == 0 && context_.run) {
    std::shared_ptr<std::uint8_t[]> place = free_place();
    stream_->copy_to_host(place.get(), result, sizeof(ClipResult));
    report_when(stream_->record(), std::move(place), static_cast<const GradientBucket&>(*held_.front().payload).step, output);
  }
  for (Packet& packet : std::exchange(held_, {})) {
    auto& bucket = static_cast<GradientBucket&>(*packet.payload);
    bucket.ready = known;
    bucket.scale = &result->scale;
    output.emit(0, std::move(packet));
  }
}

void ClipGradients::report_when(const Ref<Event>& known, std::shared_ptr<std::uint8_t[]> result, std::uint64_t step,
                                Output& output) {
  context_.run->promise_scalar(context_.graph, step, kFigure);
  auto hold = std::make_shared<Output::Hold>(output);
  known->then([this, result = std::move(result), step, hold, &output]() mutable {
    try {
      ClipResult found;
      std::memcpy(&found, result.get(), sizeof found);
      context_.run->scalar(context_.graph, step, kFigure, static_cast<double>(found.norm));
    } catch (...) {
      output.fail(current_error());
    }
    result = nullptr;
    hold = nullptr;
  });
}

std::shared_ptr<std::uint8_t[]> ClipGradients::free_place() {
  for (const std::shared_ptr<std::uint8_t[]>& place : places_) {
    if (place.use_count() == 1) return place;
  }
  Device& device = *context_.devices[static_cast<std::size_t>(context_.replica)];
  return places_.emplace_back(device.host_buffer(sizeof(ClipResult)));
}

}  // namespace millrace

MILLRACE_PLUGIN("clip_gradients", "1.0", "Clipping of gradients, by their global norm or by value.") {
  registry.add_stage<millrace::ClipGradients>();
}
