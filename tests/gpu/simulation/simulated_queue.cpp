#include "simulation/simulated_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "simulation/library_loops.h"

namespace millrace::cuda {

using testkit::RecordedEvent;

SimulatedQueue::OneThread::OneThread(SimulatedQueue& queue) : queue_(queue), alone_(!queue.busy_.test_and_set()) {
  if (!alone_) queue.simulation_->report("two threads in a queue", queue.name_, "another thread submits to it just now");
}

SimulatedQueue::OneThread::~OneThread() {
  if (alone_) queue_.busy_.clear();
}

// This class has its own delays: a sleep before every piece of work would make thousands of steps take forever.
SimulatedQueue::SimulatedQueue(std::shared_ptr<Simulation> simulation, int machine, const std::string& name)
    : simulation_(std::move(simulation)),
      machine_(machine),
      name_(name),
      stream_(simulation_->checker().add_stream()),
      callback_stream_(simulation_->checker().add_stream()),
      random_(simulation_->options().seed * 1000 + static_cast<std::uint64_t>(stream_)),
      tasks_(0, std::chrono::microseconds(0)) {
  simulation_->add_queue(*this);
}

SimulatedQueue::~SimulatedQueue() {
  simulation_->remove_queue(*this);
  if (recording_ && recording_->thread == std::this_thread::get_id()) --recordings_of_this_thread;
}

void SimulatedQueue::drain() {
  const testkit::Clock clock = simulation_->checker().now(stream_);
  tasks_.drain();
  simulation_->checker().seen_by_host(clock);
}

void SimulatedQueue::delay() {
  const SimulationOptions& options = simulation_->options();
  const auto longest = static_cast<std::uint64_t>(options.longest_delay.count());
  if (longest == 0 || options.delay_one_in == 0 || random_() % options.delay_one_in != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % (longest + 1)));
}

// ---- Copies and library work ----

// Memory that is not pinned is read before the call returns, as in CUDA. A recording would read it at every launch instead.
void SimulatedQueue::copy_in(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  const auto write = Named{device, bytes, true, false};
  if (simulation_->allocations().find(host))
    return submit(
        "copy in", {write, {host, bytes, false, true}}, [=] { std::memcpy(device, host, bytes); }, true);
  if (recording_) simulation_->report("inside a recording", name_ + ".copy in", "memory of the host that is not pinned");
  const auto* first = static_cast<const std::byte*>(host);
  const auto staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
  submit("copy in", {write}, [device, staged] { std::memcpy(device, staged->data(), staged->size()); });
}

void SimulatedQueue::copy_out(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  if (const std::shared_ptr<Allocation> pinned = simulation_->allocations().find(host)) pinned->set_written_by_queues();
  submit("copy out", {{device, bytes, false, false}, {host, bytes, true, true}}, [=] { std::memcpy(host, device, bytes); });
}

void SimulatedQueue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  submit("copy", {{from, bytes, false, false}, {to, bytes, true, false}}, [=] { std::memmove(to, from, bytes); });
}

void SimulatedQueue::zero(void* to, std::size_t bytes) {
  if (bytes == 0) return;
  submit("zero", {{to, bytes, true, false}}, [=] { std::memset(to, 0, bytes); });
}

void SimulatedQueue::run(const LibraryRun& work) {
  const auto* plan = dynamic_cast<const LoopPlan*>(work.plan);
  if (plan == nullptr) fail(ErrorKind::device, "{}: the library's plan is not of this machine", name_);
  std::vector<Named> memory;
  for (const LoopPlan::Use& use : plan->uses(work)) memory.push_back({use.memory, use.bytes, use.write, false});
  submit(plan->name(), memory, [held = plan->shared_from_this(), work] { held->execute(work); });
}

// ---- From a call to a piece of work ----

void SimulatedQueue::submit(const char* name, const std::vector<Named>& memory, std::function<void()> body, bool reads_host) {
  const OneThread alone(*this);
  simulation_->begin_call(machine_, name_ + "." + name);
  Work work{name_ + "." + name, {}, std::move(body), reads_host};
  for (const Named& named : memory)
    if (named.bytes > 0 && !resolve(work, named)) break;
  for (Touch& touch : work.touches) place(work, touch);
  if (recording_) {
    recording_->steps.emplace_back(std::move(work));
  } else {
    perform(std::move(work));
  }
}

