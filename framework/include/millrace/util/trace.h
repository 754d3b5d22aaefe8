// Time slices for a trace (pipeline-run --trace): activity of stages, sources and devices. While tracing is off, is_traced()
// costs one relaxed load.
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
  std::string_view graph = {}, name;  // "train"; the activity: "decode_image"
  std::string_view track = {};        // where it is shown, such as a device; empty: the calling thread
  std::string_view from = {};         // the stage that sent the packet; empty: none
  std::string_view file = {};         // for a source: location of the first sample
  std::uint64_t sent = 0;             // when `from` sent it
  std::uint64_t begin = 0, end = 0;   // now_ticks() (telemetry.h)
  std::uint64_t step = 0;             // from 0
  std::uint32_t slot = 0, slots = 0;  // the chunk's samples; 0 slots: a whole batch
  std::int32_t replica = -1;
};

// Thread-safe. Dropped if tracing is off or skips this step, or if memory runs out.
void trace(const TraceSlice& slice) noexcept;

}  // namespace millrace
