// pipeline-data replay: reads one bad sample of a run's ledger again.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/characters.h"
#include "base/secrets.h"
#include "data_set.h"
#include "millrace/error.h"
#include "millrace/util/text.h"
#include "verbs.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

bool is_entry(const Json& line) {
  const auto all = [&](std::initializer_list<const char*> keys, bool (Json::*is_type)() const noexcept) {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return line.contains(key) && (line[key].*is_type)(); });
  };
  return line.is_object() && all({"graph", "path", "member", "stage", "cause"}, &Json::is_string) &&
         all({"epoch", "position", "index", "attempt"}, &Json::is_number_unsigned);
}

// A name in a ledger's form: as text, without passwords in URLs.
std::string in_ledger(const std::string& name) { return name_text(without_secrets(name)); }

// The numbered line of a ledger, from 1.
Json read_ledger(const std::string& path, std::int64_t number) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) fail(ErrorKind::usage, "ledger '{}' cannot be read", path);
  std::string text;
  for (std::int64_t at = 1; std::getline(file, text); ++at) {
    if (at != number) continue;
    Json line = Json::parse(text, nullptr, false);
    if (!is_entry(line)) fail(ErrorKind::usage, "{}:{}: this is not a line of a ledger", path, number);
    return line;
  }
  fail(ErrorKind::usage, "ledger '{}' has no line {}", path, number);
}

}  // namespace

int replay_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::string line_number = "1";
  std::vector<std::string> rest;
  Arguments reader("pipeline-data replay", "LEDGER [options]",
                   "Repeats a run's work on one bad sample: same draws, same stages. The pipeline is pipeline.toml next to the\n"
                   "ledger unless --pipeline names another. Exit code 3 if the sample is still bad.");
  reader.option("--line", "N", "line of the ledger (1)", line_number)
      .option("--pipeline", "FILE", "pipeline instead of the run's own", options.file)
      .repeated("--set", "KEY=VALUE", "set a key of the file", options.overrides);
  if (!reader.read(count, arguments, rest)) return 0;
  const std::string ledger = only_file(rest, "pipeline-data replay");
  const Json entry = read_ledger(ledger, integer("--line", line_number, 1, std::int64_t{1} << 40));
  if (options.file.empty()) options.file = (std::filesystem::path(ledger).parent_path() / "pipeline.toml").string();
  options.graph = entry["graph"];
  const DataSet data(options, DataSet::Stages::images);
  const std::uint64_t index = entry["index"], position = entry["position"], epoch = entry["epoch"];
  const std::string url = entry["path"], member = entry["member"];
  if (index >= data.line().source().size())
    fail(ErrorKind::data, "the source has {} samples now, not one with index {}", data.line().source().size(), index);
  Sample sample;
  data.load({std::max<std::uint64_t>(epoch, 1) - 1, position, index, entry["attempt"]}, DataLine::Depth::decoded, sample);
  if (in_ledger(sample.url) != url || in_ledger(sample.member) != member) {
    Sample then;
    then.url = url;
    then.member = member;
    fail(ErrorKind::data, "sample {} of the source is '{}' now, and was '{}' in that run: the data or the pipeline have changed",
         index, sample.place(), then.place());
  }
  fmt::print("sample    {}\n", sample.place());
  fmt::print("was       {} ({})\n", line_text(entry["cause"].get<std::string>()), line_text(entry["stage"].get<std::string>()));
  if (sample.fault) {
    fmt::print("is        {} ({})\n", line_text(sample.fault->cause), sample.fault->stage);
    return exit_code(ErrorKind::content);
  }
  fmt::print("is        in order: {}{}\n", to_string(sample.image().shape),
             sample.label < 0 ? "" : fmt::format(" of class '{}'", data.class_name(sample.label)));
  return 0;
}

}  // namespace millrace
