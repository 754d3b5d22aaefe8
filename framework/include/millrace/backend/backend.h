// What a kind of device has to offer: memory, streams and events, and a network compiled for it.
//
// Everything that a Stream or a Replica is asked to do is *submitted*: the call returns at once and the work happens later, in
// order of submission on that stream. Results are known to be there when an Event says so. A backend that computes on the
// caller's thread is a valid, slow, backend. All calls throw Error(ErrorKind::device).
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

// An in-order queue of device work. One thread at a time submits to it.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void wait(const Ref<Event>& event) = 0;  // later work here starts after it; null: nothing to wait for
  virtual Ref<Event> record() = 0;                 // complete when all work submitted so far is
  // destination[i] = sources[0][i] + sources[1][i] + ..., added in this order. destination may be one of the sources.
  virtual void sum(float* destination, std::span<const float* const> sources, std::size_t elements) = 0;
  virtual void copy(float* destination, const float* source, std::size_t elements) = 0;
  // Computes an element over memory of this device. The element is copied.
  virtual void run(const Kernel& kernel, const void* element) = 0;
  // To memory that host_buffer() gave, which stays until it is done.
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  // Runs `work` on a thread of the host, where it may block; later work here waits for it. What it throws is the stream's error.
  // REQUIRES: the device's memory is the host's; others throw Error(usage).
  virtual void call(std::function<void()> work);
};

enum class Precision { fp32, tf32, bf16 };
const char* to_string(Precision precision);

// How a replica sees a batch a second time, for test-time augmentation: the record, then a shift, then a mirror.
struct View {
  int dx = 0, dy = 0;
  bool flip_x = false;
  Border border = Border::reflect;
  double weight = 1;  // of its logits in the weighted sum

  bool is_plain() const { return dx == 0 && dy == 0 && !flip_x && weight == 1; }  // the image as it is
};

// The image as it is: the network's output is the result, and nothing is summed.
inline bool is_one_view(std::span<const View> views) { return views.size() == 1 && views[0].is_plain(); }
// Throws Error(usage) for a shifted view where the output is a map: pixels at its border would have no value to be added.
void check_views(const Network& network, std::span<const View> views);

// Throws Error(usage) that names trained parameters which their optimizer cannot update.
void check_update(const OptimizerSpec& update, const Network& network);

// By sample: the index of the number whose gradient it is; -1, whose gradient is zero, for a label that the result does not have.
// `results`: (labels.size(), C).
std::vector<std::int64_t> scored_numbers(const ScoreGradient& gradient, std::span<const float> results,
                                         std::span<const std::int32_t> labels);

// One of the losses that a step minimises together.
struct LossTerm {
  std::shared_ptr<const Loss> loss;
  // What the sum of weighted losses is divided by: Loss::weight() of the global batch, or 1; over the term's weight among the
  // terms.
  double divisor = 1;
  StepSums* sums = nullptr;              // written; lives until the event is complete
  std::optional<LayerPort> output = {};  // as in LossAt
};

// A value for read_outputs().
struct OutputCopy {
  LayerPort value;        // one of CompileRequest::outputs
  float* host = nullptr;  // where it goes: (count, C) or (count, C, H, W), whatever layout the device has
};

// A gradient for read_gradients().
struct GradientCopy {
  ScoreGradient gradient;  // one of CompileRequest::gradients
  float* host = nullptr;   // as in OutputCopy
};
// Throws Error(usage) for a request for gradients that no network like this one has.
void check_gradients(const Network& network, const CompileRequest& request);

// One update.
struct UpdateStep : UpdateTime {
  std::uint64_t step = 0;
  std::span<const double> rate_factor = {};  // empty: those of OptimizerSpec. Read before update() returns
  const float* scale = nullptr;              // device memory: what gradients are multiplied by; 0: nothing is updated; null: 1
  std::uint32_t* wrong = nullptr;            // device memory, becomes 1 when a gradient is not finite; null: not checked
};

// What a device will hold. Pure planning: known after compile(), before anything is allocated.
struct MemoryPlan {
  struct Item {
    std::string what;  // "weights", "gradients", "activations", ...
    std::size_t bytes = 0;
    bool on_device = false;  // in memory of the device's own, not in the host's
  };
  std::vector<Item> items;
  std::size_t total() const;
};

// Images that devices may keep from one step to another: those of one graph, as `cache` with `device = true` asks for. A batch
// names its set by number, see Batch::resident_set.
struct ResidentSet {
  std::string graph;          // for messages
  std::uint64_t samples = 0;  // different ones that may come, of any index
  ImageShape image;
};

// How a backend chooses among several ways to compute the same.
enum class Tune {
  heuristic,  // by what its libraries expect to be fast
  measure,    // by timing them on the device
};
const char* to_string(Tune tune);

