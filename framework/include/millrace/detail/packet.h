// Data on an edge: a sequence number, a trace stamp, and one reference-counted payload.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace millrace {

// Base of all payloads. Reference-counted: releasing the last Ref calls recycle() on that thread. A pooled payload overrides
// recycle() to return to its pool instead of being deleted; that is how a credit returns.
class Payload {
 public:
  Payload() = default;
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  virtual ~Payload() = default;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) recycle();
  }

 protected:
  // Called when no reference is left; the object may be reused at once. Must not throw or block.
  virtual void recycle() noexcept { delete this; }

 private:
  std::atomic<std::uint32_t> references_{0};
};

// Shared ownership of a payload, as large as a pointer. A Ref object must not be shared between threads.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(Ref<U> other) : object_(other.detach()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* detach() { return std::exchange(object_, nullptr); }  // the caller takes over the reference
  static Ref adopt(T* object) {                            // takes over the caller's reference
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  friend bool operator==(const Ref&, const Ref&) = default;

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

// Names of payload types, as declared by ports. A port carries exactly one type; the plan refuses an edge whose ends differ.
// Plugins may name types of their own.
namespace payload {
inline constexpr std::string_view kSampleChunk = "SampleChunk";        // consecutive slots of a Batch, encoded bytes read
inline constexpr std::string_view kImageChunk = "ImageChunk";          // consecutive slots of a Batch, pixels decoded
inline constexpr std::string_view kBatch = "Batch";                    // one global step's samples, complete
inline constexpr std::string_view kGradientBucket = "GradientBucket";  // a contiguous slice of one replica's gradients
inline constexpr std::string_view kStepResult = "StepResult";          // loss and metrics of one step on one replica
inline constexpr std::string_view kPredictions = "Predictions";        // outputs for a replica's share of a batch (batch.h)
}  // namespace payload

// REQUIRES: a stage that forwards a packet keeps all its fields; it may replace the payload.
struct Packet {
  Ref<Payload> payload;
  std::uint64_t sequence = 0;  // the global step; for a chunk, its batch's step
  std::uint64_t stamp = 0;     // send time (telemetry's clock ticks); written by the graph
  std::uint32_t begin = 0;     // for a chunk: its first slot in the batch
  std::uint32_t count = 0;     // for a chunk: its number of slots
  // For stepwise stages: the sums of Stage::weigh() over all replicas of all processes. Valid while `token` is held.
  std::span<const double> weights = {};
  std::int32_t replica = -1;  // sent only to this replica's instance of a stage; -1: to all
  // The StepToken, in packets from the graph to a stepwise stage; null in all others. The next step begins when the last Ref to
  // it is released. Work that the next step must wait for holds a copy, as a GradientBucket does. A stage without a copy is done
  // when process() returns. A stage must not keep a copy beyond its step.
  Ref<Payload> token;
};

}  // namespace millrace
