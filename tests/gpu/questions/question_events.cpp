// Is a wait for an event that a recording sets ordered after the launch before it, each time the recording is launched?
// The backend counts on it (plugins/backends/cuda/device/marks.cpp, record_external), with these very calls.
#include "kernels.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr int kLaunches = 200;
constexpr double kBefore = 100, kBehind = 200;  // microseconds of work before the event, and after it

// A recording that counts up, sets the event, and later counts up again.
struct Counting {
  Counting() {
    graph = record(main, [&] {
      check(spin(kBefore, main.get()), "spin");
      check(count_up(before(), main.get()), "count_up");
      check(cudaEventRecordWithFlags(event.get(), main.get(), cudaEventRecordExternal), "cudaEventRecordWithFlags");
      check(spin(kBehind, main.get()), "spin");
      check(count_up(behind(), main.get()), "count_up");
    });
  }
  void launch() const { check(cudaGraphLaunch(graph.get(), main.get()), "cudaGraphLaunch"); }
  int* before() const { return static_cast<int*>(counters.get()); }
  int* behind() const { return before() + 1; }

  Stream main = make_stream(), reader = make_stream();
  Event event = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  Buffer counters = make_buffer(2 * sizeof(int));
  GraphExec graph;
};

// The reader waits after each launch and reads both counters. In lockstep the next launch waits for the reader; else launches run
// ahead of it.
void read_behind_waits(bool lockstep) {
  const Counting counting;
  const Event read = make_event(cudaEventDisableTiming);
  const Buffer copies = make_buffer(2 * kLaunches * sizeof(int));
  for (int i = 0; i < kLaunches; ++i) {
    counting.launch();
    check(cudaStreamWaitEvent(counting.reader.get(), counting.event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
    check(cudaMemcpyAsync(static_cast<int*>(copies.get()) + 2 * i, counting.before(), 2 * sizeof(int), cudaMemcpyDeviceToDevice,
                          counting.reader.get()),
          "cudaMemcpyAsync");
    if (!lockstep) continue;
    check(cudaEventRecord(read.get(), counting.reader.get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(counting.main.get(), read.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }
  finish(counting.main);
  finish(counting.reader);
  int seen[2 * kLaunches] = {}, too_early = 0, too_late = 0, within = 0;
  check(cudaMemcpy(seen, copies.get(), sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (int i = 0; i < kLaunches; ++i) {
    too_early += seen[2 * i] < i + 1 ? 1 : 0;
    too_late += lockstep && seen[2 * i] > i + 1 ? 1 : 0;  // the next launch did not wait
    within += seen[2 * i + 1] < i + 1 ? 1 : 0;            // the event was set within the launch, not at its end
  }
  say({{"a stream waits", lockstep ? "in lockstep" : "launches run ahead"},
       {"launches", kLaunches},
       {"read_too_early", too_early},
       {"read_too_late", too_late},
       {"read_while_the_launch_went_on", within}});
}

// The host asks and waits, as CudaMark::complete() and wait() do.
void host_waits() {
  const Counting counting;
  int seen = 0, too_early = 0, complete_at_once = 0;
  for (int i = 0; i < kLaunches / 4; ++i) {
    counting.launch();
    const cudaError_t state = cudaEventQuery(counting.event.get());
    complete_at_once += state == cudaSuccess ? 1 : 0;
    if (state != cudaSuccess && state != cudaErrorNotReady) check(state, "cudaEventQuery");
    cudaGetLastError();
    check(cudaEventSynchronize(counting.event.get()), "cudaEventSynchronize");
    check(cudaMemcpyAsync(&seen, counting.before(), sizeof seen, cudaMemcpyDeviceToHost, counting.reader.get()),
          "cudaMemcpyAsync");
    finish(counting.reader);
    too_early += seen < i + 1 ? 1 : 0;
    finish(counting.main);
  }
  say({{"the host waits", "launch by launch"}, {"read_too_early", too_early}, {"complete_right_after_launch", complete_at_once}});
}

}  // namespace

void ask_events(const Asked&) {
  check(cudaSetDevice(0), "cudaSetDevice");
  read_behind_waits(true);
  read_behind_waits(false);
  host_waits();
}

}  // namespace millrace::gpu
