// pipeline-data check: every sample of a graph's source, read and decoded.
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "counter.h"
#include "data_set.h"
#include "millrace/error.h"
#include "millrace/util/json_lines.h"
#include "millrace/util/standard_error.h"
#include "stages/label_values.h"
#include "stop_signal.h"
#include "verbs.h"

namespace millrace {
namespace {

std::string ledger_line(const Sample& sample, const std::string& graph) {
  JsonLine line;
  line.add("graph", graph).add("path", sample.url).add("member", sample.member).add("offset", sample.offset);
  line.add("stage", sample.fault->stage).add("cause", sample.fault->cause).add("action", "checked");
  line.add("epoch", sample.key.epoch + 1).add("position", sample.key.position).add("index", sample.key.index);
  return line.add("attempt", sample.key.attempt).text();
}

constexpr std::uint64_t kLabelImages = 1000;  // that are looked at for values without a class

using Lines = std::map<std::uint64_t, std::string>;  // by index, so that the list is the same every time

// What is found goes to `bad` at once, so that it is there when a fault of another kind ends the search.
void find_bad(const DataSet& data, unsigned threads, Lines& bad) {
  const SampleOrder& order = data.line().order();
  std::vector<Sample> samples(threads);
  std::mutex mutex;
  Counter counter("checked", order.listed());
  for_each_sample(order.listed(), threads, [&](std::uint64_t i, unsigned thread) {
    if (stop_signal != 0) return;
    Sample& sample = samples[thread];
    data.load({0, i, order.listed(i), 0}, DataLine::Depth::decoded, sample);
    counter.add();
    if (!sample.fault) return;
    const std::lock_guard lock(mutex);
    bad[sample.key.index] = ledger_line(sample, data.build().plan().name);
  });
}

void print(const Lines& lines) {
  for (const auto& [index, text] : lines) fmt::print("{}\n", text);
}

}  // namespace

int check_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data check", "PIPELINE.toml [options]",
      "Reads every sample of a graph's source, takes it through the stages before `batch`, and prints a line of JSON for\n"
      "each bad one, as quarantine.jsonl has them; files that cannot be read are bad too. Exit code 3 when there are any.");
  options.declare(reader);
  options.declare_threads(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data check");
  install_signal_handlers();
  options.whole = options.graph.empty();
  const DataSet data(options, DataSet::Stages::images);
  const std::string values = warning_of_label_values(data.build(), data.context().seed, kLabelImages);
  if (!values.empty()) print_to_stderr("warning: {}\n", values);
  Lines bad;
  try {
    find_bad(data, options.thread_count(), bad);
  } catch (...) {
    print(bad);
    print_to_stderr("{} bad samples were found before this ended:\n", bad.size());
    throw;
  }
  print(bad);
  if (stop_signal != 0) {
    print_to_stderr("stopped: {} bad samples were found until then\n", bad.size());
    return 128 + stop_signal;
  }
  print_to_stderr("{} of {} samples are bad\n", bad.size(), data.line().order().listed());
  return bad.empty() ? 0 : exit_code(ErrorKind::content);
}

}  // namespace millrace
