// How fast are copies, and do they run beside kernels and beside each other?
#include <cstring>

#include "device.h"
#include "kernels.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr std::size_t kBytes = 256 * kMiB;
constexpr int kTimes = 3;

using Submit = std::function<void(cudaStream_t)>;

double rate(std::size_t bytes, double milliseconds) { return rounded(static_cast<double>(bytes) / milliseconds / 1e6); }  // GB/s

struct Memory {
  Pinned host_in{kBytes}, host_out{kBytes};
  Buffer in{kBytes}, out{kBytes}, other{kBytes};
  Stream a = make_stream(), b = make_stream();
  int blocks = multiprocessors();

  void copy_in(cudaStream_t stream) const {
    check(cudaMemcpyAsync(in.data(), host_in.data(), kBytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  }
  void copy_out(cudaStream_t stream) const {
    check(cudaMemcpyAsync(host_out.data(), out.data(), kBytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  }
  void copy_within(cudaStream_t stream) const {
    check(cudaMemcpyAsync(other.data(), in.data(), kBytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  }
};

// From before both to after both, by the host's clock: streams share nothing else.
double together(const Memory& memory, const Submit& first, const Submit& second) {
  double best = 1e30;
  for (int i = 0; i < kTimes; ++i) {
    const Stopwatch watch;
    first(memory.a.get());
    second(memory.b.get());
    finish(memory.a.get());
    finish(memory.b.get());
    best = std::min(best, watch.milliseconds());
  }
  return best;
}

double alone(const Memory& memory, const Submit& work) {
  return together(memory, work, [](cudaStream_t) {});
}

// "hidden": the share of the shorter one that took no time of its own; 1 is perfect.
Json side_by_side(const Memory& memory, const Submit& first, const Submit& second) {
  const double a = alone(memory, first), b = alone(memory, second), both = together(memory, first, second);
  return {{"first_ms", rounded(a)},
          {"second_ms", rounded(b)},
          {"together_ms", rounded(both)},
          {"hidden", rounded((a + b - both) / std::min(a, b))}};
}

Json rates(const Memory& memory) {
  const cudaStream_t stream = memory.a.get();
  Json result;
  const auto best = [&](const std::function<void()>& submit) { return best_milliseconds(stream, kTimes, submit); };
  result["host_to_device"] = rate(kBytes, best([&] { memory.copy_in(stream); }));
  result["device_to_host"] = rate(kBytes, best([&] { memory.copy_out(stream); }));
  result["device_to_device_read_and_write"] = rate(2 * kBytes, best([&] { memory.copy_within(stream); }));
  result["memset"] = rate(kBytes, best([&] { check(cudaMemsetAsync(memory.in.data(), 0, kBytes, stream), "cudaMemsetAsync"); }));
  std::vector<char> pageable(kBytes, 1);
  result["host_to_device_pageable"] =
      rate(kBytes, best([&] {
             check(cudaMemcpyAsync(memory.in.data(), pageable.data(), kBytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
           }));
  return result;
}

}  // namespace

void ask_copies(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("taking memory");
  const Memory memory;
  std::memset(memory.host_in.data(), 1, kBytes);
  findings.doing("copies alone");
  findings.answer["gb_per_second"] = rates(memory);
  const double milliseconds = alone(memory, [&](cudaStream_t s) { memory.copy_in(s); });
  // On every multiprocessor for as long as the copy takes.
  const Submit kernel = [&](cudaStream_t s) { check(spin(milliseconds * 1000, 8 * memory.blocks, s), "spin"); };
  const Submit in = [&](cudaStream_t s) { memory.copy_in(s); }, out = [&](cudaStream_t s) { memory.copy_out(s); };
  const Submit within = [&](cudaStream_t s) {
    for (int i = 0; i < 50; ++i) memory.copy_within(s);
  };
  const auto ask = [&](const char* what, const Submit& first, const Submit& second) {
    findings.doing(what);
    findings.answer["side_by_side"][what] = side_by_side(memory, first, second);
  };
  ask("kernel, copy in", kernel, in);
  ask("kernel, copy out", kernel, out);
  ask("copy in, copy out", in, out);
  ask("kernel, kernel", kernel, kernel);  // both fill the device: what serial work looks like
  ask("copies within the device, copy in", within, in);
}

}  // namespace millrace::gpu
