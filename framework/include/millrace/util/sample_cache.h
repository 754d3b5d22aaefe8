// Implemented by stages that keep samples, so that later epochs need not read them.
#pragma once

#include "millrace/sample.h"

namespace millrace {

// A SampleTransform that stores samples in the state in which they reach it. The framework queries the cache before reading: a
// cached sample is not read, skips the stages before the cache, and has `cached` set. Thread-safe.
class SampleCache {
 public:
  virtual ~SampleCache() = default;

  // Fills the sample key.index as the source and the earlier stages would have, including `content`. Returns false if it is not
  // in the cache.
  virtual bool fetch(Sample& sample) = 0;

  // Whether devices keep the images too; the samples are resident() after the cache, and must still be so in `batch`.
  virtual bool on_device() const { return false; }
};

}  // namespace millrace
