// A graph for tests, built from stage types without a pipeline file.
//
//   testkit::TestGraph test;
//   test.add("read", StageTypeAccess::make<CountingSource>(), testkit::table({{"size", Value(std::int64_t{64})}}));
//   test.add("paint", StageTypeAccess::make<Paint>());
//   test.add("batch", StageTypeAccess::make<CountingBatcher>());
//   BatchLog& log = test.add<BatchLog>("log");
//   test.run({.threads = 2, .epochs = 3});
//
// As in `flow`, each input port is connected to the nearest earlier stage with an output port of its payload.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "testkit/harness.h"

namespace millrace::testkit {

class TestGraph {
 public:
  struct Options {
    int threads = 2;
    int io_threads = 2;
    std::uint64_t epochs = 1;
    std::uint32_t chunk = 0;
    std::uint32_t rank = 0, ranks = 1;
    bool guard = false;
    std::function<std::shared_ptr<std::uint8_t[]>(std::size_t)> host_buffer = nullptr;
  };

  explicit TestGraph(std::uint64_t seed = 1, int replicas = 1);

  void use(const Registry& registry) { registry_ = &registry; }  // for stages that need a registry; must outlive the graph

  // Makes and opens the stage: one instance, or one per replica.
  Stage& add(const std::string& name, StageType type, const Value& table = {});
  template <class T>
  T& add(const std::string& name, const Value& table = {}) {
    return dynamic_cast<T&>(add(name, StageTypeAccess::make<T>(), table));
  }
  template <class T = Stage>
  T& instance(const std::string& name, int replica);

  Graph& make(const Options& options);  // the graph, not yet started
  void run(const Options& options);     // runs all steps of all epochs; throws the graph's error
  Graph& graph() { return *graph_; }
  RecordedRun& recorded() { return run_; }
  std::uint64_t steps_per_epoch() const { return graph_options_.steps_per_epoch; }

 private:
  void connect(int to);

  std::uint64_t seed_;
  int replicas_;
  RecordedRun run_;
  const Registry* registry_ = nullptr;
  std::deque<StageType> types_;  // the plan keeps their addresses
  FlowPlan plan_;
  std::vector<std::vector<std::shared_ptr<Stage>>> stages_;
  ImageShape image_;  // after the current stages
  GraphOptions graph_options_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Graph> graph_;
};

template <class T>
T& TestGraph::instance(const std::string& name, int replica) {
  for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
    if (plan_.stages[i].name == name) return dynamic_cast<T&>(*stages_[i].at(static_cast<std::size_t>(replica)));
  }
  fail(ErrorKind::usage, "no stage '{}'", name);
}

}  // namespace millrace::testkit
