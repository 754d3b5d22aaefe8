// The interface of a kind of device: memory, streams and events, and networks compiled for it.
//
// Work for a Stream or a Replica is *submitted*: the call returns at once, and the work runs later, in order of submission on
// that stream. An Event signals that results are complete. A backend may compute on the caller's thread, which is valid but slow.
// All calls throw Error(ErrorKind::device).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/buckets.h"
#include "millrace/backend/network.h"
#include "millrace/backend/parameter_states.h"
#include "millrace/batch.h"
#include "millrace/detail/type_description.h"
#include "millrace/kernels/kernel.h"
#include "millrace/kernels/update_time.h"
#include "millrace/util/step_result.h"

namespace millrace {

class Loss;
class Optimizer;

// An in-order queue of device work. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void wait(const Ref<Event>& event) = 0;  // work submitted later starts after the event; null: no wait
  virtual Ref<Event> record() = 0;                 // complete when all work submitted so far is complete
  // destination[i] = sources[0][i] + sources[1][i] + ..., added in this order. destination may be one of the sources.
  virtual void sum(float* destination, std::span<const float* const> sources, std::size_t elements) = 0;
  virtual void copy(float* destination, const float* source, std::size_t elements) = 0;
  // Runs a kernel over device memory with `element`, which is copied.
  virtual void run(const Kernel& kernel, const void* element) = 0;
  // Copies to memory from host_buffer(), which must stay valid until the copy is complete.
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  // Runs `work` on a host thread, where it may block; later work on the stream waits for it. An exception becomes the stream's
  // error.
  // REQUIRES: device memory is host memory; other devices throw Error(usage).
  virtual void call(std::function<void()> work);
};

enum class Precision { fp32, tf32, bf16 };
const char* to_string(Precision precision);

// A further view of a batch, for test-time augmentation: first the record, then a shift, then a mirror.
struct View {
  int dx = 0, dy = 0;
  bool flip_x = false;
  Border border = Border::reflect;
  double weight = 1;  // of its logits in the weighted sum

  bool is_plain() const { return dx == 0 && dy == 0 && !flip_x && weight == 1; }  // the image unchanged
};

// True for the unchanged image alone: the network's output is the result, and nothing is summed.
inline bool is_one_view(std::span<const View> views) { return views.size() == 1 && views[0].is_plain(); }
// Throws Error(usage) for a shifted view if the output is a map: border pixels would have no value to add.
void check_views(const Network& network, std::span<const View> views);

// Throws Error(usage) naming the trained parameters that their optimizer cannot update.
void check_update(const OptimizerSpec& update, const Network& network);

// For each sample, the index of the number whose gradient is computed; -1, with a zero gradient, for a label outside the result.
// `results`: (labels.size(), C).
std::vector<std::int64_t> scored_numbers(const ScoreGradient& gradient, std::span<const float> results,
                                         std::span<const std::int32_t> labels);

// One of the losses that a step minimises together.
struct LossTerm {
  std::shared_ptr<const Loss> loss;
  // Divides the sum of weighted losses: Loss::weight() of the global batch, or 1; divided by the term's weight among the terms.
  double divisor = 1;
  StepSums* sums = nullptr;              // written; must live until the event is complete
  std::optional<LayerPort> output = {};  // see LossAt
};

// A value for read_outputs().
struct OutputCopy {
  LayerPort value;        // one of CompileRequest::outputs
  float* host = nullptr;  // destination: (count, C) or (count, C, H, W), whatever the device's layout
};

// A gradient for read_gradients().
struct GradientCopy {
  ScoreGradient gradient;  // one of CompileRequest::gradients
  float* host = nullptr;   // see OutputCopy
};
// Throws Error(usage) if the request asks for gradients that such a network does not have.
void check_gradients(const Network& network, const CompileRequest& request);

// Parameters of one update.
struct UpdateStep : UpdateTime {
  std::uint64_t step = 0;
  std::span<const double> rate_factor = {};  // empty: those of OptimizerSpec. Read before update() returns
  const float* scale = nullptr;              // device memory: multiplies gradients; 0: nothing is updated; null: 1
  std::uint32_t* wrong = nullptr;            // device memory, set to 1 if a gradient is not finite; null: not checked
};

// Memory that a device will use. Pure planning: known after compile(), before anything is allocated.
struct MemoryPlan {
  struct Item {
    std::string what;  // "weights", "gradients", "activations", ...
    std::size_t bytes = 0;
    bool on_device = false;  // in the device's own memory rather than the host's
  };
  std::vector<Item> items;
  std::size_t total() const;
};

// Images of one graph that devices may keep between steps, as requested by `cache` with `device = true`. A batch refers to its
// set by number, see Batch::resident_set.
struct ResidentSet {
  std::string graph;          // for messages
  std::uint64_t samples = 0;  // number of distinct samples, of any index
  ImageShape image;
};

