// The structure behind Device::native("cuda"), for plugins with their own device code. Needs no CUDA header; CUstream_st* is
// cudaStream_t.
#pragma once

#include <functional>
#include <string>

#include "millrace/backend/backend.h"

struct CUstream_st;

namespace millrace::cuda {

// Owned by the Device. Threading: one thread at a time submits to `stream`; wait and record may be called for any stream of this
// device, from the thread that submits to it.
//
//   auto* cuda = static_cast<const NativeCuda*>(device.native("cuda"));
//   cudaSetDevice(cuda->device);
//   cuda->wait(cuda->stream, packet.filled);
//   my_kernel<<<blocks, threads, 0, cuda->stream>>>(...);
//   packet.filled = cuda->record(cuda->stream);
struct NativeCuda {
  int device = 0;                 // CUDA's device number
  CUstream_st* stream = nullptr;  // non-blocking, for plugins only; the backend does not use it
  std::function<void(CUstream_st*, const Ref<Event>&)>
      wait;                                        // later work in the stream starts after the event; null: does not wait
  std::function<Ref<Event>(CUstream_st*)> record;  // completes after all earlier work in the stream
};

}  // namespace millrace::cuda
