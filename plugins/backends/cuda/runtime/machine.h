// This backend's interface to a GPU: memory, queues of work, and marks in them. device/ implements it with CUDA;
// tests/gpu/simulation simulates a GPU on the host: late, in any order that the marks allow, and reporting accesses that no mark
// orders.
//
// A replica is written only against this page, so everything that the simulation proves about it (every wait, every lifetime,
// every result) holds on the device, apart from the kernels of device/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/elements.h"
#include "kernels/kernel.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/engine_choices.h"

namespace millrace::cuda {

// ---- What libraries compute: convolutions and matrix products ----

// Maps are (n, h, w, pitch) channels last; rows have pitch_of(c) or pitch_of(k) channels, with zeros after the first c or k.
// Weights are (k, kernel_h, kernel_w, c / groups) with c and k rounded up to pitches when groups == 1 or groups == c == k.
struct ConvolutionShape {
  enum class Kind : std::uint8_t {
    forward,          // y = activation(x * w + bias)
    data_gradient,    // x = gradient by x from y (the gradient by y) and w
    weight_gradient,  // w (float32) = gradient by w from x and y (the gradient by y)
  };
  Kind kind = Kind::forward;
  DataType type = DataType::f32;  // type of x, y, and of w except in a weight gradient
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t k = 0, out_h = 0, out_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;
  std::int64_t groups = 1;
  bool bias = false;                         // forward only; float32, pitch_of(k)
  Activation activation = Activation::none;  // forward only
  bool tf32 = false;                         // f32 only: inputs may be rounded to 10 bits of mantissa
  bool accumulate = false;                   // data_gradient only: the result is added to x

  friend bool operator==(const ConvolutionShape&, const ConvolutionShape&) = default;
};

// Matrices of rows: x (rows, in), y (rows, out), w (out, in), all without gaps; in and out are pitches. y is `result` in forward
// and `type` in the gradients; a weight gradient is float32.
struct LinearShape {
  ConvolutionShape::Kind kind = ConvolutionShape::Kind::forward;
  DataType type = DataType::f32;    // type of x, w, and of y in the gradients
  DataType result = DataType::f32;  // type of y in forward
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
  Activation activation = Activation::none;
  bool tf32 = false;  // as in convolutions

  friend bool operator==(const LinearShape&, const LinearShape&) = default;
};

// A library's way to compute one of these: chosen once, run repeatedly, from any queue of the machine that made it.
class LibraryPlan {
 public:
  virtual ~LibraryPlan() = default;
  virtual std::size_t workspace() const = 0;  // bytes needed by run(); 256-byte aligned
  virtual std::string engine() const = 0;     // for profiles and messages
  // The engine and all inputs of its choice, in one line: knowledge about one does not apply to another.
  virtual std::string identity() const { return engine(); }
};

// How plans are chosen.
struct PlanChoice {
  Tune tune = Tune::heuristic;
  bool deterministic = true;
  std::string saved;  // result of plans() in another run: has priority

  static PlanChoice of(const CompileOptions& options) { return {options.tune, options.deterministic, options.plans}; }
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

struct LibraryRun {
  const LibraryPlan* plan = nullptr;
  void *x = nullptr, *w = nullptr, *y = nullptr;  // the kind determines which one is written
  const float* bias = nullptr;
  void* workspace = nullptr;
};

// ---- Queues ----

// A point in a queue's work; complete when the work before it is complete.
using Mark = Event;

// Work recorded once and launched repeatedly with the same pointers (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

// In order; one thread at a time. Nothing here waits for the device. Pointers are device memory unless named host.
class Queue {
 public:
  virtual ~Queue() = default;

  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;  // host memory must stay until completion
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* to, std::size_t bytes) = 0;

  virtual void run(const LibraryRun& work) = 0;
  virtual void run(const Kernel& kernel, const void* element) = 0;  // the element is copied
  template <class Element>
  void run(const Element& element) {
    run(kernel_of<Element>, &element);
  }

  virtual Ref<Mark> mark() = 0;
  virtual Ref<Mark> timed_mark() = 0;             // for Machine::seconds_between(); not within a recording
  virtual void wait(const Ref<Event>& mark) = 0;  // null: does nothing

