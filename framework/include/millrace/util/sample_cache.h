// What a stage implements that keeps samples, so that later epochs need not read them.
#pragma once

#include "millrace/sample.h"

namespace millrace {

// A SampleTransform that remembers samples in the state in which they reach it. The framework asks the cache before it reads. A
// sample in the cache is not read, the stages before the cache do not see it, and its `cached` is set. Thread-safe.
class SampleCache {
 public:
  virtual ~SampleCache() = default;

  // Fills the sample key.index as the source and the earlier stages would have, `content` included. Returns false if the cache
  // does not have it.
  virtual bool fetch(Sample& sample) = 0;

  // Whether devices are to keep the images too; the samples are resident() after the cache, and must still be so in `batch`.
  virtual bool on_device() const { return false; }
};

}  // namespace millrace
