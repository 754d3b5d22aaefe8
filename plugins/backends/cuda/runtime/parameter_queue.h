// Work on parameters outside of passes, on a separate queue, and what waits for what:
//
//   an update of a bucket   for the caller's event, and for the backward that fills the bucket
//   a forward               for the last work on parameters
//   a backward              for the last sum with kept gradients
//
// An update thus runs under the backward of the layers before it.
//
// Threading: one thread at a time. Only drain(), read() and write() wait for the device.
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
  // `passes`: the queue of forward and backward. `trace`: null, or records a piece for each update. All must outlive this object.
  ParameterQueue(Machine& machine, ParameterStore& parameters, Queue& passes, DeviceMeter& meter, StepTrace* trace);

  // ---- Called by passes ----
  void before_forward();
  void before_backward();
  // The bucket's gradients, and those of all later buckets, are filled at this mark. Returns the mark at which update() may use
  // them: later if kept gradients are added first.
  Ref<Mark> filled(int bucket, const Ref<Mark>& mark);

  // ---- Requests to the replica; see Replica ----
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
  std::vector<Ref<Mark>> filled_;  // by bucket, from the last backward, which no longer reads its weights then
  Ref<Mark> updated_;              // the last work on parameters
  bool update_is_new_ = false;     // no forward has waited for it yet
  Ref<Mark> added_;                // the last sum with kept gradients; null: none
  bool kept_ = false;              // gradients are kept for the next backward
  bool adds_ = false;              // the current backward adds to them
};

}  // namespace millrace::cuda