  // Between begin and end nothing runs: submitted work becomes a Recording. recorded_mark() replaces mark(): a mark set again by
  // each launch, for other queues to wait for after the launch. The host's queries then refer to the latest launch, and may only
  // succeed at its end.
  virtual void begin_recording() = 0;
  virtual Ref<Mark> recorded_mark() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  virtual void launch(Recording& recording) = 0;
};

// ---- The machine ----

// Tensors' places in an arena and lifetimes, for a checking machine.
struct ArenaTensor {
  std::size_t offset = 0, bytes = 0;
  int first = 0, last = 0;
  std::string name;

  friend bool operator==(const ArenaTensor&, const ArenaTensor&) = default;
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual const DeviceInfo& info() const = 0;

  // DeviceOptions::warn. Call set_warn() before anything else.
  void set_warn(std::function<void(std::string_view message)> warn) { warn_ = std::move(warn); }
  void warn(std::string_view message) const { warn_(message); }

  // Zeroed, aligned to 256 bytes. Throws Error(device) with `what`, this program's allocations and the free memory.
  virtual std::byte* allocate(std::size_t bytes, const std::string& what) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  virtual std::byte* allocate_host(std::size_t bytes) = 0;  // pinned; zeroed
  virtual void release_host(std::byte* memory) noexcept = 0;
  virtual std::size_t free_memory() = 0;
  // True if elements can read this device memory; copies can access any.
  virtual bool reaches(const void* /*memory*/) { return true; }

  virtual std::unique_ptr<Queue> make_queue(const std::string& name) = 0;

  // Throw Error(usage) if the library has no engine. Plans of equal shapes and choices are made once.
  virtual std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape& shape, const PlanChoice& how) = 0;
  virtual std::shared_ptr<const LibraryPlan> plan(const LinearShape& shape, const PlanChoice& how) = 0;
  virtual std::string plans(const PlanChoice& how) = 0;  // choices made this way so far (plan_record.h)
  virtual EngineChoices& choices() = 0;                  // of this model, shared by its machines

  // By the device's clock. REQUIRES: timed marks of this machine, complete.
  virtual double seconds_between(const Event& first, const Event& second) = 0;

  virtual void finish() = 0;  // waits for all queues; throws Error(device) if work on the device has failed
  virtual void* native(const std::string& /*api*/) { return nullptr; }

  virtual bool checks() const { return false; }  // false: the calls below do nothing
  // The host reads or writes pinned memory that queues copy from or to. For checking machines.
  virtual void host_access(const void* /*host*/, std::size_t /*bytes*/, bool /*write*/) {}
  // The tensors of an arena alive from now on (queue's later work belongs to `time` of the plan). For checking machines.
  virtual void declare_arena(const std::byte* /*arena*/, std::vector<ArenaTensor> /*tensors*/) {}
  virtual void set_time(Queue& /*queue*/, const std::byte* /*arena*/, int /*time*/) {}

 private:
  std::function<void(std::string_view message)> warn_ = print_warning;
};

// Pinned host memory, released by the destructor.
class HostMemory {
 public:
  HostMemory(Machine& machine, std::size_t bytes) : machine_(machine), data_(machine.allocate_host(bytes)), bytes_(bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { machine_.release_host(data_); }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Machine& machine_;
  std::byte* data_;
  std::size_t bytes_;
};

// Device memory, released by the destructor.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Machine& machine, std::size_t bytes, const std::string& what)
      : machine_(&machine), data_(bytes == 0 ? nullptr : machine.allocate(bytes, what)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(machine_, other.machine_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) machine_->release(data_);
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Machine* machine_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Copies to device memory through pinned memory of its own, and waits.
inline void upload(Machine& machine, Queue& queue, void* device, std::span<const float> values) {
  const HostMemory host(machine, values.size_bytes());
  machine.host_access(host.data(), host.bytes(), true);
  std::memcpy(host.data(), values.data(), host.bytes());
  queue.copy_in(device, host.data(), host.bytes());
  queue.mark()->wait();
}

}  // namespace millrace::cuda
