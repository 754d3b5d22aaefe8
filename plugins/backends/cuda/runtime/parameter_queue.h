// Work on parameters outside of passes, on a queue of its own, and who waits for whom:
//
//   an update of a bucket   for what the caller names, and for the backward that fills the bucket
//   a forward               for the last work on parameters
//   a backward              for the last sum with gradients that were kept
//
// An update thus runs under the backward of the layers before it.
//
// Threading: one thread at a time. Nothing here waits for the device but drain(), read() and write().
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device_meter.h"
#include "parameter_store.h"
#include "trace.h"

namespace millrace::cuda {

class ParameterQueue {
 public:
  // `passes`: where forward and backward are submitted. `trace`: null, or takes a piece for each update. All outlive this object.
  ParameterQueue(Machine& machine, ParameterStore& parameters, Queue& passes, DeviceMeter& meter, StepTrace* trace);

  // ---- What passes do ----
  void before_forward();
  void before_backward();
  // The bucket's gradients, and those of all later buckets, are filled at this mark. The mark at which they are what update() may
  // use: later where gradients that were kept are added first.
  Ref<Mark> filled(int bucket, const Ref<Mark>& mark);

  // ---- What the replica is asked for; see Replica ----
  Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after);
  void keep_gradients();  // the next backward adds to them
  Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back);
  Ref<Event> swap_with(std::string_view copy);
  std::vector<float> read(std::string_view state, int parameter) { return parameters_.read(*queue_, state, parameter); }
  void write(std::string_view state, int parameter, std::span<const float> values) {
    parameters_.write(*queue_, state, parameter, values);
  }
  std::unique_ptr<Snapshot> capture(std::span<const StateOf> states) { return parameters_.capture(*queue_, states); }

  void drain() { queue_->mark()->wait(); }

 private:
  Ref<Event> mark_updated();

  ParameterStore& parameters_;
  Queue& passes_;
  DeviceMeter& meter_;
  StepTrace* const trace_;
  const std::unique_ptr<Queue> queue_;
  std::vector<Ref<Mark>> filled_;  // by bucket, by the last backward, which does not read its weights any more
  Ref<Mark> updated_;              // the last work on parameters
  bool update_is_new_ = false;     // no forward has waited for it yet
  Ref<Mark> added_;                // the last sum with gradients that were kept; null: there was none
  bool kept_ = false;              // gradients are kept for the next backward
  bool adds_ = false;              // the present backward adds to them
};

}  // namespace millrace::cuda
