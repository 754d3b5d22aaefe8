// The compiled networks of one replica: for training in each of its phases (learning_phases.h) and for inference, each for full
// batches and for some smaller counts of samples. Those for full batches of the first phase are compiled at once, all others when
// they are first used.
//
// Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/error.h"

namespace millrace {

// Executable: a backend's class with `std::size_t arena_bytes() const` and `std::vector<LayerTime> layer_times() const`.
template <class Executable>
class Executables {
 public:
  // Identifies an executable.
  struct Use {
    std::uint32_t samples = 0;
    bool training = false;
    std::size_t phase = 0;  // training phase

    friend auto operator<=>(const Use&, const Use&) = default;
  };
  using Make = std::function<std::unique_ptr<Executable>(const Use& use)>;

  // Compiles those for full batches.
  void compile(const CompileOptions& options, Make make) {
    make_ = std::move(make);
    most_ = {options.infer_batch, options.train_batch};
    for (const bool training : {true, false}) {
      if (most_[training] > 0) add({most_[training], training});
    }
  }

  // Largest requirement so far. Executables that never run at the same time may share an arena.
  std::size_t arena_bytes() const { return arena_bytes_; }

  // Returns the executable for `use`, and whether it is new. Calls `forgetting()` before it destroys others. Throws Error(usage)
  // for more samples than the network was compiled for.
  template <class Forgetting>
  std::pair<Executable&, bool> get(const Use& use, const Forgetting& forgetting) {
    const std::uint32_t most = most_[use.training];
    if (use.samples > most) {
      fail(ErrorKind::usage, "a batch of {} samples for {}: the network was compiled for at most {}", use.samples,
           use.training ? "training" : "inference", most);
    }
    if (const auto found = kept_.find(use); found != kept_.end()) return {*found->second, false};
    const auto is_partial = [&](const auto& entry) {
      return entry.first.training == use.training && entry.first.samples != most;
    };
    if (std::count_if(kept_.begin(), kept_.end(), is_partial) >= kMaxPartialCounts) {
      forgetting();
      std::erase_if(kept_, is_partial);
    }
    return {add(use), true};
  }

  // Null if the network was not compiled for it.
  Executable* full(bool training) const { return most_[training] > 0 ? kept_.at({most_[training], training}).get() : nullptr; }

  // Summed over the training executables for full batches; else those of the inference executable. See Replica::layer_times().
  std::vector<LayerTime> layer_times() const {
    std::vector<LayerTime> sum;
    const bool training = most_[true] > 0;
    for (const auto& [use, executable] : kept_) {
      if (use.training != training || use.samples != most_[training]) continue;
      std::vector<LayerTime> times = executable->layer_times();
      if (sum.empty()) {
        sum = std::move(times);
        continue;
      }
      for (std::size_t i = 0; i < times.size(); ++i) {
        sum[i].forward += times[i].forward;
        sum[i].backward += times[i].backward;
        sum[i].passes += times[i].passes;
      }
    }
    return sum;
  }

  template <class Call>
  void each(const Call& call) const {
    for (const auto& [use, executable] : kept_) call(*executable);
  }

 private:
  static constexpr std::ptrdiff_t kMaxPartialCounts = 8;

  Executable& add(const Use& use) {
    Executable& made = *(kept_[use] = make_(use));
    arena_bytes_ = std::max(arena_bytes_, made.arena_bytes());
    return made;
  }

  Make make_;
  std::array<std::uint32_t, 2> most_{};  // by `training`
  std::map<Use, std::unique_ptr<Executable>> kept_;
  std::size_t arena_bytes_ = 0;
};

}  // namespace millrace
