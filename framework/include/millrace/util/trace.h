// Slices of time for a trace (pipeline-run --trace): what stages, sources and devices did, and when. While no trace is taken, the
// question costs one relaxed load.
//
//   if (is_traced()) trace({.name = "sort", .track = "disk 0", .begin = begin, .end = now_ticks(), .step = batch.step});
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace millrace {

namespace detail {
extern std::atomic<bool> trace_is_taken;
}  // namespace detail

inline bool is_traced() { return detail::trace_is_taken.load(std::memory_order_relaxed); }

// All texts are copied.
struct TraceSlice {
  std::string_view graph = {}, name;  // "train"; what was done: "decode_image"
  std::string_view track = {};        // where it is shown, such as a device; empty: the calling thread
  std::string_view from = {};         // the stage that sent what is worked on; empty: none did
  std::string_view file = {};         // of a source: where the first sample comes from
  std::uint64_t sent = 0;             // by `from`
  std::uint64_t begin = 0, end = 0;   // now_ticks() (telemetry.h)
  std::uint64_t step = 0;             // from 0
  std::uint32_t slot = 0, slots = 0;  // of the samples of a chunk; 0 slots: a whole batch
  std::int32_t replica = -1;
};

// Thread-safe. Dropped where no trace is taken, or not of this step, and where there is no memory.
void trace(const TraceSlice& slice) noexcept;

}  // namespace millrace