bool SimulatedQueue::resolve(Work& work, const Named& named) {
  Touch touch;
  touch.memory = simulation_->allocations().find(named.memory);
  touch.write = named.write;
  if (!touch.memory) {
    if (named.on_host) return true;  // the program's own memory
    report_illegal(work, fmt::format("{} bytes at {} are not memory of a device", named.bytes, named.memory));
    return false;
  }
  if (!simulation_->options().peer_access && !named.on_host && touch.memory->machine() != machine_ &&
      !work.name.ends_with(".copy")) {
    report_illegal(work,
                   fmt::format("'{}' lies on machine {}, without peer access", touch.memory->name(), touch.memory->machine()));
    return false;
  }
  touch.begin = static_cast<std::size_t>(static_cast<const std::byte*>(named.memory) - touch.memory->data());
  touch.end = touch.begin + named.bytes;
  if (touch.memory->on_host() != named.on_host || touch.end > touch.memory->bytes()) {
    report_illegal(work, fmt::format("bytes {}..{} of '{}', which is {} bytes of {} memory", touch.begin, touch.end,
                                     touch.memory->name(), touch.memory->bytes(), touch.memory->on_host() ? "host" : "device"));
    return false;
  }
  work.touches.push_back(std::move(touch));
  return true;
}

void SimulatedQueue::report_illegal(Work& work, const std::string& why) {
  simulation_->report("illegal address", work.name, why);
  work.touches.clear();
  work.body = [name = work.name, why] { fail(ErrorKind::device, "{}: illegal address: {}", name, why); };
}

void SimulatedQueue::place(const Work& work, Touch& touch) {
  touch.arena = simulation_->arena_of(*touch.memory, touch.begin);
  if (!touch.arena) return;
  std::optional<int> time = simulation_->time(touch.arena, stream_);
  if (recording_ && recording_->times.count(touch.arena) > 0) time = recording_->times.at(touch.arena);
  if (time) touch.tensor = tensor_at(*touch.arena, *time, touch.begin, touch.end);
  if (touch.tensor != kNoTensor) return;
  const std::size_t begin = touch.arena->begin;
  const std::string when = time ? fmt::format("at time {}", *time) : "at no time that was set";
  simulation_->report(
      "wrong lifetime", work.name,
      fmt::format("{} bytes {}..{} of '{}' {}, where there is {}", touch.write ? "writes" : "reads", touch.begin - begin,
                  touch.end - begin, touch.arena->name, when, tensors_near(*touch.arena, touch.begin, touch.end)));
}

// ---- From a piece of work to its completion ----

void SimulatedQueue::perform(Work work) {
  const std::uint64_t number = simulation_->next(Count::operations);
  simulation_->note_traffic(work.name, work.touches);
  const std::vector<Touch> poison = simulation_->note_contents(work.touches, work.name, number);
  std::vector<testkit::Access> accesses;
  for (const Touch& touch : work.touches) accesses.push_back({touch.memory->name(), touch.begin, touch.end, touch.write});
  simulation_->checker().submit(stream_, {work.name, number, -1, -1}, accesses);

  const auto is_source = [](const Touch& touch) { return touch.memory->on_host() && !touch.memory->written_by_queues(); };
  const auto source = std::find_if(work.touches.begin(), work.touches.end(), is_source);
  if (work.reads_host && source != work.touches.end()) {
    const std::byte* begin = source->memory->data() + source->begin;
    work.body = [this, begin, expected = std::vector<std::byte>(begin, begin + (source->end - source->begin)),
                 memory = source->memory, name = work.name, number, copy = std::move(work.body)] {
      if (!std::equal(expected.begin(), expected.end(), begin)) {
        const std::string what = fmt::format("bytes of '{}' changed after the call and before they were read", memory->name());
        simulation_->report("buffer reused in flight", name, what, number);
      }
      copy();
    };
  }
  tasks_.submit([this, work = std::move(work), number, poison] { execute(work, number, poison); });
}

void SimulatedQueue::garble(const Work& work) {
  for (const Touch& touch : work.touches) {
    if (touch.write) std::memset(touch.memory->data() + touch.begin, 0x3C, touch.end - touch.begin);
  }
}

void SimulatedQueue::execute(const Work& work, std::uint64_t number, const std::vector<Touch>& poison) {
  if (simulation_->failed()) return;
  delay();
  const std::scoped_lock alone(simulation_->one_at_a_time());
  try {
    if (number == simulation_->options().fail_operation)
      fail(ErrorKind::device, "cuda:{}: {} (work {}) failed", machine_, work.name, number);
    for (const Touch& touch : poison) {
      const std::size_t end = std::min(touch.end, touch.memory->bytes());  // a planted fault may have moved the tensor
      if (touch.begin < end) std::memset(touch.memory->data() + touch.begin, 0xFF, end - touch.begin);
    }
    if (simulation_->options().computes) work.body();
    if (!simulation_->options().garble.empty() && work.name.ends_with("." + simulation_->options().garble)) garble(work);
  } catch (...) {
    simulation_->fail_work(current_error());
  }
}

// ---- Marks ----

