// Which of cuDNN's engines compute a convolution and more, how fast, and to which numbers?
#include <array>
#include <deque>
#include <set>
#include <vector>

#include "cudnn/descriptor.h"
#include "kernels.h"
#include "millrace/error.h"
#include "questions.h"

namespace millrace::cuda {

template <>
struct CudnnType<cudnnGenStatsMode_t> {
  static constexpr cudnnBackendAttributeType_t value = CUDNN_TYPE_GENSTATS_MODE;
};

}  // namespace millrace::cuda

namespace millrace::gpu {
namespace {

using cuda::CudnnApi;
using cuda::Descriptor;

constexpr std::int64_t kMostWorkspace = std::int64_t{2} << 30;
constexpr int kRuns = 3, kMostCompiled = 2;  // engines whose code is compiled on the spot, which takes about a second
constexpr std::int64_t kX = 1, kW = 2, kY = 3, kSum = 4, kSquares = 5;  // ids of tensors

// Square maps (N, H, W, C), batch 256; padding keeps the extent of a kernel of stride 1. Those of ResNet-50 that tell most.
struct Shape {
  std::int64_t c, extent, k, kernel, stride, n = 256;

  std::int64_t out() const { return (extent + 2 * (kernel / 2) - kernel) / stride + 1; }
  std::int64_t x_count() const { return n * extent * extent * c; }
  std::int64_t w_count() const { return k * kernel * kernel * c; }
  std::int64_t y_count() const { return n * out() * out() * k; }
  std::string text() const {
    return fmt::format("{} x {} x {} by {} x {} to {}, stride {}", c, extent, extent, kernel, kernel, k, stride);
  }
};
constexpr Shape kShapes[] = {
    {256, 56, 64, 1, 1}, {64, 56, 64, 3, 1}, {1024, 14, 256, 1, 1}, {64, 56, 256, 1, 1}, {128, 56, 128, 3, 2}};

enum class Kind : std::uint8_t { forward, forward_stats, data_gradient, data_gradient_beta };

// An operation graph of a kind and everything that it refers to.
class OperationGraph {
 public:
  OperationGraph(const CudnnApi& api, cudnnHandle_t handle, Kind kind, const Shape& s) : api_(api) {
    const Descriptor& x = tensor(kX, CUDNN_DATA_BFLOAT16, {s.n, s.c, s.extent, s.extent});
    const Descriptor& w = tensor(kW, CUDNN_DATA_BFLOAT16, {s.k, s.c, s.kernel, s.kernel});
    const Descriptor& y = tensor(kY, CUDNN_DATA_BFLOAT16, {s.n, s.k, s.out(), s.out()});
    if (kind == Kind::forward || kind == Kind::forward_stats) {
      add(make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution(s))
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F));
    } else {
      add(make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution(s))
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F)
              .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, kind == Kind::data_gradient_beta ? 1.0F : 0.0F));
    }
    if (kind == Kind::forward_stats) {
      add(make(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
              .set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
              .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
              .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y)
              .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensor(kSum, CUDNN_DATA_FLOAT, {1, s.k, 1, 1}))
              .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensor(kSquares, CUDNN_DATA_FLOAT, {1, s.k, 1, 1})));
    }
    Descriptor& graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_).set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
    graph_ = &graph.finalize();
  }
  const Descriptor& native() const { return *graph_; }

 private:
  Descriptor& make(cudnnBackendDescriptorType_t type) { return descriptors_.emplace_back(api_, type); }
  void add(Descriptor& operation) { operations_.push_back(&operation.finalize()); }
  // Extents are n, c, h, w in cuDNN's order; memory is channels last.
  const Descriptor& tensor(std::int64_t id, cudnnDataType_t type, const std::array<std::int64_t, 4>& e) {
    const std::array<std::int64_t, 4> strides = {e[1] * e[2] * e[3], 1, e[1] * e[3], e[1]};
    return make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, e)
        .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
        .finalize();
  }
  const Descriptor& convolution(const Shape& s) {
    const std::array<std::int64_t, 2> ones = {1, 1}, strides = {s.stride, s.stride}, padding = {s.kernel / 2, s.kernel / 2};
    return make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
        .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones)
        .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides)
        .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
        .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
        .finalize();
  }

  const CudnnApi& api_;
  std::deque<Descriptor> descriptors_;  // stay where they are
  std::vector<const Descriptor*> operations_;
  const Descriptor* graph_ = nullptr;
};

