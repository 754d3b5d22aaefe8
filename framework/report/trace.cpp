#include "report/trace.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "millrace/util/telemetry.h"
#include "util/mutex.h"

namespace millrace {
namespace detail {
std::atomic<bool> trace_is_taken{false};
}  // namespace detail

namespace {

// Numbers for texts: slices of one thread have few distinct ones.
class Names {
 public:
  std::uint32_t number(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto next = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name);
    numbers_.emplace(name, next);
    return next;
  }
  const std::string& operator[](std::uint32_t number) const { return names_[number]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<std::string> names_;
};

struct KeptSlice {
  std::uint32_t graph = 0, name = 0, track = 0, from = 0;
  std::uint64_t sent = 0, begin = 0, end = 0, step = 0;
  std::uint32_t slot = 0, slots = 0;
  std::int32_t replica = -1;
  std::string file;
};

// The newest slices of one thread. The lock is contended only when a trace is read.
struct Ring {
  Mutex mutex;
  std::string thread MILLRACE_GUARDED_BY(mutex);
  Names names MILLRACE_GUARDED_BY(mutex);
  std::vector<KeptSlice> slices MILLRACE_GUARDED_BY(mutex);
  std::size_t next MILLRACE_GUARDED_BY(mutex) = 0;  // the oldest slice, once the ring is full
  std::uint64_t lost MILLRACE_GUARDED_BY(mutex) = 0;
};

// The rings of the current trace. A thread shares ownership of its ring, so that it may write while the trace ends.
struct Rings {
  Mutex mutex;
  std::vector<std::shared_ptr<Ring>> all MILLRACE_GUARDED_BY(mutex);
  std::map<std::string, int> named MILLRACE_GUARDED_BY(mutex);  // threads by name
  std::string first_thread MILLRACE_GUARDED_BY(mutex);          // inherited as a name by unnamed threads
  std::atomic<std::uint64_t> trace{0};                          // its number, from 1
  std::atomic<std::uint64_t> first{0}, last{0};                 // steps
  std::atomic<std::size_t> most{0};
};
Rings& rings() {
  static Rings one;  // process-wide, like threads
  return one;
}

std::string thread_name() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

std::shared_ptr<Ring> new_ring() {
  Rings& here = rings();
  auto ring = std::make_shared<Ring>();
  const std::string own = thread_name();
  const Lock lock(here.mutex);
  const std::string name = own.empty() || own == here.first_thread ? "worker" : own;
  const Lock ring_lock(ring->mutex);
  ring->thread = name + " " + std::to_string(++here.named[name]);
  here.all.push_back(ring);
  return ring;
}

Ring& ring_of_this_thread() {
  struct Own {
    std::shared_ptr<Ring> ring;
    std::uint64_t trace = 0;
  };
  thread_local Own own;
  const std::uint64_t trace = rings().trace.load(std::memory_order_acquire);
  if (own.trace != trace) own = {new_ring(), trace};
  return *own.ring;
}

void keep(const TraceSlice& slice) {
  Ring& ring = ring_of_this_thread();
  const Lock lock(ring.mutex);
  KeptSlice kept{.graph = ring.names.number(slice.graph),
                 .name = ring.names.number(slice.name),
                 .track = ring.names.number(slice.track),
                 .from = ring.names.number(slice.from),
                 .sent = slice.sent,
                 .begin = slice.begin,
                 .end = slice.end,
                 .step = slice.step,
                 .slot = slice.slot,
                 .slots = slice.slots,
                 .replica = slice.replica,
                 .file = std::string(slice.file)};
  if (ring.slices.size() < rings().most) {
    ring.slices.push_back(std::move(kept));
    return;
  }
  ring.slices[ring.next] = std::move(kept);
  ring.next = (ring.next + 1) % ring.slices.size();
  ++ring.lost;
}

}  // namespace

void trace(const TraceSlice& slice) noexcept {
  const Rings& all = rings();
  if (slice.step < all.first || slice.step > all.last || !is_traced()) return;
  try {
    keep(slice);
  } catch (const std::bad_alloc&) {
  }
}

Trace::Clock Trace::Clock::now() { return {now_ticks(), static_cast<std::int64_t>(detail::steady_nanoseconds())}; }

Trace::Trace(TraceSteps steps, std::size_t most_slices) : begin_(Clock::now()) {
  Rings& all = rings();
  {
    const Lock lock(all.mutex);
    all.all.clear();
    all.named.clear();
    all.first_thread = thread_name();
  }
  all.first = steps.first;
  all.last = steps.last;
  all.most = std::max<std::size_t>(most_slices, 1);
  all.trace.fetch_add(1, std::memory_order_release);
  detail::trace_is_taken = true;
}

Trace::~Trace() {
  stop();
  const Lock lock(rings().mutex);
  rings().all.clear();
}

void Trace::stop() {
  if (detail::trace_is_taken.exchange(false)) end_ = Clock::now();
}

// The ratio between the clocks is measured over the whole trace, so tracks of several processes stay aligned.
std::int64_t Trace::nanoseconds(std::uint64_t ticks) const {
  const auto passed = static_cast<double>(end_.ticks - begin_.ticks);
  const double rate = passed > 0 ? static_cast<double>(end_.nanoseconds - begin_.nanoseconds) / passed : 0;
  const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - begin_.ticks));
  return begin_.nanoseconds + static_cast<std::int64_t>(std::llround(rate * since));
}

std::vector<TraceTrack> Trace::tracks() const {
  std::map<std::string, std::vector<TracedSlice>> by_name;
  const Lock lock(rings().mutex);
  for (const auto& ring : rings().all) {
    const Lock ring_lock(ring->mutex);
    for (const KeptSlice& each : ring->slices) {
      const std::string& device = ring->names[each.track];
      by_name[device.empty() ? ring->thread : device].push_back({.graph = ring->names[each.graph],
                                                                 .name = ring->names[each.name],
                                                                 .from = ring->names[each.from],
                                                                 .file = each.file,
                                                                 .sent = nanoseconds(each.sent),
                                                                 .begin = nanoseconds(each.begin),
                                                                 .end = nanoseconds(each.end),
                                                                 .step = each.step,
                                                                 .slot = each.slot,
                                                                 .slots = each.slots,
                                                                 .replica = each.replica});
    }
  }
  std::vector<TraceTrack> tracks;
  for (auto& [name, slices] : by_name) tracks.push_back({name, std::move(slices)});
  return tracks;
}

std::uint64_t Trace::lost() const {
  std::uint64_t lost = 0;
  const Lock lock(rings().mutex);
  for (const auto& ring : rings().all) {
    const Lock ring_lock(ring->mutex);
    lost += ring->lost;
  }
  return lost;
}

}  // namespace millrace
