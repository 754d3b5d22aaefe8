// The data stages of one graph, applied to single samples outside of a running graph: for tools that look at data, and for
// initialisers that learn from it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "millrace/sample.h"
#include "sampling/sample_order.h"
#include "stages/build.h"

namespace millrace {

// Gives each sample exactly what the pipeline would give it: the same order, the same draws, the same faults. Caches are left
// out. Thread-safe as long as no two threads share a Sample. `build` must outlive it; its stages are opened here.
class DataLine {
 public:
  // Throws ErrorKind::usage when the graph has no source.
  DataLine(const GraphBuild& build, std::uint64_t seed);

  Source& source() const { return source_; }
  const SampleOrder& order() const { return order_; }
  ImageShape image() const { return build_.data().image; }  // of the batch; extents may vary

  SampleKey key(std::uint64_t epoch, std::uint64_t position) const { return {epoch, position, order_.index(epoch, position), 0}; }

  enum class Depth { encoded, decoded };  // as the source gives it; as it arrives at `batch`, its record pending

  // A sample whose content is bad has a fault afterwards; any other error is thrown, with the sample's name.
  void load(const SampleKey& key, Depth depth, Sample& sample) const;

 private:
  struct Step {
    SampleTransform* transform;
    std::string name;
    std::uint64_t hash;  // of its name
  };

  const GraphBuild& build_;
  Source& source_;
  std::string source_name_;
  std::uint64_t seed_;
  SampleOrder order_;
  TargetSpec target_;
  std::vector<Step> steps_;
};

// Calls work(i) for i = 0 ... count-1 on `threads` threads, in any order, each with a number of its own for the thread. The first
// exception stops the rest and is thrown.
void for_each_sample(std::uint64_t count, unsigned threads, const std::function<void(std::uint64_t i, unsigned thread)>& work);

}  // namespace millrace
