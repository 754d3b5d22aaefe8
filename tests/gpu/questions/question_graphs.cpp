// What cuDNN has for graphs that fuse more than a convolution, how fast it is, and whether its numbers are right.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "graph_runner.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr int kMostCompiled = 2;  // of one graph
constexpr int kMostPlain = 3;     // engines tried for the plain operation
constexpr int kBatch = 256;
constexpr std::size_t kMostWorkspace = std::size_t{2} << 30;

// Of ResNet-50, the most telling first: forward, and for gradients, where the first convolution of a block meets the shortcut's
// gradient.
constexpr ConvolutionCase k3x3{kBatch, 64, 56, 64, 3, 1}, kWiden{kBatch, 64, 56, 256, 1, 1}, kNarrow{kBatch, 256, 56, 64, 1, 1},
    kHalve{kBatch, 128, 56, 128, 3, 2}, kNarrowDeep{kBatch, 1024, 14, 256, 1, 1};
const std::vector<ConvolutionCase> kForward{k3x3, kWiden, kNarrow, kHalve, kNarrowDeep};
const std::vector<ConvolutionCase> kGradient{kNarrow, kNarrowDeep, k3x3, kHalve, kWiden};

// Where there is no driver, the toolkit's stand-in for one: without any cuDNN says nothing of engines that it compiles on the
// spot. With this they are listed and compiled; only the code cannot be loaded.
std::string open_driver_or_stub() {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return "here";
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string folder : {home == nullptr ? "" : home, "/usr/local/cuda"}) {
    if (!folder.empty() && dlopen((folder + "/lib64/stubs/libcuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return "stub";
  }
  return "none";
}

// cuDNN, and the device that engines are asked for: the first, or one that is only described.
class Asked {
 public:
  explicit Asked(const std::string& deviceless) {
    if (deviceless.empty()) {
      check(cudaSetDevice(kDevice), "cudaSetDevice");
      stream = make_stream();
      api.check(api.cudnnCreate(&target.handle), "cudnnCreate");
      api.check(api.cudnnSetStream(target.handle, stream.get()), "cudnnSetStream");
    } else {
      driver = open_driver_or_stub();
      properties.emplace(described_device(api));
      target.properties = &*properties;
    }
  }
  ~Asked() {
    if (target.handle != nullptr) api.cudnnDestroy(target.handle);
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  CudnnApi api;
  std::string driver = "here";
  std::optional<Descriptor> properties;
  Stream stream;
  CudnnTarget target;
};

struct GraphAsked {
  GraphKind kind;
  Numbers type;
};

GraphKind plain_of(GraphKind kind) {
  const Tensor result = result_of(kind);
  return result == Tensor::x ? GraphKind::data_gradient : result == Tensor::w ? GraphKind::weight_gradient : GraphKind::forward;
}

// Tries one, with its report beside the others'. Only what cuDNN or a launch refuses is caught: the device's own errors stay with
// it, and end the question with what is known so far.
void try_candidate(const Asked& asked, const OperationGraph& graph, Candidate& candidate, GraphRunner* runner,
                   const GraphRunner* plain) {
  const auto ready = make_ready(asked.api, graph, asked.target, candidate);
  if (!ready || runner == nullptr) return;
  if (ready->workspace > kMostWorkspace) {
    candidate.report["why"] = "was not run: its workspace is too large";
    return;
  }
  try {
    runner->run(*ready, plain, candidate.report);
  } catch (const std::exception& error) {
    candidate.report["why"] = error.what();
    check(cudaDeviceSynchronize(), "the device, after this engine");
  }
}

// The plain operation, for its time, and for its dx.
std::unique_ptr<GraphRunner> run_plain(const Asked& asked, GraphKind kind, const ConvolutionCase& shape, Numbers type,
                                       Json& report) {
  const OperationGraph graph(asked.api, kind, shape, type, asked.target);
  auto runner = std::make_unique<GraphRunner>(asked.api, asked.target.handle, asked.stream.get(), kind, shape, type);
  Engines engines = engines_of(asked.api, graph, asked.target);
  Candidate* best = nullptr;
  int tried = 0;
  for (Candidate& candidate : engines.candidates) {
    if (candidate.compiled || tried == kMostPlain) continue;
    try_candidate(asked, graph, candidate, runner.get(), nullptr);
    if (!candidate.report.contains("ms")) continue;
    ++tried;
    if (best == nullptr || candidate.report["ms"] < best->report["ms"]) best = &candidate;
  }
  if (best == nullptr) return nullptr;
  try_candidate(asked, graph, *best, runner.get(), nullptr);  // again: its result is the one to compare with
  report = best->report;
  return report.contains("why") ? nullptr : std::move(runner);
}

// Engines that are ready are tried for all graphs before any that is compiled on the spot.
enum class Phase : bool { ready, compiled };

// In the heuristics' order, until the time is over. Of those that are compiled one result is enough.
void try_engines(const Asked& asked, const OperationGraph& graph, Engines& engines, Phase phase, GraphRunner* runner,
                 const GraphRunner* plain, double seconds, Findings& findings, Json& entry) {
  const Stopwatch watch;
  int tried = 0, not_tried = 0;
  bool enough = false;
  for (Candidate& candidate : engines.candidates) {
    if (candidate.compiled != (phase == Phase::compiled)) continue;
    if (enough || watch.milliseconds() >= seconds * 1000) {
      ++not_tried;
      continue;
    }
    findings.doing(fmt::format("trying engine {} for {}", candidate.choice, graph.about()));
    try_candidate(asked, graph, candidate, runner, plain);
    entry["engines"].push_back(candidate.report);
    enough = candidate.compiled && (++tried == kMostCompiled || candidate.report.contains("ms"));
  }
  entry["not_tried"][phase == Phase::compiled ? "compiled_on_the_spot" : "ready"] = not_tried;
}

void ask_graph(const Asked& asked, const GraphAsked& what, const ConvolutionCase& shape, Phase phase, double seconds,
               Findings& findings, Json& entry) {
  const OperationGraph graph(asked.api, what.kind, shape, what.type, asked.target);
  findings.doing("listing engines for " + graph.about());
  Engines engines = engines_of(asked.api, graph, asked.target);
  entry["engines_known"] = engines.known;
  entry["engines_supporting"] = engines.supporting;
  entry["engines_refusing"] = engines.refusals;
  if (!engines.why_no_heuristics.empty()) entry["why_no_heuristics"] = engines.why_no_heuristics;
  if (!entry.contains("engines")) entry["engines"] = Json::array();
  std::unique_ptr<GraphRunner> runner, plain;
  const bool any = std::any_of(engines.candidates.begin(), engines.candidates.end(),
                               [&](const Candidate& c) { return c.compiled == (phase == Phase::compiled); });
  if (asked.target.handle != nullptr && any && seconds > 0) {
    findings.doing("running the plain operation of " + graph.about());
    plain = run_plain(asked, plain_of(what.kind), shape, what.type, entry["plain"]);
    runner = std::make_unique<GraphRunner>(asked.api, asked.target.handle, asked.stream.get(), what.kind, shape, what.type);
  }
  const bool adds = what.kind == GraphKind::data_gradient_add || what.kind == GraphKind::data_gradient_beta;
  try_engines(asked, graph, engines, phase, runner.get(), adds ? plain.get() : nullptr, seconds, findings, entry);
  findings.save();
}

// A graph that cuDNN refuses does not end the question; an error that stays with the device does.
void try_graph(const Asked& asked, const GraphAsked& what, const ConvolutionCase& shape, Phase phase, double seconds,
               Findings& findings, Json& entry) {
  try {
    ask_graph(asked, what, shape, phase, seconds, findings, entry);
  } catch (const std::exception& error) {
    entry["why"] = error.what();
    findings.save();
    if (asked.target.handle != nullptr) check(cudaDeviceSynchronize(), "the device, after this graph");
  }
}

// Each graph gets an equal part of the time that is left; engines are listed in any case.
void ask_graphs(const Setting& setting, Findings& findings, const std::vector<ConvolutionCase>& shapes,
                const std::vector<GraphAsked>& graphs) {
  findings.doing("opening cuDNN");
  const Asked asked(setting.deviceless);
  findings.answer["cudnn"] = asked.api.version();
  findings.answer["driver"] = asked.driver;
  findings.doing("listing engines for the first time, which loads cuDNN's libraries");
  findings.answer["first_listing_ms"] = rounded(host_milliseconds([&] {
    engines_of(asked.api, {asked.api, GraphKind::forward, k3x3, graphs.front().type, asked.target}, asked.target);
  }));
  Json& entries = findings.answer["graphs"] = Json::array();
  for (const ConvolutionCase& shape : shapes) {
    for (const GraphAsked& what : graphs) {
      entries.push_back({{"graph", name_of(what.kind)}, {"type", name_of(what.type)}, {"shape", text_of(shape)}});
    }
  }
  for (const Phase phase : {Phase::ready, Phase::compiled}) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const double seconds = findings.left() / static_cast<double>(entries.size() - i);
      try_graph(asked, graphs[i % graphs.size()], shapes[i / graphs.size()], phase, seconds, findings, entries[i]);
    }
  }
}

}  // namespace

