#include "device_meter.h"

#include <algorithm>
#include <cstdlib>

#include "millrace/error.h"

#if __has_include(<nvtx3/nvToolsExt.h>)  // header-only, from the CUDA toolkit
#include <nvtx3/nvToolsExt.h>
#else
static void nvtxRangePushA(const char*) {}
static void nvtxRangePop() {}
#endif

namespace millrace::cuda {
namespace {

// A profiler that uses NVTX sets this for its child, this process. Without one no text is made.
bool is_profiled() {
  static const bool profiled = std::getenv("NVTX_INJECTION64_PATH") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  return profiled;
}

}  // namespace

DeviceMeter::Piece::Piece(DeviceMeter* meter, Queue& queue, const std::string& name, const char* what, double DeviceTimes::*kind)
    : meter_(meter), queue_(queue), kind_(kind), what_(what) {
  if (is_profiled()) nvtxRangePushA((name + ": " + what).c_str());
  if (meter_ == nullptr) return;
  if (meter_->keeps_another())
    name_ = name;
  else if (kind_ == nullptr)
    meter_ = nullptr;
  if (meter_ == nullptr) return;
  begin_ = queue.timed_mark();
  if (name_.empty()) return;
  const std::lock_guard lock(meter_->mutex_);
  if (!meter_->origin_) meter_->origin_ = begin_;
}

DeviceMeter::Piece::~Piece() {
  if (is_profiled()) nvtxRangePop();
  if (meter_ == nullptr) return;
  try {
    Ref<Mark> end = queue_.timed_mark();
    const std::lock_guard lock(meter_->mutex_);
    meter_->submitted_[&queue_].push_back({kind_, std::move(name_), what_, std::move(begin_), std::move(end)});
    if (kind_ != nullptr) meter_->count_complete();
  } catch (const Error&) {  // the device has failed; its next use reports it
  }
}

bool DeviceMeter::keeps_another() {
  if (most_spans_ == 0) return false;
  const std::lock_guard lock(mutex_);
  return begun_++ < most_spans_;
}

// The host may be many steps ahead: only the oldest incomplete piece of each queue is queried.
void DeviceMeter::count_complete() {
  for (auto& [queue, pieces] : submitted_) {
    for (; !pieces.empty() && pieces.front().end->complete(); pieces.pop_front()) {
      Submitted& piece = pieces.front();
      const double seconds = machine_.seconds_between(*piece.begin, *piece.end);
      if (!piece.name.empty()) {
        const double begin = machine_.seconds_between(*origin_, *piece.begin);
        spans_.push_back({std::move(piece.name), piece.what, begin, begin + seconds});
      }
      if (piece.kind != nullptr) times_.*piece.kind += seconds;
    }
  }
}

DeviceTimes DeviceMeter::times() {
  const std::lock_guard lock(mutex_);
  try {
    count_complete();
  } catch (const Error&) {  // see above
  }
  return times_;
}

std::vector<WorkSpan> DeviceMeter::spans() {
  const std::lock_guard lock(mutex_);
  for (auto& [queue, pieces] : submitted_) {
    if (!pieces.empty()) pieces.back().end->wait();
  }
  count_complete();
  std::vector<WorkSpan> spans = spans_;
  std::ranges::stable_sort(spans, {}, &WorkSpan::begin);
  const double first = spans.empty() ? 0 : spans.front().begin;
  for (WorkSpan& span : spans) span.begin -= first, span.end -= first;
  return spans;
}

}  // namespace millrace::cuda
