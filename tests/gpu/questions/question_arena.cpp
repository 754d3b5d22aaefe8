// Does an arena grow? Memory is taken and given back as the backend does it, by its own machine, while other work runs.
#include <cuda_runtime_api.h>

#include "cuda_machine.h"
#include "device.h"
#include "gpu.h"
#include "kernels.h"
#include "millrace/error.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

DeviceInfo device_info() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, kDevice), "cudaGetDeviceProperties");
  DeviceInfo info;
  info.backend = "cuda";
  info.index = kDevice;
  info.name = properties.name;
  info.memory = properties.totalGlobalMem;
  return info;
}

Json failure(const std::string& what, const std::exception& error) { return {{"what", what}, {"refused", error.what()}}; }

// Allocates (which zeroes), writes all of it, keeps it.
Json take(cuda::CudaMachine& machine, const std::string& what, std::size_t bytes, cuda::DeviceMemory& memory) {
  Json step = {{"what", what}, {"mib", bytes / kMiB}};
  const Stream stream = make_stream();
  step["allocate_ms"] = rounded(host_milliseconds([&] { memory = cuda::DeviceMemory(machine, bytes, what); }));
  step["write_ms"] = rounded(best_milliseconds(
      stream.get(), 1, [&] { check(cudaMemsetAsync(memory.data(), 1, bytes, stream.get()), "cudaMemsetAsync"); }));
  return step;
}

void give_back(Json& step, cuda::DeviceMemory& memory) {
  step["release_ms"] = rounded(host_milliseconds([&] { memory = cuda::DeviceMemory(); }));
}

std::size_t share(cuda::CudaMachine& machine, double of_free) {
  return static_cast<std::size_t>(static_cast<double>(machine.free_memory()) * of_free) / kMiB * kMiB;
}

// 100 MiB, 60 % of what is free, 80 %: each after the one before was given back, with a kernel of another stream in flight.
void grow(cuda::CudaMachine& machine, Findings& findings) {
  Json& steps = findings.answer["growing"] = Json::array();
  const Stream other = make_stream();
  const Pinned still(sizeof(int));
  for (const auto& [what, of_free] : {std::pair{"100 MiB", 0.0}, {"60 % of what is free", 0.6}, {"80 % of what is free", 0.8}}) {
    findings.doing(fmt::format("an arena of {}", what));
    try {
      check(spin(300000, multiprocessors() / 2, other.get()), "spin");
      cuda::DeviceMemory memory;
      Json step = take(machine, what, of_free == 0 ? 100 * kMiB : share(machine, of_free), memory);
      step["other_work_still_ran"] = cudaStreamQuery(other.get()) == cudaErrorNotReady;
      cudaGetLastError();
      give_back(step, memory);
      step["free_after_mib"] = machine.free_memory() / kMiB;
      steps.push_back(step);
    } catch (const Error& error) {
      steps.push_back(failure(what, error));
    }
    finish(other.get());
    findings.save();
  }
}

// What must be refused is refused, and does not spoil what comes next.
void refuse(cuda::CudaMachine& machine, Findings& findings) {
  findings.doing("an arena that does not fit");
  cuda::DeviceMemory half, more;
  Json step = take(machine, "60 % of what is free", share(machine, 0.6), half);
  try {
    step["second_of_the_same_size"] = take(machine, "another 60 %", half.bytes(), more);
  } catch (const Error& error) {
    step["second_of_the_same_size"] = failure("another 60 %", error);
  }
  more = cuda::DeviceMemory();
  give_back(step, half);
  cuda::DeviceMemory again;
  step["afterwards"] = take(machine, "80 % of what is free", share(machine, 0.8), again);
  findings.answer["refusal"] = step;
}

// The pool's own calls, one by one: what release keeps, and what trimming does.
Json pool_calls(std::size_t bytes) {
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = kDevice};
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  const Stream stream = make_stream();
  const auto reserved = [&] {
    std::uint64_t mib = 0;
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &mib), "cudaMemPoolGetAttribute");
    return mib / kMiB;
  };
  void* memory = nullptr;
  Json result = {{"mib", bytes / kMiB}};
  result["allocate_ms"] = rounded(host_milliseconds([&] {
    check(cudaMallocFromPoolAsync(&memory, bytes, pool, stream.get()), "cudaMallocFromPoolAsync");
    finish(stream.get());
  }));
  result["reserved_mib"] = reserved();
  result["free_ms"] = rounded(host_milliseconds([&] { check(cudaFreeAsync(memory, stream.get()), "cudaFreeAsync"); }));
  result["reserved_after_free_mib"] = reserved();
  result["finish_ms"] = rounded(host_milliseconds([&] { finish(stream.get()); }));
  result["reserved_after_finish_mib"] = reserved();
  result["trim_ms"] = rounded(host_milliseconds([&] { check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo"); }));
  result["reserved_after_trim_mib"] = reserved();
  check(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  return result;
}

}  // namespace

void ask_arena(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("opening the machine");
  cuda::CudaMachine machine(std::make_shared<cuda::Gpu>(device_info()));
  findings.answer["free_mib"] = machine.free_memory() / kMiB;
  grow(machine, findings);
  refuse(machine, findings);
  findings.doing("the calls of a pool");
  findings.answer["pool"] = pool_calls(share(machine, 0.3));
}

}  // namespace millrace::gpu