// Where all replicas of a run, in whatever process, meet in the middle of a pass. Thread-safe.
class ReplicaAllGather {
 public:
  virtual ~ReplicaAllGather() = default;
  virtual std::size_t replicas() const = 0;  // of all processes
  // all = what every replica has given, in order of replicas: (replicas(), mine.size()). Waits until every replica has called as
  // often as this one; so it is called on threads that belong to a replica. Throws when give_up() was called or a process is
  // gone. `replica`: among those of all processes.
  virtual void gather(std::size_t replica, std::span<const double> mine, std::span<double> all) = 0;
  // A replica has failed and will not come: all that wait, and all later calls, throw.
  virtual void give_up() = 0;
};

// A backend ignores options for which it has one implementation.
struct CompileOptions {
  std::uint32_t train_batch = 0;  // largest piece of a training batch that is ingested at once; 0: no training
  std::uint32_t infer_batch = 0;  // largest share of a validation batch; 0: none
  // The train_batch of all replicas that is the largest: weights are laid out for it, so that all lay them out alike.
  std::uint32_t largest_train_batch = 0;  // 0: train_batch
  Precision precision = Precision::fp32;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::uint64_t seed = 0;  // of dropout
  Tune tune = Tune::heuristic;
  bool deterministic = true;  // nothing whose result depends on the order in which threads happen to run
  bool graphs = true;         // record a step's work once and submit it whole from then on, where its shapes allow
  bool recompute = false;     // keep fewer activations for backward and compute the others again, with the same bits
  bool share_memory = true;   // among activations; false: each has its own, so that a write to another is found
  bool time_layers = false;   // Replica::layer_times() will be asked; on a GPU nothing is recorded then, which costs speed
  std::string plans = {};     // what Replica::plans() said in another run, so that this one computes as that one did
  CompileRequest request = {};
  // Kept where a backend has memory of its own: Error(usage) when they do not fit. Others read batches where they lie.
  std::vector<ResidentSet> resident_sets = {};
  std::size_t replica = 0;                 // the number of this replica among those of all processes
  ReplicaAllGather* all_gather = nullptr;  // outlives the replica; null: the replica meets no other
};

// What a layer cost on a replica's device so far. Layers that were fused into it are contained.
struct LayerTime {
  std::string layer;
  std::string detail;                // which implementations a library chose; may be empty
  double forward = 0, backward = 0;  // seconds, over all passes; what is computed again counts as backward
  std::uint64_t passes = 0;
};

// A network compiled for one device. One thread at a time submits to it. Destroying it waits for its work.
class Replica {
 public:
  virtual ~Replica() = default;

  virtual MemoryPlan memory_plan() const = 0;
  // What the backend has chosen so far among several ways to compute the same, for CompileOptions::plans of a later run: text
  // that this backend alone understands. Empty when there was nothing to choose.
  virtual std::string plans() const { return {}; }
  virtual void start() = 0;                                // allocates; values are zero until written
  virtual const std::vector<Bucket>& buckets() const = 0;  // in the order in which backward completes them

  // Reads slots [begin, begin + count) of the batch: executes records, normalises, adds their noise, lays out. Keeps a Ref to the
  // batch, and counts in its `in_flight`, until the device has read it. count == 0 is allowed: this replica has nothing to do in
  // this step, and its gradients are zero.
  virtual void ingest(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count) = 0;

  // One pass over what was ingested last; batch statistics and dropout (drawn from seed and step) as in training.
  virtual void forward(std::uint64_t step) = 0;

  // The sums of losses over the last forward(), and the gradient of the sum of all terms, which backward() starts from: that of a
  // value is the sum over the terms that are measured there. When the event is complete, sums of earlier calls are there too.
  virtual Ref<Event> losses(std::span<const LossTerm> terms) = 0;
  Ref<Event> loss(const std::shared_ptr<const Loss>& loss, double divisor, StepSums& sums) {  // one, of the network's result
    const LossTerm term{loss, divisor, &sums};
    return losses({&term, 1});
  }

  // Gradients of the last losses(), last layers first. `ready(bucket, event)` is called once for each of the first
  // filled_buckets(buckets(), epoch of the batch) buckets, in order: on the calling thread or on one of the backend's, when the
  // work that fills the bucket has been submitted or done; event says when the bucket is filled. The bucket's memory is not
  // written again before the next backward().
  using BucketReady = std::function<void(int bucket, Ref<Event> filled)>;
  virtual void backward(BucketReady ready) = 0;
  // The next backward() adds to the gradients of the last one instead of replacing them. REQUIRES: micro_batches > 1 was asked
  // for.
  virtual void keep_gradients() = 0;

  // Updates the bucket's parameters from its gradients by their optimizers of CompileRequest, after `after` (null: at once).
  // REQUIRES: there is an optimizer.
  virtual Ref<Event> update(int bucket, const UpdateStep& step, const Ref<Event>& after) = 0;

  // copy = decay * copy + (1 - decay) * value, over parameters and running statistics, for one of CompileRequest::copies. A copy
  // begins as the values are at the first call. write_back: value = copy then, as lookahead does.
  virtual Ref<Event> lerp_into(std::string_view copy, double decay, bool write_back) = 0;
  // Swaps the values and the copy.
  virtual Ref<Event> swap_with(std::string_view copy) = 0;

