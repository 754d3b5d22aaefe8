// A queue of the simulated machine: checks each piece of work when it is submitted, and executes it later on its own thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/machine.h"
#include "simulation/simulation.h"
#include "testkit/recording_queue.h"

namespace millrace::cuda {

// A mark: a point in a queue's work. One in a recording refers to that point of the latest launch, and is complete before the
// first.
class SimulatedMark : public Event {
 public:
  // callback_stream: the queue's stream to which the checker attributes callbacks.
  SimulatedMark(std::shared_ptr<Simulation> simulation, int callback_stream, Ref<testkit::RecordedEvent> event)
      : simulation_(std::move(simulation)), callback_stream_(callback_stream), event_(std::move(event)) {}

  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;

  Simulation& simulation() const { return *simulation_; }
  Ref<testkit::RecordedEvent> event() const;  // null: not launched yet
  void keep_time();                           // from now on seconds() returns when it completed
  double seconds() const { return *seconds_; }
  void set(Ref<testkit::RecordedEvent> event);

 private:
  const std::shared_ptr<Simulation> simulation_;  // marks may outlive their machine
  const int callback_stream_;
  mutable std::mutex mutex_;
  Ref<testkit::RecordedEvent> event_;
  std::shared_ptr<std::atomic<double>> seconds_ = std::make_shared<std::atomic<double>>(0);
};

// A piece of work: the memory it touches, and its function.
struct Work {
  std::string name;
  std::vector<Touch> touches;
  std::function<void()> body;
  bool reads_host = false;  // pinned memory, whose bytes must stay
};

// The work submitted between begin and end, in order.
class SimulatedRecording : public Recording {
 public:
  struct SetTime {
    Declaration arena;
    int time = 0;
  };
  std::vector<std::variant<Work, SetTime, Ref<SimulatedMark>>> steps;
  std::map<Declaration, int> times;  // during recording: the current time of each arena
  std::thread::id thread = std::this_thread::get_id();
};

class SimulatedQueue : public Queue {
 public:
  SimulatedQueue(std::shared_ptr<Simulation> simulation, int machine, const std::string& name);
  ~SimulatedQueue() override;

  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void zero(void* to, std::size_t bytes) override;

  void run(const LibraryRun& work) override;
  using Queue::run;
  void run(const Kernel& kernel, const void* element) override;

  Ref<Mark> mark() override;
  Ref<Mark> timed_mark() override;
  void wait(const Ref<Event>& mark) override;

  void begin_recording() override;
  Ref<Mark> recorded_mark() override;
  std::unique_ptr<Recording> end_recording() override;
  void launch(Recording& recording) override;

  void set_time(const Declaration& arena, int time);
  int machine() const { return machine_; }
  void drain();  // waits until all work is complete; the host is ordered after it

 private:
  // Only one thread at a time may be inside a queue's calls; a second one is reported.
  class OneThread {
   public:
    explicit OneThread(SimulatedQueue& queue);
    ~OneThread();
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

   private:
    SimulatedQueue& queue_;
    const bool alone_;
  };
  struct Named {  // memory as named by a kernel
    const void* memory = nullptr;
    std::size_t bytes = 0;
    bool write = false;
    bool on_host = false;
  };
  void submit(const char* name, const std::vector<Named>& memory, std::function<void()> body, bool reads_host = false);
  bool resolve(Work& work, const Named& memory);  // false: no such memory
  void place(const Work& work, Touch& touch);
  void perform(Work work);
  Work still_legal(Work work);
  void execute(const Work& work, std::uint64_t number, const std::vector<Touch>& poison);
  static void garble(const Work& work);
  void report_illegal(Work& work, const std::string& why);
  void wait_in_recording(const Ref<Event>& mark);
  Ref<testkit::RecordedEvent> record();
  void delay();

  const std::shared_ptr<Simulation> simulation_;
  const int machine_;
  const std::string name_;
  const int stream_, callback_stream_;
  std::atomic_flag busy_;
  std::unique_ptr<SimulatedRecording> recording_;  // the current one
  std::mt19937_64 random_;                         // used by the queue's thread
  testkit::TaskQueue tasks_;                       // last: its thread uses the other members
};

}  // namespace millrace::cuda
