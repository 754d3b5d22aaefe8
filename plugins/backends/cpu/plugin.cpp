#include "millrace/plugin.h"

#include "backend.h"

MILLRACE_PLUGIN("cpu", "0.1.0", "the processor as a device: convolutions by oneDNN, everything else by own kernels") {
  registry.add(millrace::BackendType{{"cpu", "this machine's processor, in float32 or bf16"},
                                     [] { return std::make_shared<millrace::cpu::CpuBackend>(); }});
}