  // Inference with running statistics, each view's output weighted and added, then the sums of a loss. Where the output is a map,
  // that of a mirrored view is mirrored back before it is added, and a shifted view is Error(usage): check_views(). Without a
  // loss nothing is measured, and `sums` is not touched.
  virtual Ref<Event> infer(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count, std::span<const View> views,
                           const std::shared_ptr<const Loss>& loss, StepSums& sums) = 0;
  // Copies values of the last infer() to memory that Device::host_buffer() gave, which stays until the event is complete. Of
  // several views the network's result is their sum; other values are those of the last view.
  virtual Ref<Event> read_outputs(std::span<const OutputCopy> copies) = 0;
  // Computes gradients of scores for a share of a batch, from the images as they are, by passes of inference of its own for each
  // gradient, and copies them to memory as read_outputs() does. The values of the last infer() are gone then. A backend without
  // them throws Error(usage).
  virtual Ref<Event> read_gradients(Ref<Batch> batch, std::uint32_t begin, std::uint32_t count,
                                    std::span<const GradientCopy> copies);
  // The output of the last infer() or forward(), (count, C) or (count, C, H, W). Waits.
  virtual std::vector<float> logits() = 0;

  // Times of the network for full training batches, or for inference where it does not train; in order of forward. Waits. Empty
  // without CompileOptions::time_layers, and on backends that measure nothing.
  virtual std::vector<LayerTime> layer_times() { return {}; }

  // Names of what is kept for parameters: "value", "gradient", the states of all optimizers, and those of the request's copies
  // that have begun, by lerp_into() or write(). A parameter has the states of its own optimizer. Those that are not trained have
  // neither gradient nor states; those that are no statistics either have no copies.
  virtual std::vector<std::string> states() const = 0;
  // Nothing: the parameter has no such state. A copy has its shape also before it has begun.
  virtual std::optional<Shape> state_shape(std::string_view state, int parameter) const = 0;
  bool has_state(std::string_view state, int parameter) const { return state_shape(state, parameter).has_value(); }
  // A state of a parameter or running statistic in the network's own layout, float32. Both wait for all submitted work. Throws
  // Error(usage) for a state that the parameter does not have.
  virtual std::vector<float> read(std::string_view state, int parameter) = 0;
  virtual void write(std::string_view state, int parameter, std::span<const float> values) = 0;

  // States as submitted work leaves them, copied while later work may begin; by default at once. REQUIRES: not of statistics.
  virtual std::unique_ptr<Snapshot> capture(std::span<const StateOf> states);

  virtual void finish() = 0;  // blocks until all submitted work is done; throws the first error of that work
};

struct DeviceInfo {
  std::string backend;                                       // "cpu"
  int index = 0;                                             // "cuda:1" is backend "cuda", index 1
  std::string name;                                          // the model, as its maker calls it
  std::string uuid;                                          // "GPU-8f6d..."; empty where devices have none
  std::size_t memory = 0;                                    // bytes
  std::size_t cache = 0;                                     // bytes of the cache that all its units share; 0: not known
  bool bf16 = true;                                          // computes in bf16 at all; else compile() refuses it
  bool native_bf16 = false;                                  // multiplies bf16 at more than float32's speed
  std::vector<std::pair<std::string, std::string>> details;  // what `pipeline-inspect devices` shows
  // Versions of the libraries and the driver that it computes with: {"oneDNN", "2.6.3"}. Results may depend on them.
  std::vector<std::pair<std::string, std::string>> versions;
};

void print_warning(std::string_view message);  // a line on standard error

struct DeviceOptions {
  std::vector<int> cores;  // processors that this device's threads may use, for a backend that computes on the CPU
  // Called on any thread with warnings that do not end the run, and with profiles. A run gives a function that tells its
  // observers. REQUIRES: not empty; callable while the device and its replicas live.
  std::function<void(std::string_view message)> warn = print_warning;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  // Host memory that this device reads fast; aligned to 64 bytes, zeroed.
  virtual std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) = 0;
  // Memory of this device, for elements to work in; aligned to 64 bytes, zeroed. `what`: for messages.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) = 0;
  // Bytes of info().memory that are free now: no process holds them.
  virtual std::size_t free_memory() { return info().memory; }
  // Plans; allocates nothing that grows with the batch. Throws Error(usage) for a layer it does not know.
  virtual std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) = 0;
  // The handle of the native library that a plugin with device code of its own needs; null when `api` is not this backend's.
  virtual void* native(const std::string& /*api*/) { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<DeviceInfo> devices() = 0;  // empty when none can be used; then unavailable_reason() says why
  virtual std::string unavailable_reason() { return {}; }
  virtual std::unique_ptr<Device> open(int index, const DeviceOptions& options) = 0;
};

struct BackendType : TypeDescription {
  std::function<std::shared_ptr<Backend>()> create;
};

}  // namespace millrace
