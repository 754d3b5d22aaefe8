// Drives the source: owns the circulating batches, assigns samples to slots, reads on I/O threads, and sends the chunks. A
// returning batch is filled with the next step. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "data/sample_order.h"
#include "graph/gate.h"
#include "graph/graph.h"
#include "graph/workers.h"
#include "millrace/detail/split.h"
#include "millrace/util/batcher.h"
#include "millrace/util/sample_cache.h"
#include "util/mutex.h"

namespace millrace::flow {

struct FeederPlan {
  Node* node = nullptr;  // the source's
  Node* batcher = nullptr;
  std::vector<const Node*> work;   // their cost per sample decides the size of chunks
  BatchSpec spec;                  // `size`: slots read by this process
  std::uint32_t global_batch = 0;  // slots in all processes
  int threads = 1;
  SampleCache* cache = nullptr;  // not owned; may be null
  GraphOptions options;

  Share part_of(std::uint32_t global_count) const;  // this process's slots in a batch of that size
};

class Feeder : public std::enable_shared_from_this<Feeder> {
 public:
  Feeder(Core& core, std::shared_ptr<Credits> credits, std::shared_ptr<Gate> gate, IoPool& io, FeederPlan plan);
  ~Feeder();

  void allocate();  // allocates the batches; once, before the first start

  void start(std::uint64_t first, std::uint64_t last);
  void stop();                // drops batches that no thread has begun to read
  void retry(Packet packet);  // rereads these slots, with the next attempt's samples

  // A step whose batch returned without passing the gate: later ones would wait there for ever, so everything is stopped. The
  // reason is known when all is quiet: a stage's error, which may still be on its way, or a stage that swallows samples.
  std::optional<std::uint64_t> lost_step();

  int reading() const { return reading_; }  // I/O threads that read samples, or are about to
  // The file of a sample in flight; empty if unknown. REQUIRES: no thread writes it.
  std::string place_of(std::uint64_t step, std::uint32_t slot) const;
  std::uint64_t waited_for_credit() const;  // ticks with samples to read but no batch at home

 private:
  class CirculatingBatch;
  struct Filling;

  void home(CirculatingBatch* batch);
  void dispatch();
  void prepare(Batch& batch, std::uint64_t step) const;
  void fill(Filling& filling);
  void send_empty(const Filling& filling);
  void trace_read(const Batch& batch, std::uint32_t slot, std::uint32_t slots, std::uint64_t begin) const noexcept;
  bool read(Batch& batch, std::uint32_t slot, const SampleKey& key);  // false: the run has failed
  bool read_chunk(Batch& batch, std::uint32_t begin, std::uint32_t end);
  template <class KeyOf>
  bool read_slots(Batch& batch, std::uint32_t begin, std::uint32_t count, KeyOf key_of);  // and counts them
  void send_again(CirculatingBatch* batch, std::uint64_t step);                           // for keeps_batches
  void post(std::function<void()> work);                                                  // on an I/O thread; counts as in flight
  void fetch(Sample& sample) const;  // from the cache or the source; everything except its hash
  std::uint64_t first_position(const Batch& batch) const;
  SampleKey replacement(SampleKey key) const;
  std::uint32_t chunk_size() const;

  Core& core_;
  std::shared_ptr<Credits> credits_;
  std::shared_ptr<Gate> gate_;
  IoPool& io_;
  const FeederPlan plan_;
  Source& source_;
  const std::uint64_t name_hash_;
  const SampleOrder order_;

  mutable Mutex mutex_;
  std::vector<CirculatingBatch*> home_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<CirculatingBatch*> away_ MILLRACE_GUARDED_BY(mutex_);  // in sending order
  std::uint64_t credit_waited_ MILLRACE_GUARDED_BY(mutex_) = 0;      // ticks until credit_since_
  std::uint64_t credit_since_ MILLRACE_GUARDED_BY(mutex_) = 0;       // start of the current wait for a batch; 0: none
  std::uint64_t next_ MILLRACE_GUARDED_BY(mutex_) = 0, last_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> pass_{0};  // Batch::pass
  std::optional<std::uint64_t> lost_step_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> stopped_{true};
  std::atomic<int> reading_{0};
};

}  // namespace millrace::flow