void ask_statistics(const Setting& setting, Findings& findings) {
  ask_graphs(setting, findings, kForward, {{GraphKind::forward_stats, Numbers::bf16}, {GraphKind::forward_stats, Numbers::f16}});
}

void ask_scaled_statistics(const Setting& setting, Findings& findings) {
  ask_graphs(setting, findings, kForward, {{GraphKind::scaled_stats, Numbers::bf16}, {GraphKind::scaled_stats, Numbers::f16}});
}

void ask_gradient_beta(const Setting& setting, Findings& findings) {
  ask_graphs(setting, findings, kGradient, {{GraphKind::data_gradient_beta, Numbers::bf16}});
}

void ask_gradient_add(const Setting& setting, Findings& findings) {
  ask_graphs(setting, findings, kGradient, {{GraphKind::data_gradient_add, Numbers::bf16}});
}

void ask_epilogues(const Setting& setting, Findings& findings) {
  ask_graphs(
      setting, findings, kForward,
      {{GraphKind::bias_relu, Numbers::bf16}, {GraphKind::bias_gelu, Numbers::bf16}, {GraphKind::bias_gelu_tanh, Numbers::bf16}});
}

void ask_weight_gradient(const Setting& setting, Findings& findings) {
  ask_graphs(setting, findings, kForward, {{GraphKind::weight_gradient_f32, Numbers::bf16}});
}

}  // namespace millrace::gpu
