// What do launches, recordings and events cost?
#include "device.h"
#include "kernels.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr int kLaunches = 2000;
constexpr int kNodes = 100;
constexpr int kGraphLaunches = 50;
constexpr int kRounds = 5;

double microseconds(double milliseconds, int calls) { return rounded(milliseconds * 1000 / calls); }

// The host's time to submit one, and the device's to get through it.
Json cost_of(cudaStream_t stream, int times, const std::function<void()>& submit) {
  std::vector<double> host, device;
  submit();
  for (int round = 0; round < kRounds; ++round) {
    finish(stream);
    device.push_back(device_milliseconds(stream, [&] {
      host.push_back(host_milliseconds([&] {
        for (int i = 0; i < times; ++i) submit();
      }));
    }));
  }
  return {{"host_us", microseconds(median(host), times)}, {"device_us", microseconds(median(device), times)}};
}

void ask_graphs(cudaStream_t stream, Findings& findings) {
  findings.doing("recordings");
  const auto many = [&] {
    for (int i = 0; i < kNodes; ++i) check(nothing(stream), "nothing");
  };
  GraphExec graph;
  const double made = host_milliseconds([&] { graph = record(stream, many); });
  Json result = cost_of(stream, kGraphLaunches, [&] { check(cudaGraphLaunch(graph.get(), stream), "cudaGraphLaunch"); });
  result["kernels"] = kNodes;
  result["record_and_instantiate_ms"] = rounded(made);
  findings.answer["recording_of_empty_kernels"] = result;
}

void ask_event_calls(cudaStream_t stream, Findings& findings) {
  findings.doing("events");
  const Stream other = make_stream();
  const Event event = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  Json& result = findings.answer["events"];
  result["create_us"] = microseconds(host_milliseconds([&] {
                                       for (int i = 0; i < kLaunches; ++i) make_event();
                                     }),
                                     kLaunches);
  result["record"] = cost_of(stream, kLaunches, [&] { check(cudaEventRecord(event.get(), stream), "cudaEventRecord"); });
  result["record_and_wait_in_another_stream"] = cost_of(stream, kLaunches, [&] {
    check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
    check(cudaStreamWaitEvent(other.get(), event.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  });
  // From the launch of an empty kernel until the host knows that it is done; sleeping, as marks do, and spinning.
  const auto round_trip = [&](const Event& mark) {
    return microseconds(host_milliseconds([&] {
                          for (int i = 0; i < kGraphLaunches; ++i) {
                            check(nothing(stream), "nothing");
                            check(cudaEventRecord(mark.get(), stream), "cudaEventRecord");
                            check(cudaEventSynchronize(mark.get()), "cudaEventSynchronize");
                          }
                        }),
                        kGraphLaunches);
  };
  result["kernel_and_sleeping_wait_us"] = round_trip(event);
  result["kernel_and_spinning_wait_us"] = round_trip(make_event());
}

}  // namespace

void ask_launches(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("launches");
  const Stream stream = make_stream();
  const Pinned host(sizeof(int));
  const Buffer device(sizeof(int));
  findings.answer["empty_kernel"] = cost_of(stream.get(), kLaunches, [&] { check(nothing(stream.get()), "nothing"); });
  findings.answer["copy_of_4_bytes"] = cost_of(stream.get(), kLaunches, [&] {
    check(cudaMemcpyAsync(device.data(), host.data(), sizeof(int), cudaMemcpyHostToDevice, stream.get()), "cudaMemcpyAsync");
  });
  findings.answer["memset_of_4_bytes"] = cost_of(
      stream.get(), kLaunches, [&] { check(cudaMemsetAsync(device.data(), 0, sizeof(int), stream.get()), "cudaMemsetAsync"); });
  ask_graphs(stream.get(), findings);
  ask_event_calls(stream.get(), findings);
}

}  // namespace millrace::gpu
