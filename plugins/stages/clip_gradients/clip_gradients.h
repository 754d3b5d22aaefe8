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
// Ports: "in" takes GradientBuckets, "out" sends them on.
//
// By `global_norm`, the norm of the whole gradient: beyond it all gradients are scaled down to it (Pascanu et al., arXiv
// 1211.5063). Buckets go on when the step's last has come, with the factor as GradientBucket::scale, which the update multiplies
// by: gradients themselves are not written. The squares of a bucket are added up while backward goes on; the order of every sum
// depends on the network alone. Where an earlier stage scales them already, this is the norm of what it makes of them, and both
// factors count. A step whose norm is not finite updates nothing; what becomes of the run then is said by `on_nan` of [run].
// Reports "gradient_norm" once a step, or "gradient_norm.NAME", with the stage's name, where an earlier stage scales. With
// global_norm = inf it leaves out such steps and does no more.
//
// That norm is one of all gradients, so they are all computed to the end, also those of parameters that no longer learn.
//
// By `norm`, the norm of each parameter's gradients by itself: beyond it they are scaled down to it. Each bucket goes on at once,
// with its gradients written. Gradients whose norm is not finite stay as they are.
//
// By `value`, each gradient by itself: what lies outside [-value, value] becomes the nearer end. Each bucket goes on at once,
// with its gradients written. What is not a number stays so.
class ClipGradients : public Stage {
 public:
  struct Params {
    std::optional<double> global_norm;  // without any of the three: 1
    std::optional<double> norm;
    std::optional<double> value;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  ClipGradients(const Params& params, const StepContext& context);

  void open() override;
  void process(int port, Packet packet, Output& output) override;
  bool leaves_out_updates() const override { return way_ == Way::global_norm; }
  void stop() noexcept override { held_.clear(); }  // of a run that ended in the middle of a step

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
  std::vector<std::int64_t> first_chunk_;                 // by bucket; one past the last at the end
  std::vector<std::vector<ParameterChunks>> parameters_;  // by bucket, by `norm`
  std::shared_ptr<std::byte> squares_, result_;
  std::shared_ptr<std::byte> scales_;  // by bucket, by `global_norm`: of one that an earlier stage scales too
  std::optional<Readback> readback_;
  std::vector<Packet> held_;        // of this step
  std::unique_ptr<Stream> stream_;  // last: its work is done before what it uses goes
};

}  // namespace millrace
