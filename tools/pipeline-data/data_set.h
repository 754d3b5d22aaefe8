// The data of one graph of a pipeline file, opened for inspection: the first step of most verbs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "prepare/data_line.h"

namespace millrace {

// Selects the data: options common to all verbs.
struct DataSetOptions {
  std::string file;
  std::string graph;  // empty: the first
  std::vector<std::string> overrides;
  std::string threads;
  bool quiet = false;  // suppresses warnings
  bool whole = false;  // see LoadOptions::whole_data

  // --graph and --set. `default_graph`: the graph used without --graph.
  void declare(Arguments& arguments, const char* default_graph = "the file's first graph");
  void declare_threads(Arguments& arguments);  // --threads
  unsigned thread_count() const;  // default: one per processor
};

class DataSet {
 public:
  enum class Stages {
    source,  // only the source, for uses without pixels
    images,  // all stages before `batch`, so that images may vary in size
  };
  DataSet(const DataSetOptions& options, Stages stages);

  const Registry& registry() const { return registry_; }
  const Pipeline& pipeline() const { return pipeline_; }
  const GraphPlan& graph() const { return *graph_; }        // the whole graph; build() has its first stages
  const DataContext& context() const { return context_; }  // common to all stages
  const GraphBuild& build() const { return *build_; }
  const DataLine& line() const { return *line_; }
  // The part of an image that the network sees. Empty without a network, and for images of any size.
  ImageShape window() const { return context_.window; }
  // The name of a label, after `only`; "label 3" if the source has none.
  std::string class_name(std::int32_t label) const;

  // Number of samples in another graph of the file. Throws like the constructor; its source logs no warnings.
  std::uint64_t samples_of(const GraphPlan& graph) const;

  // Same as line().load(), but an unreadable file is also a bad sample. (A network error is thrown.)
  void load(const SampleKey& key, DataLine::Depth depth, Sample& sample) const;

 private:
  const LastWords last_words_{"pipeline-data"};
  Registry registry_;
  std::unique_ptr<RunServices> run_;
  Pipeline pipeline_;
  const GraphPlan* graph_ = nullptr;
  GraphPlan plan_;  // its first stages
  DataContext context_;
  std::unique_ptr<GraphBuild> build_;
  std::unique_ptr<DataLine> line_;
};

}  // namespace millrace
