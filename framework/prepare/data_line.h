// Applies a graph's data stages to single samples outside of a running graph: for tools that inspect data, and for initialisers
// that depend on it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/sample_order.h"
#include "millrace/sample.h"
#include "prepare/graph_build.h"

namespace millrace {

// Produces exactly the pipeline's samples: the same order, draws and faults. Skips caches. Thread-safe as long as no two threads
// share a Sample. `build` must outlive it; its stages are opened here
// unless they are open.
class DataLine {
 public:
  // Throws ErrorKind::usage if the graph has no source, and the error of a stage that cannot be opened, with its place.
  DataLine(const GraphBuild& build, std::uint64_t seed);

  Source& source() const { return source_; }
  const SampleOrder& order() const { return order_; }
  ImageShape image() const { return build_.data().image; }  // in the batch; extents may vary

  SampleKey key(std::uint64_t epoch, std::uint64_t position) const { return {epoch, position, order_.index(epoch, position), 0}; }

  enum class Depth { encoded, decoded };  // as the source returns it; as it arrives at `batch`, its record pending

  // Sets the sample's fault if its content is bad; throws any other error, with the sample's name.
  void load(const SampleKey& key, Depth depth, Sample& sample) const;

 private:
  struct Step {
    SampleTransform* transform;
    std::string name;
    std::uint64_t hash;  // hash of the stage's name
  };

  const GraphBuild& build_;
  Source& source_;
  std::string source_name_;
  std::uint64_t seed_;
  SampleOrder order_;
  TargetSpec target_;
  std::vector<Step> steps_;
};

// Calls work(i) for i = 0 ... count-1 on `threads` threads, in any order, and passes the thread's number. The first exception
// stops the rest and is rethrown.
void for_each_sample(std::uint64_t count, unsigned threads, const std::function<void(std::uint64_t i, unsigned thread)>& work);

}  // namespace millrace
