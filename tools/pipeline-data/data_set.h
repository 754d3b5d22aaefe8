// The data of one graph of a pipeline file, opened for looking at: what most verbs begin with.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "config/plan.h"
#include "millrace/plugin.h"
#include "run/data_line.h"

namespace millrace {

// Which data: options that are the same for every verb.
struct DataSetOptions {
  std::string file;
  std::string graph;  // empty: the first
  std::vector<std::string> overrides;
  std::string threads;

  // Declares --graph, --set and --threads.
  void declare(Arguments& arguments);
  unsigned thread_count() const;  // default: one for each processor
};

class DataSet {
 public:
  explicit DataSet(const DataSetOptions& options);

  const Registry& registry() const { return registry_; }
  const Pipeline& pipeline() const { return pipeline_; }
  const GraphBuild& build() const { return *build_; }
  const DataLine& line() const { return *line_; }
  // The names of the labels, as `only` leaves them; "label 3" where the source has none.
  std::string class_name(std::int32_t label) const;

 private:
  Registry registry_;
  Pipeline pipeline_;
  std::unique_ptr<GraphBuild> build_;
  std::unique_ptr<DataLine> line_;
};

// "checked 1200 of 50000" on standard error while something goes on: a line that renews itself on a terminal, nothing elsewhere.
// Thread-safe.
class Counter {
 public:
  Counter(std::string what, std::uint64_t of);
  ~Counter();
  void add();

 private:
  const std::string what_;
  const std::uint64_t of_;
  const bool terminal_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> shown_{0};  // when; milliseconds
};

}  // namespace millrace
