#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "clip_kernels.h"
#include "millrace/backend/readback.h"
#include "millrace/batch.h"
#include "millrace/stage.h"

namespace millrace {

// Bounds a step's gradients. One instance for each replica; stands after the stage that sums over replicas, so that all replicas
// bound the same gradients.
//
// Ports: "in" takes GradientBuckets, "out" forwards them.
//
// By `global_norm`, the norm of the whole gradient: beyond it all gradients are scaled down to it (Pascanu et al., arXiv
// 1211.5063). Buckets wait for the step's last one; the factor goes into GradientBucket::scale, which the update multiplies by,
// and gradients are not written. A bucket's squares are summed while backward continues; the order of every sum depends on the
// network alone. If an earlier stage scales, this is the norm of the scaled gradients, and both factors apply. A step whose norm
// is not finite updates nothing; `on_nan` of [run] decides how the run continues. Reports "gradient_norm" once a step, or
// "gradient_norm.NAME" (the stage's name) if an earlier stage scales. global_norm = inf only skips steps with a norm that is not
// finite.
//
// This norm needs all gradients, so they are all computed until the end of the run, even for parameters that no longer learn.
//
// By `norm`, the norm of each parameter's gradients: larger ones are scaled down to it. Each bucket is forwarded at once, with
// its gradients written. Gradients whose norm is not finite stay as they are.
//
// By `value`, each gradient: clamped to [-value, value]. Each bucket is forwarded at once, with its gradients written. NaN stays
// NaN.
class ClipGradients : public Stage {
 public:
  struct Params {
    std::optional<double> global_norm;  // 1 if none of the three is set
    std::optional<double> norm;
    std::optional<double> value;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  ClipGradients(const Params& params, const StepContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  bool skips_nonfinite_steps() const override { return way_ == Way::global_norm; }
  void stop() noexcept override { held_.clear(); }  // buckets of a step that was cut short

 private:
  enum class Way { global_norm, norm, value };
  static Way way_of(const Params& params);
  void plan_parameters(const Bucket& bucket);
  void clip_by_value(GradientBucket& bucket);
  void clip_by_norm(GradientBucket& bucket);
  void add_squares(const GradientBucket& bucket);
  void finish_step(Output& output);
  const float* scale_after(const GradientBucket& bucket);
  void report_norm(const GradientBucket& bucket, Output& output);

  const Way way_;
  const double limit_;
  const StepContext context_;
  std::vector<std::int64_t> first_chunk_;                 // by bucket, and the end
  std::vector<std::vector<ParameterChunks>> parameters_;  // by bucket, by `norm`
  std::shared_ptr<std::byte> squares_, result_;
  std::shared_ptr<std::byte> scales_;  // by bucket; used by `global_norm` if an earlier stage scales too
  std::optional<Readback> readback_;
  std::vector<Packet> held_;        // in this step
  std::unique_ptr<Stream> stream_;  // last: its work must end before the buffers are freed
};

}  // namespace millrace