// How a backend chooses among several implementations.
enum class Tune {
  heuristic,  // by the libraries' own estimates
  measure,    // by timing them on the device
};
const char* to_string(Tune tune);

// A meeting point for all replicas of a run, in all processes, in the middle of a pass. Thread-safe.
class ReplicaAllGather {
 public:
  virtual ~ReplicaAllGather() = default;
  virtual std::size_t replicas() const = 0;  // in all processes
  // Gathers all replicas' numbers: all = (replicas(), mine.size()), in order of replicas. Waits until every replica has called as
  // often as this one, so each replica needs its own thread for it. Throws after give_up() and when a process is gone. `replica`:
  // its index among those of all processes.
  virtual void gather(std::size_t replica, std::span<const double> mine, std::span<double> all) = 0;
  // Reports that a replica has failed: waiting and later calls throw.
  virtual void give_up() = 0;
};

// A backend ignores options that it does not implement.
struct CompileOptions {
  std::uint32_t train_batch = 0;  // largest piece of a training batch that is ingested at once; 0: no training
  std::uint32_t infer_batch = 0;  // largest share of a validation batch; 0: none
  // The largest train_batch of all replicas: weights are laid out for it, so that all replicas use the same layout.
  std::uint32_t largest_train_batch = 0;  // 0: train_batch
  Precision precision = Precision::fp32;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::uint64_t seed = 0;  // for dropout
  Tune tune = Tune::heuristic;
  bool deterministic = true;  // no result depends on the order in which threads run
  bool graphs = true;         // record a step's work once and then submit it whole, where its shapes allow
  bool recompute = false;     // keep fewer activations for backward and recompute the others, with the same bits
  bool share_memory = true;   // among activations; false: each has its own memory, so that stray writes are found
  bool time_layers = false;   // Replica::layer_times() will be called; on a GPU this disables recordings, which costs speed
  std::string plans = {};     // Replica::plans() of another run, so that this run computes as that one did
  CompileRequest request = {};
  // Kept by backends with memory of their own, which throw Error(usage) if they do not fit. Other backends read batches in place.
  std::vector<ResidentSet> resident_sets = {};
  std::size_t replica = 0;                 // index of this replica among those of all processes
  ReplicaAllGather* all_gather = nullptr;  // outlives the replica; null: a single replica
};

// Time that a replica's device has spent on a layer so far, including the layers fused into it.
struct LayerTime {
  std::string layer;
  std::string detail;                // implementations chosen by a library; may be empty
  double forward = 0, backward = 0;  // seconds, over all passes; recomputation counts as backward
  std::uint64_t passes = 0;
};

// A network compiled for one device. Used by one thread at a time. The destructor waits for its work.
class Replica {
 public:
  virtual ~Replica() = default;

  virtual MemoryPlan memory_plan() const = 0;
  // The backend's choices of implementations so far, for CompileOptions::plans of a later run, in the backend's own text format.
  // Empty if there was nothing to choose.
  virtual std::string plans() const { return {}; }
  virtual void start() = 0;                                // allocates; values are zero until written
  virtual const std::vector<Bucket>& buckets() const = 0;  // in the order in which backward completes them

