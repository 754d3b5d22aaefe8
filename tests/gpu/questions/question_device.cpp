// Is there a device, which one, and which libraries are there for it? And what does each library's first use take?
#include <nccl.h>

#include <cstdlib>

#include "cublaslt/api.h"
#include "cudnn/api.h"
#include "device.h"
#include "device_list.h"
#include "kernels.h"
#include "library.h"
#include "millrace/error.h"
#include "nvml_readings.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

// In one sentence; empty: there is one.
std::string why_none() {
  cuda::DriverState state;
  try {
    const cuda::Library driver({"libcuda.so.1"});
    state.library = true;
  } catch (const Error&) {
    return cuda::why_no_device(state);
  }
  cudaRuntimeGetVersion(&state.runtime_cuda);
  cudaDriverGetVersion(&state.driver_cuda);
  state.status = cudaGetDeviceCount(&state.count);
  cudaGetLastError();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    state.visible_is_set = true;
    state.visible = visible;
  }
  return cuda::why_no_device(state);
}

Json properties() {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, kDevice), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0, count = 0, clock = 0, memory_clock = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, kDevice), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, kDevice), "cudaDeviceGetAttribute");
  return {{"name", p.name},
          {"devices", count},
          {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
          {"multiprocessors", p.multiProcessorCount},
          {"memory_bytes", p.totalGlobalMem},
          {"l2_bytes", p.l2CacheSize},
          {"memory_bus_bits", p.memoryBusWidth},
          {"clock_mhz", clock / 1000},
          {"memory_clock_mhz", memory_clock / 1000},
          {"copy_engines", p.asyncEngineCount},
          {"shared_memory_of_block_opt_in", p.sharedMemPerBlockOptin},
          {"ecc", p.ECCEnabled},
          {"cuda_of_driver", cuda::cuda_version_text(driver)},
          {"cuda_runtime", cuda::cuda_version_text(runtime)}};
}

// The time that `work` takes goes beside what it returns.
template <class Work>
Json timed(const Work& work) {
  const Stopwatch watch;
  Json result;
  try {
    result = work();
  } catch (const Error& error) {
    result["why"] = error.what();
  }
  result["ms"] = rounded(watch.milliseconds());
  return result;
}

}  // namespace

void ask_device(const Setting&, Findings& findings) {
  findings.doing("looking for a device");
  const std::string why = why_none();
  if (!why.empty()) {
    findings.answer["why_none"] = why;
    return;
  }
  findings.answer["device"] = properties();
  findings.save();
  findings.doing("opening the device");
  findings.answer["open_ms"] = rounded(host_milliseconds([] {
    check(cudaSetDevice(kDevice), "cudaSetDevice");
    check(cudaFree(nullptr), "cudaFree");
  }));
  const Stream stream = make_stream();
  findings.doing("a kernel of our own");
  findings.answer["first_kernel_ms"] = rounded(host_milliseconds([&] {
    check(nothing(stream.get()), "nothing");
    finish(stream.get());
  }));
  findings.doing("NVML");
  findings.answer["nvml"] = nvml_readings();
}

void ask_libraries(const Setting&, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");
  findings.doing("cuDNN");
  findings.answer["cudnn_open"] = timed([] {
    const cuda::CudnnApi api;
    return Json{{"version", api.version()}, {"path", api.path()}};
  });
  findings.answer["cudnn_handle"] = timed([] {
    const cuda::CudnnApi api;
    cudnnHandle_t handle = nullptr;
    api.check(api.cudnnCreate(&handle), "cudnnCreate");
    return Json::object();
  });
  findings.doing("cuBLASLt");
  findings.answer["cublaslt_open"] = timed([] {
    const cuda::CublasLtApi api;
    return Json{{"version", api.version()}, {"path", api.path()}};
  });
  findings.answer["cublaslt_handle"] = timed([] {
    const cuda::CublasLtHandle handle(std::make_shared<const cuda::CublasLtApi>());
    return Json::object();
  });
  findings.doing("NCCL");
  findings.answer["nccl_open"] = timed([] {
    const cuda::Library library({"libnccl.so.2"});
    int version = 0;
    library.symbol<decltype(ncclGetVersion)>("ncclGetVersion")(&version);
    return Json{{"version", version}, {"path", library.path()}};
  });
  findings.doing("NVRTC");
  findings.answer["nvrtc_open"] = timed([] {
    const cuda::Library library({"libnvrtc.so.13"});
    return Json{{"path", library.path()}};
  });
}

}  // namespace millrace::gpu
