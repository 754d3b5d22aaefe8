// Is a wait for an event that a recording sets ordered behind the launch before it, each time the recording is launched?
// The backend counts on it (plugins/backends/cuda/device/marks.cpp, record_external), with these very calls.
#include <vector>

#include "device.h"
#include "kernels.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr int kLaunches = 200;
constexpr int kHostLaunches = 50;
constexpr double kBefore = 100, kBehind = 200;  // microseconds of work before the event, and behind it

// A recording that counts up, sets the event, and later counts up again.
struct Counting {
  Counting() : counters(2 * sizeof(int)) {
    check(cudaMemsetAsync(counters.data(), 0, 2 * sizeof(int), main.get()), "cudaMemsetAsync");
    finish(main.get());
    graph = record(main.get(), [&] {
      check(spin(kBefore, 1, main.get()), "spin");
      check(count_up(before(), main.get()), "count_up");
      check(cudaEventRecordWithFlags(event.get(), main.get(), cudaEventRecordExternal), "cudaEventRecordWithFlags");
      check(spin(kBehind, 1, main.get()), "spin");
      check(count_up(behind(), main.get()), "count_up");
    });
  }
  void launch() const { check(cudaGraphLaunch(graph.get(), main.get()), "cudaGraphLaunch"); }
  int* before() const { return counters.as<int>(); }
  int* behind() const { return counters.as<int>() + 1; }

  Stream main = make_stream(), reader = make_stream();
  Event event = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  Buffer counters;
  GraphExec graph;
};

// The reader waits after each launch and reads both counters. In lockstep the next launch waits for the reader; else launches run
// ahead of it.
Json read_behind_waits(bool lockstep) {
  const Counting counting;
  const Event read = make_event();
  const Pinned slots(2 * kLaunches * sizeof(int));
  int* const seen = static_cast<int*>(slots.data());
  for (int i = 0; i < kLaunches; ++i) {
    counting.launch();
    check(cudaStreamWaitEvent(counting.reader.get(), counting.event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
    check(copy_counter(counting.before(), seen + 2 * i, counting.reader.get()), "copy_counter");
    check(copy_counter(counting.behind(), seen + 2 * i + 1, counting.reader.get()), "copy_counter");
    if (!lockstep) continue;
    check(cudaEventRecord(read.get(), counting.reader.get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(counting.main.get(), read.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }
  finish(counting.main.get());
  finish(counting.reader.get());
  int too_early = 0, too_late = 0, within = 0;
  for (int i = 0; i < kLaunches; ++i) {
    too_early += seen[2 * i] < i + 1 ? 1 : 0;
    too_late += seen[2 * i] > i + 1 ? 1 : 0;
    within += seen[2 * i + 1] < i + 1 ? 1 : 0;
  }
  Json result = {{"launches", kLaunches}, {"read_too_early", too_early}, {"read_while_the_launch_went_on", within}};
  if (lockstep) result["read_too_late"] = too_late;  // the next launch did not wait
  return result;
}

// The host asks and waits, as CudaMark::complete() and wait() do.
Json host_waits() {
  const Counting counting;
  const Pinned slot(sizeof(int));
  int wrong = 0, complete_at_once = 0;
  for (int i = 0; i < kHostLaunches; ++i) {
    counting.launch();
    const cudaError_t state = cudaEventQuery(counting.event.get());
    if (state == cudaSuccess) ++complete_at_once;
    if (state != cudaSuccess && state != cudaErrorNotReady) check(state, "cudaEventQuery");
    cudaGetLastError();
    check(cudaEventSynchronize(counting.event.get()), "cudaEventSynchronize");
    check(cudaMemcpyAsync(slot.data(), counting.before(), sizeof(int), cudaMemcpyDeviceToHost, counting.reader.get()),
          "cudaMemcpyAsync");
    finish(counting.reader.get());
    wrong += *static_cast<int*>(slot.data()) < i + 1 ? 1 : 0;
    finish(counting.main.get());
  }
  return {{"launches", kHostLaunches}, {"read_too_early", wrong}, {"complete_right_after_launch", complete_at_once}};
}

}  // namespace

void ask_events(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("another stream waits, in lockstep");
  findings.answer["stream_in_lockstep"] = read_behind_waits(true);
  findings.doing("another stream waits, launches run ahead");
  findings.answer["stream_run_ahead"] = read_behind_waits(false);
  findings.doing("the host waits");
  findings.answer["host"] = host_waits();
}

}  // namespace millrace::gpu
