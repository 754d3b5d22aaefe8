// pipeline-data check: reads and decodes every sample of a run's graphs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/characters.h"
#include "counter.h"
#include "data_parts.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/standard_error.h"
#include "run/doctor/doctor.h"
#include "stop_signal.h"
#include "verbs.h"

namespace millrace {
namespace {

std::string ledger_line(const Sample& sample, const std::string& graph) {
  JsonLine line;
  line.add("graph", graph)
      .add("path", name_text(sample.url))
      .add("member", name_text(sample.member))
      .add("offset", sample.offset);
  line.add("stage", sample.fault->stage).add("cause", sample.fault->cause).add("action", "checked");
  line.add("epoch", sample.key.epoch + 1).add("position", sample.key.position).add("index", sample.key.index);
  return line.add("attempt", sample.key.attempt).text();
}

constexpr std::uint64_t kLabelImages = 1000;  // checked for values without a class

// The same for a file from any source.
std::uint64_t place_hash(const Sample& sample) {
  return hash_text(fmt::format("{}\n{}\n{}\n{}", sample.url, sample.member, sample.offset, sample.target_url));
}

// Findings in the parts of a data set, each sample once.
class Findings {
 public:
  // Findings are stored at once, so that they remain when another kind of error ends the search.
  void search(const DataSet& data, unsigned threads);
  void print() const {
    for (const auto& [place, text] : bad_) fmt::print("{}\n", text);
  }
  std::size_t bad() const { return bad_.size(); }
  std::uint64_t samples() const { return samples_; }

 private:
  std::map<std::pair<int, std::uint64_t>, std::string> bad_;  // by part and index: the list is the same every time
  std::vector<std::uint64_t> places_;                         // hashes of samples in earlier parts, sorted
  std::uint64_t samples_ = 0;
  int part_ = 0;
};

void Findings::search(const DataSet& data, unsigned threads) {
  const SampleOrder& order = data.line().order();
  std::vector<Sample> samples(threads);
  std::vector<std::uint64_t> places(order.listed());
  std::mutex mutex;
  std::uint64_t again = 0;
  Counter counter("checked", order.listed());
  for_each_sample(order.listed(), threads, [&](std::uint64_t i, unsigned thread) {
    if (stop_signal != 0) return;
    Sample& sample = samples[thread];
    data.load({0, i, order.listed(i), 0}, DataLine::Depth::decoded, sample);
    counter.add();
    places[i] = place_hash(sample);
    const bool is_known = !sample.url.empty() && std::ranges::binary_search(places_, places[i]);
    if (!is_known && !sample.fault) return;
    const std::lock_guard lock(mutex);
    if (is_known)
      ++again;
    else
      bad_[{part_, sample.key.index}] = ledger_line(sample, data.build().plan().name);
  });
  samples_ += order.listed() - again;
  places_.insert(places_.end(), places.begin(), places.end());
  std::ranges::sort(places_);
  ++part_;
}

void search_part(const DataSet& data, unsigned threads, Findings& findings) {
  const auto warn = [](const std::string& text) { print_to_stderr("warning: {}\n", text); };
  look_at_label_values(data.build(), data.context().seed, kLabelImages, warn);
  look_at_class_names(data.build(), warn);
  findings.search(data, threads);
}

// Returns the remaining graphs.
std::vector<std::string> search_first(const DataSetOptions& options, Findings& findings) {
  const DataSet data(options, DataSet::Stages::images);
  std::vector<std::string> others;
  if (options.graph.empty()) {
    for (const GraphPlan* part : other_parts(data)) others.push_back(part->name);
  }
  search_part(data, options.thread_count(), findings);
  return others;
}

void search_all(DataSetOptions options, Findings& findings) {
  for (const std::string& graph : search_first(options, findings)) {
    if (stop_signal != 0) return;
    options.graph = graph;
    search_part(DataSet(options, DataSet::Stages::images), options.thread_count(), findings);
  }
}

}  // namespace

int check_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader("pipeline-data check", "PIPELINE.toml [options]",
                   "Reads every sample of a run's graphs once, up to `batch`, and prints each bad one as a line of JSON, as in\n"
                   "quarantine.jsonl; unreadable files are bad too. Exit code 3 if there are any.");
  options.declare(reader, "all but those with every = \"never\"");
  options.declare_threads(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data check");
  install_signal_handlers();
  options.whole = options.graph.empty();
  Findings findings;
  try {
    search_all(options, findings);
  } catch (...) {
    findings.print();
    print_to_stderr("{} bad samples were found before this ended:\n", findings.bad());
    throw;
  }
  findings.print();
  if (stop_signal != 0) {
    print_to_stderr("stopped: {} bad samples were found until then\n", findings.bad());
    return 128 + stop_signal;
  }
  print_to_stderr("{} of {} samples are bad\n", findings.bad(), findings.samples());
  return findings.bad() == 0 ? 0 : exit_code(ErrorKind::content);
}

}  // namespace millrace
