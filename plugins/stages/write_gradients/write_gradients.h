#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/readback.h"
#include "millrace/batch.h"
#include "millrace/stage.h"

namespace millrace {

// Writes the gradients of a step, at regular intervals of steps, into gradients.safetensors in the run's folder, for observers
// that show them: `PARAMETER/gradient`, in the order of backward, each flattened in the device's memory layout. Stands after the
// stage that sums over replicas, whose gradients are equal everywhere: the first replica of rank 0 writes, and later stages wait
// until its copy is made. After `clip_gradients` they are the gradients that the update uses.
//
// Ports: "in" takes GradientBuckets, "out" forwards them.
class WriteGradients : public Stage {
 public:
  struct Params {
    std::int64_t every = 100;
  };
  static void describe(StageDescription<Params>& d);
  WriteGradients(const Params& params, const StepContext& context)
      : every_(static_cast<std::uint64_t>(params.every)), context_(context) {}

  void open() override;
  void process(int port, Packet packet, Output& output) override;

 private:
  // One step's copy. Device threads fill it one after the other, in order of submission.
  struct Copy {
    float scale = 1;
    std::vector<std::vector<float>> values;  // by bucket
    std::size_t there = 0;
    std::size_t submitted = 0;  // used only by the stage's own thread
  };
  void copy(GradientBucket& bucket, Output& output);
  void write(const Copy& copy) const;

  const std::uint64_t every_;
  const StepContext context_;
  std::vector<Bucket> buckets_;
  std::string file_;            // empty: this instance writes nothing
  std::shared_ptr<Copy> copy_;  // the current step's
  std::unique_ptr<Stream> stream_;
  std::deque<Readback> readbacks_;  // by bucket
  std::unique_ptr<Readback> scale_;
};

}  // namespace millrace
