// The compiled networks of one replica: for training and for inference, each for full batches and for some smaller counts of
// samples, which are compiled when they first come.
//
// Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "millrace/backend.h"
#include "millrace/error.h"

namespace millrace {

// Executable: a backend's; has `std::size_t arena_bytes() const` and `std::vector<LayerTime> layer_times() const`.
template <class Executable>
class Executables {
 public:
  using Make = std::function<std::unique_ptr<Executable>(std::uint32_t samples, bool training)>;

  // Those for full batches.
  void compile(const CompileOptions& options, Make make) {
    make_ = std::move(make);
    most_ = {options.infer_batch, options.train_batch};
    for (const bool training : {true, false}) {
      if (most_[training] > 0) add(most_[training], training);
    }
  }

  // What the largest so far wants. Executables that never run at the same time may share an arena.
  std::size_t arena_bytes() const { return arena_bytes_; }

  // The one for `count` samples, and whether it is new. `forgetting()` is called before others are destroyed. Throws
  // Error(usage) for more than the network was compiled for.
  template <class Forgetting>
  std::pair<Executable&, bool> get(std::uint32_t count, bool training, const Forgetting& forgetting) {
    auto& kept = kept_[training];
    if (count > most_[training]) {
      fail(ErrorKind::usage, "a batch of {} samples for {}: the network was compiled for at most {}", count,
           training ? "training" : "inference", most_[training]);
    }
    if (const auto found = kept.find(count); found != kept.end()) return {*found->second, false};
    if (kept.size() > kMostPartialCounts) {
      forgetting();
      std::erase_if(kept, [&](const auto& entry) { return entry.first != most_[training]; });
    }
    return {add(count, training), true};
  }

  // Null: the network was not compiled for it.
  Executable* full(bool training) const { return most_[training] > 0 ? kept_[training].at(most_[training]).get() : nullptr; }

  // Of the one for full batches that trains, or else of the one that infers; see Replica::layer_times().
  std::vector<LayerTime> layer_times() const {
    const Executable* timed = full(most_[true] > 0);
    return timed == nullptr ? std::vector<LayerTime>() : timed->layer_times();
  }

  template <class Use>
  void each(const Use& use) const {
    for (const bool training : {true, false}) {
      for (const auto& [count, executable] : kept_[training]) use(*executable);
    }
  }

 private:
  static constexpr std::size_t kMostPartialCounts = 8;

  Executable& add(std::uint32_t count, bool training) {
    Executable& made = *(kept_[training][count] = make_(count, training));
    arena_bytes_ = std::max(arena_bytes_, made.arena_bytes());
    return made;
  }

  Make make_;
  std::array<std::uint32_t, 2> most_{};                                       // by `training`
  std::array<std::map<std::uint32_t, std::unique_ptr<Executable>>, 2> kept_;  // by `training`
  std::size_t arena_bytes_ = 0;
};

}  // namespace millrace
