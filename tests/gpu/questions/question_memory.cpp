// What does taking and giving back memory cost?
#include "device.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr int kTimes = 5;

// Takes and gives back; medians of both.
template <class Take, class Give>
Json cost_of(const Take& take, const Give& give) {
  std::vector<double> taking, giving;
  for (int i = 0; i < kTimes; ++i) {
    void* memory = nullptr;
    taking.push_back(host_milliseconds([&] { check(take(&memory), "taking memory"); }));
    giving.push_back(host_milliseconds([&] { check(give(memory), "giving back memory"); }));
  }
  return {{"take_ms", rounded(median(taking))}, {"give_back_ms", rounded(median(giving))}};
}

}  // namespace

void ask_memory(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  const Stream stream = make_stream();
  for (const std::size_t mib : {std::size_t{1}, std::size_t{64}, std::size_t{1024}}) {
    const std::size_t bytes = mib * kMiB;
    Json& result = findings.answer[fmt::format("{} MiB", mib)];
    findings.doing(fmt::format("{} MiB", mib));
    result["cudaMalloc"] = cost_of([&](void** memory) { return cudaMalloc(memory, bytes); }, &cudaFree);
    result["cudaMallocAsync"] = cost_of(
        [&](void** memory) {
          const cudaError_t status = cudaMallocAsync(memory, bytes, stream.get());
          return status == cudaSuccess ? cudaStreamSynchronize(stream.get()) : status;
        },
        [&](void* memory) {
          const cudaError_t status = cudaFreeAsync(memory, stream.get());
          return status == cudaSuccess ? cudaStreamSynchronize(stream.get()) : status;
        });
    result["cudaHostAlloc"] =
        cost_of([&](void** memory) { return cudaHostAlloc(memory, bytes, cudaHostAllocPortable); }, &cudaFreeHost);
  }
}

}  // namespace millrace::gpu