Ref<RecordedEvent> SimulatedQueue::record() {
  simulation_->begin_call(machine_, name_ + ".mark");
  auto event = make_ref<RecordedEvent>(simulation_->checker(), simulation_->checker().now(stream_));
  tasks_.submit_always([this, event] {
    if (!simulation_->failed()) delay();
    const std::optional<Error> failure = simulation_->failure();
    event->signal(failure ? &*failure : nullptr);
  });
  return event;
}

Ref<Mark> SimulatedQueue::mark() {
  const OneThread alone(*this);
  if (!recording_) return make_ref<SimulatedMark>(simulation_, callback_stream_, record());
  simulation_->report("inside a recording", name_ + ".mark", "recorded_mark() is what a launch sets");
  return make_ref<SimulatedMark>(simulation_, callback_stream_, Ref<RecordedEvent>());
}

Ref<Mark> SimulatedQueue::timed_mark() {
  const OneThread alone(*this);
  if (recording_) simulation_->report("inside a recording", name_ + ".timed_mark", "it would be set once, not by each launch");
  auto mark = make_ref<SimulatedMark>(simulation_, callback_stream_, record());
  mark->keep_time();
  mark->set(record());  // complete only when the time is known: the first one's callbacks come after its completion
  return mark;
}

void SimulatedQueue::wait(const Ref<Event>& mark) {
  const OneThread alone(*this);
  if (!mark || simulation_->strikes(Count::waits, simulation_->options().leave_out_wait)) return;
  if (recording_) return wait_in_recording(mark);
  const auto* ours = dynamic_cast<const SimulatedMark*>(mark.get());
  simulation_->begin_call(machine_, name_ + ".wait");
  if (ours == nullptr || &ours->simulation() != simulation_.get()) {
    tasks_.submit_always([this, mark] {
      try {
        mark->wait();
      } catch (...) {  // of another device: what comes here would compute with what was not written
        simulation_->fail_work(current_error());
      }
    });
  } else if (const Ref<RecordedEvent> event = ours->event()) {
    simulation_->checker().wait(stream_, event->clock());
    tasks_.submit_always([event] { event->wait_as_device(); });
  }
}

void SimulatedQueue::wait_in_recording(const Ref<Event>& mark) {
  for (const auto& step : recording_->steps) {
    const auto* own = std::get_if<Ref<SimulatedMark>>(&step);
    if (own != nullptr && own->get() == mark.get()) return;  // this queue is in order anyway
  }
  simulation_->report("inside a recording", name_ + ".wait", "the mark lies outside: no launch would wait for it");
}

void SimulatedQueue::set_time(const Declaration& arena, int time) {
  const OneThread alone(*this);
  if (recording_) {
    recording_->steps.emplace_back(SimulatedRecording::SetTime{arena, time});
    recording_->times[arena] = time;
  } else {
    simulation_->set_time(arena, stream_, time);
  }
}

// Our kernels report the memory that they touch, and run the same code.
void SimulatedQueue::run(const Kernel& kernel, const void* element) {
  std::vector<Named> memory;
  for (const MemoryUse& use : kernel.uses(element)) memory.push_back({use.memory, use.bytes, use.write, false});
  const auto* first = static_cast<const std::byte*>(element);
  const auto copied = std::make_shared<const std::vector<std::byte>>(first, first + kernel.bytes);
  submit(kernel.name, memory, [&kernel, copied] { kernel.run_on_host(copied->data(), 0, kernel.units(copied->data())); });
}

// ---- Marks ----

Ref<RecordedEvent> SimulatedMark::event() const {
  const std::scoped_lock lock(mutex_);
  return event_;
}

void SimulatedMark::set(Ref<RecordedEvent> event) {
  const std::scoped_lock lock(mutex_);
  event_ = std::move(event);
}

void SimulatedMark::keep_time() {
  event()->then([seconds = seconds_](const Error*) {
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
}

bool SimulatedMark::complete() const {
  simulation_->refuse_in_recording("Mark::complete");
  const Ref<RecordedEvent> now = event();
  return !now || now->complete();
}

void SimulatedMark::wait() const {
  simulation_->refuse_in_recording("Mark::wait");
  if (simulation_->strikes(Count::host_waits, simulation_->options().leave_out_host_wait)) return;
  if (const Ref<RecordedEvent> now = event()) now->wait();
}

void SimulatedMark::then(Callback done) {
  simulation_->refuse_in_recording("Mark::then");
  const Ref<RecordedEvent> now = event();
  if (simulation_->strikes(Count::callbacks, simulation_->options().call_back_early) || !now) return done(nullptr);
  now->then(
      [simulation = simulation_, stream = callback_stream_, clock = now->clock(), call = std::move(done)](const Error* failure) {
        const CallbackScope scope(simulation->checker(), stream, clock);
        call(failure);
      });
}

}  // namespace millrace::cuda
