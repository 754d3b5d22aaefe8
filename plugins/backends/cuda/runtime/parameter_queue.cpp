#include "parameter_queue.h"

#include <algorithm>
#include <utility>

namespace millrace::cuda {

ParameterQueue::ParameterQueue(Machine& machine, ParameterStore& parameters, Queue& passes, DeviceMeter& meter, StepTrace* trace)
    : parameters_(parameters),
      passes_(passes),
      meter_(meter),
      trace_(trace),
      queue_(machine.make_queue("update")),
      filled_(parameters.plan().parameters.buckets().size()) {}

void ParameterQueue::before_forward() {
  if (update_is_new_) passes_.wait(updated_);
  update_is_new_ = false;
}

void ParameterQueue::before_backward() {
  adds_ = std::exchange(kept_, false);
  passes_.wait(added_);
}

Ref<Mark> ParameterQueue::filled(int bucket, const Ref<Mark>& mark) {
  std::fill(filled_.begin() + bucket, filled_.end(), mark);  // buckets omitted in this epoch are among the later ones
  if (!adds_) return mark;
  queue_->wait(mark);
  parameters_.add_kept_gradients(*queue_, bucket);
  return added_ = queue_->mark();
}

Ref<Event> ParameterQueue::mark_updated() {
  update_is_new_ = true;
  return updated_ = queue_->mark();
}

Ref<Event> ParameterQueue::update(int bucket, const UpdateStep& step, const Ref<Event>& after) {
  queue_->wait(after);
  queue_->wait(filled_[static_cast<std::size_t>(bucket)]);  // for any `after`, backward still reads the weights until then
  {
    const StepTrace::Piece piece(trace_, *queue_, "update", "optimizer");
    const DeviceMeter::Piece measured(&meter_, *queue_, &DeviceTimes::update);
    parameters_.update(*queue_, bucket, step);
  }
  return mark_updated();
}

void ParameterQueue::keep_gradients() {
  passes_.wait(added_);
  parameters_.keep_gradients(passes_);
  kept_ = true;
}

Ref<Event> ParameterQueue::lerp_into(std::string_view copy, double decay, bool write_back) {
  // Reading only needs forward to be done; otherwise all passes must have read the weights, including inference.
  if (write_back && decay != 0) {
    queue_->wait(passes_.mark());
  } else if (!filled_.empty()) {
    queue_->wait(filled_.front());
  }
  parameters_.lerp_into(*queue_, copy, decay, write_back);
  return mark_updated();
}

Ref<Event> ParameterQueue::swap_with(std::string_view copy) {
  queue_->wait(passes_.mark());  // passes read the values
  parameters_.swap_with(*queue_, copy);
  return mark_updated();
}

}  // namespace millrace::cuda
