// The compiled networks of one replica: for training in each of its phases (learning_phases.h) and for inference, each for full
// batches and for some smaller counts of samples. Those for full batches of the first phase are compiled at once, all others when
// they are first used. They share memory, since no two of them run at the same time.
//
// Threading: one thread at a time; arena_bytes() from any thread after compile().
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/fusion.h"
#include "millrace/backend/learning_phases.h"
#include "millrace/error.h"

namespace millrace {

// Executable: a backend's class, made from (CompileContext&, const std::vector<Node>&, samples, training), with arena_bytes(),
// bind(std::byte* arena), layer_times(), and this type CompileContext, whose with(network) is the same for another network.
template <class Executable>
class Executables {
 public:
  using CompileContext = typename Executable::CompileContext;

  Executables(const Network& network, const CompileOptions& options)
      : phases_(network, options.request), most_{options.infer_batch, options.train_batch} {}
  Executables(const Executables&) = delete;
  Executables& operator=(const Executables&) = delete;

  const Network& network() const { return phases_.network(0); }  // the first phase's

  // Compiles those for full batches. `context`: the first phase's. `training`, `inference`: the nodes of each.
  void compile(CompileContext context, std::vector<Node> training, std::vector<Node> inference) {
    contexts_.push_back(std::move(context));
    nodes_ = {std::move(inference), std::move(training)};
    for (const bool trains : {true, false}) {
      if (most_[trains] > 0) add({most_[trains], trains});
    }
  }

  CompileContext& context() { return contexts_.front(); }  // for the first phase and for inference
  const CompileContext& context() const { return contexts_.front(); }
  const std::vector<Node>& nodes(bool training) const { return nodes_[training]; }
  std::size_t arena_bytes() const { return arena_bytes_; }  // the largest so far

  // pause(): waits for all submitted work. Called before an executable is compiled, since others are destroyed then, and
  // libraries may measure. arena(bytes): memory for all executables, called again for new ones, which may need more.
  void start(std::function<void()> pause, std::function<std::byte*(std::size_t bytes)> arena) {
    pause_ = std::move(pause);
    arena_of_ = std::move(arena);
    bind(arena_of_(arena_bytes_));
  }
  void bind(std::byte* arena) {
    arena_ = arena;
    for (const auto& [use, executable] : kept_) executable->bind(arena);
  }

  // ---- After start(). Throw Error(usage) for more samples than the network was compiled for ----
  Executable& training(std::uint32_t samples, std::uint64_t epoch) { return get({samples, true, phases_.at(epoch)}); }
  Executable& inference(std::uint32_t samples) { return get({samples, false}); }
  // For full batches; null if the network was not compiled for them.
  Executable* full_training(std::uint64_t epoch) { return most_[true] > 0 ? &training(most_[true], epoch) : nullptr; }
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

 private:
  static constexpr std::ptrdiff_t kMaxPartialCounts = 8;

  // Identifies an executable.
  struct Use {
    std::uint32_t samples = 0;
    bool training = false;
    std::size_t phase = 0;

    friend auto operator<=>(const Use&, const Use&) = default;
  };

  Executable& get(const Use& use) {
    const std::uint32_t most = most_[use.training];
    if (use.samples > most) {
      fail(ErrorKind::usage, "a batch of {} samples for {}: the network was compiled for at most {}", use.samples,
           use.training ? "training" : "inference", most);
    }
    if (const auto found = kept_.find(use); found != kept_.end()) return *found->second;
    pause_();
    const auto is_partial = [&](const auto& entry) {
      return entry.first.training == use.training && entry.first.samples != most;
    };
    if (std::count_if(kept_.begin(), kept_.end(), is_partial) >= kMaxPartialCounts) std::erase_if(kept_, is_partial);
    Executable& made = add(use);
    // A library may want more memory for fewer samples, but hardly ever does.
    if (std::byte* const arena = arena_of_(arena_bytes_); arena != arena_)
      bind(arena);
    else
      made.bind(arena);
    return made;
  }

  Executable& add(const Use& use) {
    while (contexts_.size() <= use.phase) contexts_.push_back(context().with(phases_.network(contexts_.size())));
    auto made = std::make_unique<Executable>(contexts_[use.phase], nodes_[use.training], use.samples, use.training);
    arena_bytes_ = std::max(arena_bytes_, made->arena_bytes());
    return *(kept_[use] = std::move(made));
  }

  const LearningPhases phases_;
  std::array<std::uint32_t, 2> most_;       // by `training`
  std::array<std::vector<Node>, 2> nodes_;  // by `training`
  std::deque<CompileContext> contexts_;     // by phase, for the phases begun
  std::map<Use, std::unique_ptr<Executable>> kept_;
  std::size_t arena_bytes_ = 0;
  std::byte* arena_ = nullptr;
  std::function<void()> pause_;
  std::function<std::byte*(std::size_t)> arena_of_;
};

}  // namespace millrace
