// What Device::native("cuda") points to: for plugins with device code of their own. Needs no CUDA header; CUstream_st* is
// cudaStream_t.
#pragma once

#include <functional>
#include <string>

#include "millrace/backend/backend.h"

struct CUstream_st;

namespace millrace::cuda {

// Belongs to the Device and lives as long. Threading: one thread at a time submits to `stream`; wait and record may be called for
// any stream of this device, by the thread that submits to it.
//
//   auto* cuda = static_cast<const NativeCuda*>(device.native("cuda"));
//   cudaSetDevice(cuda->device);
//   cuda->wait(cuda->stream, packet.filled);
//   my_kernel<<<blocks, threads, 0, cuda->stream>>>(...);
//   packet.filled = cuda->record(cuda->stream);
struct NativeCuda {
  int device = 0;                 // as cudaSetDevice counts
  CUstream_st* stream = nullptr;  // non-blocking, the guests' own; nothing of ours runs there
  std::function<void(CUstream_st*, const Ref<Event>&)>
      wait;                                        // later work in the stream starts after it; null: nothing to wait for
  std::function<Ref<Event>(CUstream_st*)> record;  // complete when all that the stream has been given is done
};

}  // namespace millrace::cuda
