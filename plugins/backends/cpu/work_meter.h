// Measures how long a replica's thread has worked, by kind of work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "millrace/backend/device_times.h"
#include "millrace/util/telemetry.h"

namespace millrace::cpu {

enum class Work { none, training, inference, update, copying, sums };

// One thread writes; any thread reads.
class WorkMeter {
 public:
  void begin(Work work);
  DeviceTimes times() const;

  // Counts as `work` while this lives; then the previous work resumes.
  class Piece {
   public:
    Piece(WorkMeter& meter, Work work) : meter_(meter), then_(meter.now_) { meter.begin(work); }
    ~Piece() { meter_.begin(then_); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    void then(Work work) { then_ = work; }  // resumes this one instead

   private:
    WorkMeter& meter_;
    Work then_;
  };

 private:
  static constexpr std::size_t kKinds = 6;
  std::array<std::atomic<std::uint64_t>, kKinds> ticks_{};
  std::atomic<std::uint64_t> since_{0}, changes_{0};  // `changes_` is odd while begin() writes
  std::atomic<Work> now_{Work::none};
};

}  // namespace millrace::cpu