// cuDNN on the first device, and one shape's tensors.
class Laboratory {
 public:
  explicit Laboratory(const Shape& shape) : shape_(shape) {
    api_.check(api_.cudnnCreate(&handle_), "cudnnCreate");
    api_.check(api_.cudnnSetStream(handle_, stream_.get()), "cudnnSetStream");
    check(fill(w_.get(), shape_.w_count(), kW, stream_.get()), "fill");
  }
  ~Laboratory() { api_.cudnnDestroy(handle_); }
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  struct Engine {
    Descriptor config, plan;  // the config lives as long as the plan made of it
    std::int64_t number, workspace;
  };
  // Makes engines ready, those that cuDNN compiles on the spot or the others, in the order in which it expects them to be fast,
  // and calls use(engine) until it returns false.
  void each_engine(Kind kind, bool compiled, const std::function<bool(Engine&)>& use);
  void execute(Kind kind, const Engine& engine, void* x, void* y, void* workspace);
  // The fastest of the first engines of the plain operation: milliseconds. Its result stays in plain_.
  double run_plain(Kind kind);
  Json examine(Kind kind, Engine& engine);

 private:
  bool gives_x(Kind kind) const { return kind == Kind::data_gradient || kind == Kind::data_gradient_beta; }
  void prepare(Kind kind, void* x, void* y);

  const Shape shape_;
  const CudnnApi api_;
  cudnnHandle_t handle_ = nullptr;
  const Stream stream_ = make_stream();
  const std::size_t x_bytes_ = 2 * static_cast<std::size_t>(shape_.x_count()),
                    y_bytes_ = 2 * static_cast<std::size_t>(shape_.y_count());
  const Buffer x_ = make_buffer(x_bytes_), y_ = make_buffer(y_bytes_),
               w_ = make_buffer(2 * static_cast<std::size_t>(shape_.w_count())),
               plain_ = make_buffer(std::max(x_bytes_, y_bytes_)), addend_ = make_buffer(x_bytes_),
               sum_ = make_buffer(4 * static_cast<std::size_t>(shape_.k)),
               squares_ = make_buffer(4 * static_cast<std::size_t>(shape_.k));
};

void Laboratory::each_engine(Kind kind, bool compiled, const std::function<bool(Engine&)>& use) {
  const OperationGraph graph(api_, handle_, kind, shape_);
  std::set<std::int64_t> seen;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristics(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.native()).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    std::string why;
    if (!heuristics.try_finalize(why)) continue;
    std::vector<Descriptor> configs;
    const std::int64_t count = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    for (std::int64_t i = 0; i < count; ++i) configs.emplace_back(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const std::int64_t found = count == 0 ? 0 : heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, configs);
    for (std::int64_t i = 0; i < found; ++i) {
      Descriptor& config = configs[static_cast<std::size_t>(i)];
      Descriptor engine(api_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      config.get(CUDNN_ATTR_ENGINECFG_ENGINE, std::span(&engine, 1));
      const auto number = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      if (!seen.insert(number).second) continue;  // each once, as the heuristics set its knobs first
      const auto notes = engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, 32);
      if (compiled != (std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end())) continue;
      Descriptor plan(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
      if (!plan.try_finalize(why)) continue;
      const auto workspace = plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      Engine ready{std::move(config), std::move(plan), number, workspace};
      if (workspace <= kMostWorkspace && !use(ready)) return;
    }
  }
}

void Laboratory::execute(Kind kind, const Engine& engine, void* x, void* y, void* workspace) {
  const std::size_t count = kind == Kind::forward_stats ? 5 : 3;
  const std::array<std::int64_t, 5> ids = {kX, kW, kY, kSum, kSquares};
  const std::array<void*, 5> pointers = {x, w_.get(), y, sum_.get(), squares_.get()};
  Descriptor bound(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  bound.set_all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span(ids).first(count))
      .set_all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span(pointers).first(count))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  api_.check(api_.cudnnBackendExecute(handle_, engine.plan.native(), bound.native()), "cudnnBackendExecute");
}

