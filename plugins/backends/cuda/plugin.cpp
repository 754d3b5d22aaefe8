#include "millrace/plugin.h"

#include "device/cuda_backend.h"
#include "device/nccl/api.h"
#include "device/nccl/communicator.h"

MILLRACE_PLUGIN("cuda", "0.1.0", "NVIDIA devices: cuDNN, cuBLASLt and NCCL, everything else by own kernels") {
  millrace::cuda::set_nccl_environment();  // programs load their plugins before they start threads
  registry.add(millrace::BackendType{{"cuda", "NVIDIA devices, in float32, TF32 or bf16"},
                                     [] { return std::make_shared<millrace::cuda::CudaBackend>(); }});
  using millrace::cuda::NcclWire;
  const auto sums_in = [](NcclWire wire) {
    return [wire](const millrace::CommunicatorType::Setting& setting) { return make_nccl_communicator(setting, wire); };
  };
  registry.add(millrace::CommunicatorType{
      {"nccl", "sums over NVIDIA devices, of one or several processes, by NCCL"}, "cuda", sums_in(NcclWire::fp32)});
  registry.add(millrace::CommunicatorType{  // without a backend, so that "auto" does not choose it
      {"nccl_bf16", "as nccl, of gradients in half precision"}, "", sums_in(NcclWire::bf16)});
}
