// The data of one graph of a pipeline file, opened for looking at: what most verbs begin with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "common/last_words.h"
#include "config/plan.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "stages/data_line.h"

namespace millrace {

// Which data: options that are the same for every verb.
struct DataSetOptions {
  std::string file;
  std::string graph;  // empty: the first
  std::vector<std::string> overrides;
  std::string threads;
  bool quiet = false;  // says no warnings
  bool whole = false;  // see LoadOptions::whole_data

  // --graph and --set. `default_graph`: what is read without --graph.
  void declare(Arguments& arguments, const char* default_graph = "the file's first graph");
  void declare_threads(Arguments& arguments);  // --threads
  unsigned thread_count() const;  // default: one for each processor
};

class DataSet {
 public:
  enum class Stages {
    source,  // the source alone, for who looks at no pixels
    images,  // all before `batch`, so that images may be of varying size
  };
  DataSet(const DataSetOptions& options, Stages stages);

  const Registry& registry() const { return registry_; }
  const Pipeline& pipeline() const { return pipeline_; }
  const GraphPlan& graph() const { return *graph_; }        // the whole graph, of which build() has the beginning
  const DataContext& context() const { return context_; }  // what is the same for all stages
  const GraphBuild& build() const { return *build_; }
  const DataLine& line() const { return *line_; }
  // What the network sees of an image. None without a network, and where images may have any size.
  ImageShape window() const { return context_.window; }
  // The names of the labels, as `only` leaves them; "label 3" where the source has none.
  std::string class_name(std::int32_t label) const;

  // How many another graph of the file reads. Throws as the constructor does; its source warns of nothing.
  std::uint64_t samples_of(const GraphPlan& graph) const;

  // As line().load(), but a file that cannot be read is a bad sample as well. (A fault of a network is thrown.)
  void load(const SampleKey& key, DataLine::Depth depth, Sample& sample) const;

 private:
  const LastWords last_words_{"pipeline-data"};
  Registry registry_;
  std::unique_ptr<RunServices> run_;
  Pipeline pipeline_;
  const GraphPlan* graph_ = nullptr;
  GraphPlan plan_;  // its beginning
  DataContext context_;
  std::unique_ptr<GraphBuild> build_;
  std::unique_ptr<DataLine> line_;
};

}  // namespace millrace