// Inputs are filled, and results are full of NaN, but for the dx that is added to.
void Laboratory::prepare(Kind kind, void* x, void* y) {
  check(cudaMemsetAsync(gives_x(kind) ? x : y, 0xff, gives_x(kind) ? x_bytes_ : y_bytes_, stream_.get()), "cudaMemsetAsync");
  if (kind != Kind::data_gradient) check(fill(x, shape_.x_count(), kX, stream_.get()), "fill");
  if (gives_x(kind)) check(fill(y, shape_.y_count(), kY, stream_.get()), "fill");
}

double Laboratory::run_plain(Kind kind) {
  void* const x = gives_x(kind) ? plain_.get() : x_.get();
  void* const y = gives_x(kind) ? y_.get() : plain_.get();
  double best = std::numeric_limits<double>::infinity();
  int tried = 0;
  each_engine(kind, false, [&](Engine& engine) {
    const Buffer workspace = make_buffer(static_cast<std::size_t>(engine.workspace));
    prepare(kind, x, y);
    best = std::min(best, best_ms(stream_, kRuns, [&] { execute(kind, engine, x, y, workspace.get()); }));
    return ++tried < 3;
  });
  return best;
}

Json Laboratory::examine(Kind kind, Engine& engine) {
  const Buffer workspace = make_buffer(static_cast<std::size_t>(engine.workspace));
  const Buffer largest = make_buffer(4 * sizeof(float));
  float* const found = static_cast<float*>(largest.get());
  prepare(kind, x_.get(), y_.get());
  execute(kind, engine, x_.get(), y_.get(), workspace.get());
  if (kind == Kind::forward_stats) {
    check(compare(y_.get(), plain_.get(), nullptr, shape_.y_count(), found, stream_.get()), "compare");
    check(compare_sums(y_.get(), shape_.y_count() / shape_.k, static_cast<int>(shape_.k), sum_.get(), squares_.get(), found + 2,
                       stream_.get()),
          "compare_sums");
  } else {
    check(fill(addend_.get(), shape_.x_count(), kX, stream_.get()), "fill");
    check(compare(x_.get(), plain_.get(), addend_.get(), shape_.x_count(), found, stream_.get()), "compare");
  }
  float off[4] = {};
  check(cudaMemcpyAsync(off, found, sizeof off, cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync");
  finish(stream_);
  Json finding = {{"engine", engine.number}, {"workspace", engine.workspace}};
  finding["error"] = fmt::format("{:.3g}", off[0] / off[1]);  // text: it may be infinite
  if (kind == Kind::forward_stats) finding["error_of_sums"] = fmt::format("{:.3g}, of squares {:.3g}", off[2], off[3]);
  finding["ms"] = best_ms(stream_, kRuns, [&] { execute(kind, engine, x_.get(), y_.get(), workspace.get()); });
  return finding;
}

// Engines that are ready come first for all shapes; those that cuDNN compiles get what time is left.
void ask(const Asked& asked, Kind kind, Kind plain) {
  check(cudaSetDevice(0), "cudaSetDevice");
  const Stopwatch watch;
  for (const bool compiled : {false, true}) {
    for (const Shape& shape : kShapes) {
      if (watch.ms() > 1000 * asked.seconds) return say({{"not_tried", shape.text()}, {"compiled", compiled}});
      Laboratory laboratory(shape);
      const double plain_ms = laboratory.run_plain(plain);
      int tried = 0;
      laboratory.each_engine(kind, compiled, [&](Laboratory::Engine& engine) {
        Json finding = {{"shape", shape.text()}, {"plain_ms", plain_ms}, {"compiled", compiled}};
        try {
          finding.update(laboratory.examine(kind, engine));
        } catch (const std::exception& error) {
          finding["why_not"] = error.what();
          check(cudaDeviceSynchronize(), "the device, after this engine");  // an error that stays ends the question
        }
        say(finding);
        return watch.ms() < 1000 * asked.seconds && !(compiled && ++tried == kMostCompiled);
      });
    }
  }
}

}  // namespace

void ask_data_gradients(const Asked& asked) { ask(asked, Kind::data_gradient_beta, Kind::data_gradient); }
void ask_statistics(const Asked& asked) { ask(asked, Kind::forward_stats, Kind::forward); }

}  // namespace millrace::gpu
