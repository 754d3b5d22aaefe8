// Small replacements for real stages, and stages that cause trouble: for tests of the graph and of other stages.
//
// Each is a normal stage type (`StageTypeAccess::make<Jitter>()`, or by name after add_stages()). Those that take any payload
// carry ImageChunk unless changed by over().
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "millrace/util/batcher.h"

namespace millrace::testkit {

void add_stages(Registry& registry);                            // all of them
StageType over(StageType type, std::string_view payload_type);  // with this payload on all its ports

// Synthetic samples: 8 encoded bytes made from the index, label = index % classes, url "sample/<index>".
class CountingSource : public Source {
 public:
  struct Params {
    SourceParams sampling;
    std::int64_t size = 32, classes = 10;
    std::int64_t bad_every = 0;  // indices that are multiples of this (except 0) have bad content
    std::int64_t fails_at = -1;  // reading this index fails with `failure`
    std::string failure = "storage";
    std::int64_t sleep_microseconds = 0;  // in each read
  };
  static void describe(StageDescription<Params>& d);
  CountingSource(const Params& params, const StageSite&) : Source(params.sampling), params_(params) {}

  void open() override {}
  std::uint64_t size() const override { return static_cast<std::uint64_t>(params_.size); }
  std::size_t largest_encoded() const override { return 8; }
  void read(Sample& sample) override;

 private:
  Params params_;
};

// Fills the image from the encoded bytes and a draw, so that a wrong sample, order or draw changes the pixels. (H, W, C) as
// given.
class Paint : public SampleTransform {
 public:
  struct Params {
    Size size{4, 4};
    double bad = 0;  // chance of throwing ErrorKind::content
  };
  static void describe(StageDescription<Params>& d);
  Paint(const Params& params, const StageSite&) : params_(params) {}
  bool is_random() const override { return true; }
  void process(Sample& sample, Draw& draw) override;
  ImageShape image_shape() const override;

 private:
  Params params_;
};

// Counts samples into batches, and replaces bad ones (or gives them weight 0): a minimal `batch`.
class CountingBatcher : public Batcher {
 public:
  struct Params {
    std::int64_t size = 4, buffers = 3;
    bool keep_last = false, wrap = false;
    bool replace = true;
  };
  static void describe(StageDescription<Params>& d);
  CountingBatcher(const Params& params, const StageSite& site) : params_(params), site_(site) {}
  BatchSpec spec() const override;
  void process(int port, Packet packet, Output& output) override;

 private:
  Params params_;
  StageSite site_;
};

// A serial, stepwise end of the line: records each batch, and can be given a function to call.
class BatchLog : public Stage {
 public:
  struct Params {
    std::int64_t sleep_microseconds = 0;
  };
  struct Entry {
    std::uint64_t step = 0, epoch = 0, stream_hash = 0, pixel_hash = 0;
    std::uint32_t count = 0;
    double weight = 0;
    std::vector<std::uint64_t> indices;
    bool had_token = false;
  };
  static void describe(StageDescription<Params>& d);
  BatchLog(const Params& params, const StageSite&) : params_(params) {}
  void process(int port, Packet packet, Output& output) override;

  std::vector<Entry> entries() const;
  std::function<void(const Packet&, Output&)> on_batch;  // called last

 private:
  Params params_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

// Passes packets on after a random short sleep, or at once: attacks code that relies on an order without a guarantee.
class Jitter : public Stage {
 public:
  struct Params {
    std::int64_t most_microseconds = 200;
  };
  static void describe(StageDescription<Params>& d);
  Jitter(const Params& params, const StageSite& site) : params_(params), seed_(site.seed) {}
  void process(int port, Packet packet, Output& output) override;

 private:
  Params params_;
  std::uint64_t seed_;
  std::atomic<std::uint64_t> packets_{0};
};

// Keeps every packet until release(). The graph cannot end while one is kept.
class Turnstile : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d);
  Turnstile(const Params&, const StageSite&) {}
  void process(int port, Packet packet, Output& output) override;

  std::size_t wait_for(std::size_t packets);  // waits until this many are kept; returns their number
  void release(std::size_t packets);          // releases the oldest ones, on this thread
  void let_all_pass();                        // releases all, now and from now on
  void stop() noexcept override;              // drops the kept packets

 private:
  struct Kept {
    Packet packet;
    Output* output;
    Output::Hold hold;
  };
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Kept> kept_;
  bool open_ = false;
};

// Passes packets on, but throws at one, or at random ones.
class Fault : public Stage {
 public:
  struct Params {
    std::int64_t at = -1;      // the n-th packet to arrive, from 0
    double chance = 0;         // for each packet
    std::string kind = "run";  // "usage", "data", "content", "storage", "device", "run", or "foreign": a std::runtime_error
  };
  static void describe(StageDescription<Params>& d);
  Fault(const Params& params, const StageSite& site) : params_(params), seed_(site.seed) {}
  void process(int port, Packet packet, Output& output) override;

 private:
  Params params_;
  std::uint64_t seed_;
  std::atomic<std::int64_t> packets_{0};
};

}  // namespace millrace::testkit
