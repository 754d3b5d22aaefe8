// The automatic batch size: one size for all graphs that request it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/group.h"
#include "prepare/graph_build.h"

namespace millrace {

// Sets sizes in the graphs, and tries them with a caller's function.
class BatchChoice {
 public:
  // Makes the run's state with the graphs' current batches, and keeps it if it fits. Returns what is lacking, or "" if it fits.
  // An Error of a device counts as not fitting: a batch may be too large for a kernel.
  using Compile = std::function<std::string()>;

  // `group`: the processes of the run, all of which choose; null if there is one. All arguments outlive this.
  BatchChoice(const Builds& builds, Group* group, Compile compile);

  static bool is_open(const Builds& builds);       // whether any graph's size is automatic
  static std::string place(const Builds& builds);  // the first such graph, for messages. REQUIRES: is_open(builds)

  // Sets the size that a resumed run began with. Throws Error(usage) if it does not fit now.
  void keep(std::uint32_t size);
  // Chooses the largest multiple of `least` that fits, as found by largest_batch(), and at most the samples that a graph has.
  // Throws Error(usage), or the device's error, if none fits.
  void choose(std::uint32_t least);

  const std::string& text() const { return text_; }  // a line with the choice, and why it is not larger

 private:
  void set(std::uint32_t size);
  bool fits(std::uint32_t size);
  std::uint32_t agreed(std::uint32_t mine) const;
  std::uint64_t most_samples() const;

  const Builds& builds_;
  Group* const group_;
  const Compile compile_;
  std::string lack_, text_;       // why the last size tried does not fit
  std::optional<Error> refused_;  // and the device's error for it
};

// Applies the batch size of a checkpoint's run to graphs with an automatic size, and returns it; 0 if there is none. `then`: the
// checkpoint's pipeline. A resumed run keeps its batches, regardless of the memory now.
std::uint32_t take_batch_size(const Builds& builds, const Value& then);

// Limits a batch that may be incomplete to the number of samples; the rest would be unused memory. Unchanged if a replica would
// have no share, or if the graph trains, since the size then also sets the work of a replica and scales learning rates.
void limit_batch(GraphBuild& build, std::size_t replicas, const std::vector<double>& load);

// Searches the largest size from `least` to `most` that fits, by doubling and halving. The result is a multiple of 8 * least
// with five binary digits, so that few sizes are tried; or `most`; or a smaller multiple of `least`. 0: nothing fits. The last
// call that returned true was for the result. REQUIRES: least > 0, most > 0; smaller sizes fit if larger ones do.
//
//   largest_batch(1, 50'000, [](std::uint32_t size) { return size <= 700; });   // 672: 512 and 1024 are tried, then between them
std::uint32_t largest_batch(std::uint32_t least, std::uint32_t most, const std::function<bool(std::uint32_t size)>& fits);

}  // namespace millrace
