// pipeline-data check: every sample of a graph's source, read and decoded; and replay: one of a ledger's again.
#include <fmt/format.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "data_set.h"
#include "millrace/error.h"
#include "verbs.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json ledger_line(const Sample& sample, const std::string& graph) {
  return {{"graph", graph},
          {"path", sample.url},
          {"member", sample.member},
          {"offset", sample.offset},
          {"stage", sample.fault->stage},
          {"cause", sample.fault->cause},
          {"action", "checked"},
          {"epoch", sample.key.epoch + 1},
          {"position", sample.key.position},
          {"index", sample.key.index},
          {"attempt", sample.key.attempt}};
}

}  // namespace

int check_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data check", "PIPELINE.toml [options]",
      "Reads every sample of a graph's source, takes it through the stages before `batch`, and prints a line of JSON for\n"
      "each bad one, as quarantine.jsonl has them. Exit code 3 when there are any.");
  options.declare(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data check");
  const DataSet data(options);
  const DataLine& line = data.line();
  const unsigned threads = options.thread_count();
  std::vector<Sample> samples(threads);
  std::map<std::uint64_t, std::string> bad;  // by index, so that the list is the same every time
  std::mutex mutex;
  {
    Counter counter("checked", line.order().listed());
    for_each_sample(line.order().listed(), threads, [&](std::uint64_t i, unsigned thread) {
      Sample& sample = samples[thread];
      line.load({0, i, line.order().listed(i), 0}, DataLine::Depth::decoded, sample);
      counter.add();
      if (!sample.fault) return;
      const std::lock_guard lock(mutex);
      bad[sample.key.index] = ledger_line(sample, data.build().plan().name).dump(-1, ' ', false, Json::error_handler_t::replace);
    });
  }
  for (const auto& [index, text] : bad) fmt::print("{}\n", text);
  fmt::print(stderr, "{} of {} samples are bad\n", bad.size(), line.order().listed());
  return bad.empty() ? 0 : exit_code(ErrorKind::content);
}

namespace {

// The numbered line of a ledger, from 1.
Json read_ledger(const std::string& path, std::int64_t number) {
  std::ifstream file(path);
  if (!file) fail(ErrorKind::usage, "ledger '{}' cannot be read", path);
  std::string text;
  for (std::int64_t at = 1; std::getline(file, text); ++at) {
    if (at != number) continue;
    Json line = Json::parse(text, nullptr, false);
    const bool whole = line.is_object() && line.contains("graph") && line["graph"].is_string() && line.contains("index") &&
                       line["index"].is_number_unsigned() && line.contains("epoch") && line["epoch"].is_number_unsigned() &&
                       line.contains("position") && line["position"].is_number_unsigned();
    if (!whole) fail(ErrorKind::usage, "{}:{}: this is no line of a ledger", path, number);
    return line;
  }
  fail(ErrorKind::usage, "ledger '{}' has no line {}", path, number);
}

}  // namespace

int replay_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::string line_text = "1";
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data replay", "LEDGER [options]",
      "Repeats what a run did with one bad sample: the same draws, the same stages. The pipeline is the one beside the\n"
      "ledger (pipeline.toml in the run's folder) unless --pipeline names another. Exit code 3 when it is bad still.");
  reader.option("--line", "N", "which line of the ledger (1)", line_text)
      .option("--pipeline", "FILE", "instead of the run's own", options.file)
      .repeated("--set", "KEY=VALUE", "change a key of the file", options.overrides);
  if (!reader.read(count, arguments, rest)) return 0;
  const std::string ledger = only_file(rest, "pipeline-data replay");
  const Json entry = read_ledger(ledger, integer("--line", line_text, 1, std::int64_t{1} << 40));
  if (options.file.empty()) options.file = (std::filesystem::path(ledger).parent_path() / "pipeline.toml").string();
  options.graph = entry["graph"];
  const DataSet data(options);
  const std::uint64_t index = entry["index"], position = entry["position"], epoch = entry["epoch"];
  if (index >= data.line().source().size())
    fail(ErrorKind::data, "the source has {} samples now, not one with index {}", data.line().source().size(), index);
  Sample sample;
  data.line().load({std::max<std::uint64_t>(epoch, 1) - 1, position, index, entry.value("attempt", 0U)}, DataLine::Depth::decoded,
                   sample);
  if (sample.url != entry.value("path", sample.url) || sample.member != entry.value("member", sample.member)) {
    Sample then;
    then.url = entry.value("path", "");
    then.member = entry.value("member", "");
    fail(ErrorKind::data, "sample {} of the source is '{}' now, and was '{}' in that run: the data or the pipeline have changed", index,
         sample.place(), then.place());
  }
  fmt::print("sample    {}\n", sample.place());
  fmt::print("was       {} ({})\n", entry.value("cause", ""), entry.value("stage", ""));
  if (sample.fault) {
    fmt::print("is        {} ({})\n", sample.fault->cause, sample.fault->stage);
    return exit_code(ErrorKind::content);
  }
  fmt::print("is        in order: {} of class '{}'\n", to_string(sample.image().shape), data.class_name(sample.label));
  return 0;
}

}  // namespace millrace