  // Reads slots [begin, begin + count) of the batch: executes records, normalises, adds their noise, lays out. Holds a Ref to the
  // batch, and a count in its `in_flight`, until the device has read it. count == 0 is allowed: this replica then has no work in
  // this step, and its gradients are zero.
  virtual void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) = 0;

  // One pass over the last ingested batch; batch statistics and dropout (drawn from seed and step) as in training.
  virtual void forward(std::uint64_t step) = 0;

  // The sums of losses over the last forward(), and the gradient of the sum of all terms, with which backward() begins: for each
  // value it is the sum over the terms measured there. Sums of earlier calls are complete too when the event is.
  virtual Ref<Event> losses(std::span<const LossTerm> terms) = 0;
  Ref<Event> loss(const std::shared_ptr<const Loss>& loss, double divisor, StepSums& sums) {  // a single loss of the network's
                                                                                              // result
    const LossTerm term{loss, divisor, &sums};
    return losses({&term, 1});
  }

  // Gradients of the last losses(), last layers first. Calls `ready(bucket, filled)` once for each of the first
  // filled_buckets(buckets(), epoch of the batch) buckets, in order, on the calling thread or one of the backend's, when the work
  // that fills the bucket has been submitted or done; the event signals that the bucket is filled. The bucket's memory is not
  // written again before the next backward().
  using BucketReady = std::function<void(int bucket, Ref<Event> filled)>;
  virtual void backward(BucketReady ready) = 0;
  // The next backward() adds to the gradients of the last one instead of replacing them. REQUIRES: the request has micro_batches
  // > 1.
  virtual void keep_gradients() = 0;

  // Updates the bucket's parameters from its gradients, with their optimizers from CompileRequest, after `after` (null: at once).
  // REQUIRES: there is an optimizer.
  virtual Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) = 0;

  // copy = decay * copy + (1 - decay) * value, over parameters and running statistics, for one of CompileRequest::copies. The
  // first call initialises the copy with the values. write_back: then value = copy, as lookahead does.
  virtual Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) = 0;
  // Swaps the values and the copy.
  virtual Ref<Event> swap_with(std::string_view copy) = 0;

  // Inference with running statistics: adds each view's weighted output, then computes a loss's sums. If the output is a map, a
  // mirrored view's output is mirrored back before it is added, and a shifted view throws Error(usage): check_views(). Without a
  // loss nothing is measured, and `sums` is not written.
  virtual Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                           const std::shared_ptr<const Loss>& loss, StepSums& sums) = 0;
  // Copies values of the last infer() to memory from host_buffer(), which must stay valid until the event is complete. With
  // several views the network's result is their sum; other values are those of the last view.
  virtual Ref<Event> read_outputs(std::span<const OutputCopy> copies) = 0;
  // Computes gradients of scores for a share of a batch, from the plain view, with separate passes of inference for each
  // gradient, and copies them to memory as read_outputs() does. This overwrites the values of the last infer(). A backend without
  // this throws Error(usage).
  virtual Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                                    std::span<const GradientCopy> copies);
  // The output of the last infer() or forward(), (count, C) or (count, C, H, W). Waits.
  virtual std::vector<float> logits() = 0;

  // Times for full training batches, or for inference if the network does not train, in order of forward. Waits. Empty without
  // CompileOptions::time_layers, and on backends that do not measure.
  virtual std::vector<LayerTime> layer_times() { return {}; }

  // Names of all arrays kept for parameters: "value", "gradient", the states of all optimizers, and those of the request's copies
  // that have begun, by lerp_into() or write(). A parameter has the states of its own optimizer. Untrained parameters have
  // neither gradient nor states, and no copies unless they are statistics.
  virtual std::vector<std::string> states() const = 0;
  // Empty if the parameter has no such state. A copy has its shape even before it has begun.
  virtual std::optional<Shape> state_shape(std::string_view state, int parameter) const = 0;
  bool has_state(std::string_view state, int parameter) const { return state_shape(state, parameter).has_value(); }
  // Reads or writes a state of a parameter or running statistic in the network's own layout, float32. Both wait for all submitted
  // work. Throws Error(usage) if the parameter does not have the state.
  virtual std::vector<float> read(std::string_view state, int parameter) = 0;
  virtual void write(std::string_view state, int parameter, std::span<const float> values) = 0;

  // Copies states as submitted work leaves them; later work may begin meanwhile. By default copies at once. REQUIRES: no
  // statistics.
  virtual std::unique_ptr<Snapshot> capture(std::span<const StateOf> states);

  virtual void finish() = 0;  // waits for all submitted work and throws its first error
};

struct DeviceInfo {
  std::string backend;                                       // "cpu"
  int index = 0;                                             // "cuda:1" is backend "cuda", index 1
  std::string name;                                          // the manufacturer's model name
  std::string uuid;                                          // "GPU-8f6d..."; empty if devices have none
  std::size_t memory = 0;                                    // bytes
  std::size_t cache = 0;                                     // bytes of the cache that all its units share; 0: not known
  bool bf16 = true;                                          // computes in bf16 at all; else compile() refuses it
  bool native_bf16 = false;                                  // multiplies bf16 at more than float32's speed
  std::vector<std::pair<std::string, std::string>> details;  // what `pipeline-inspect devices` shows
  // Versions of the libraries and the driver that it computes with: {"oneDNN", "2.6.3"}. Results may depend on them.
  std::vector<std::pair<std::string, std::string>> versions;
};

void print_warning(std::string_view message);  // prints a line to standard error

struct DeviceOptions {
  std::vector<int> cores;  // processors that this device's threads may use, for a backend that computes on the CPU
  // Called on any thread with warnings that do not end the run, and with profiles. A run passes a function that informs its
  // observers. REQUIRES: not empty; callable while the device and its replicas live.
  std::function<void(std::string_view message)> warn = print_warning;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  // Host memory with fast access from this device; aligned to 64 bytes, zeroed.
  virtual std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) = 0;
  // Device memory for elements; aligned to 64 bytes, zeroed. `what`: for messages.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) = 0;
  // Bytes of info().memory that no process uses now.
  virtual std::size_t free_memory() { return info().memory; }
  // Plans; allocates nothing that grows with the batch. Throws Error(usage) for an unknown layer.
  virtual std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) = 0;
  // The native library's handle, for plugins with their own device code; null if `api` is not this backend's.
  virtual void* native(const std::string& /*api*/) { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<DeviceInfo> devices() = 0;  // empty if none can be used; unavailable_reason() then explains why
  virtual std::string unavailable_reason() { return {}; }
  virtual std::unique_ptr<Device> open(int index, const DeviceOptions& options) = 0;
};

struct BackendType : TypeDescription {
  std::function<std::shared_ptr<Backend>()> create;
};

}  // namespace millrace
