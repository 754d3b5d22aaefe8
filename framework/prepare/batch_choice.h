// The size of batches, where the file leaves it to the run: one size for all graphs that do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/group.h"
#include "stages/build.h"

namespace millrace {

// Gives the graphs sizes, and has a function of the caller's try them.
class BatchChoice {
 public:
  // Makes what a run holds with the batches that the graphs have now, and keeps it where it fits. Returns what is lacking; "": it
  // fits. An Error of a device counts as what does not fit: a batch may be too large for a kernel.
  using Compile = std::function<std::string()>;

  // `group`: the processes that run the pipeline together, all of which choose; null: there are none. All of it outlives this.
  BatchChoice(const Builds& builds, Group* group, Compile compile);

  static bool is_open(const Builds& builds);       // some graph leaves its size to the run
  static std::string place(const Builds& builds);  // the first one that does, for messages. REQUIRES: is_open(builds)

  // The size that a resumed run began with. Throws Error(usage) where it does not fit now.
  void keep(std::uint32_t size);
  // The largest multiple of `least` that fits, as far as largest_batch() finds one, and no more than the samples that a graph
  // has. Throws Error(usage), or what the device has thrown, where none fits.
  void choose(std::uint32_t least);

  const std::string& text() const { return text_; }  // a line that says what was chosen, and why it is no larger

 private:
  void set(std::uint32_t size);
  bool fits(std::uint32_t size);
  std::uint32_t agreed(std::uint32_t mine) const;
  std::uint64_t most_samples() const;

  const Builds& builds_;
  Group* const group_;
  const Compile compile_;
  std::string lack_, text_;       // why the size that was tried last does not fit
  std::optional<Error> refused_;  // and what a device has thrown for it
};

// The size of batches with which the run of a checkpoint began, which the graphs take over where they leave it open; 0: none
// does. `then`: the checkpoint's pipeline. A resumed run keeps its batches, whatever memory there is now.
std::uint32_t take_batch_size(const Builds& builds, const Value& then);

// Makes a batch that is larger than all samples as large as they are, where it is kept when it is not full: the rest would be
// memory that nothing fills. It stays as it is where a replica would have no share of it, and where the graph trains, since the
// size then also says how much a replica computes and by what learning rates are scaled.
void limit_batch(GraphBuild& build, std::size_t replicas, const std::vector<double>& load);

}  // namespace millrace
