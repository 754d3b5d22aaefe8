// pipeline-data split: lists that divide a data set, for those who want the division as files.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "data_set.h"
#include "millrace/error.h"
#include "verbs.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A field of CSV, in quotes where it needs them.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

struct Part {
  std::string name;
  double fraction = 0;
};

// "train=0.8"
Part parse_part(const std::string& text) {
  const std::size_t at = text.find('=');
  char* end = nullptr;
  const double fraction = at == text.npos ? 0 : std::strtod(text.c_str() + at + 1, &end);
  if (at == 0 || !end || *end != '\0' || !(fraction > 0 && fraction <= 1) || text.find('/') != text.npos) {
    fail(ErrorKind::usage, "expected NAME=FRACTION such as train=0.8, found '{}'", text);
  }
  return {text.substr(0, at), fraction};
}

// Returns the names of the classes, by number.
std::vector<std::string> write_part(const DataSetOptions& options, const fs::path& path) {
  const DataSet data(options);
  const DataLine& line = data.line();
  if (line.source().numbers() > 0 || data.build().target().kind != TargetSpec::Kind::none) {
    fail(ErrorKind::usage, "a list of files and labels cannot hold this set's numbers or targets; use `part` in the file");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wx"), &std::fclose);
  if (!file) fail(ErrorKind::usage, "'{}' cannot be made: it is there already, or the folder is not", path.string());
  fmt::print(file.get(), "file_name,label\n");
  Sample sample;
  for (std::uint64_t at = 0; at < line.order().listed(); ++at) {
    line.load({0, at, line.order().listed(at), 0}, DataLine::Depth::encoded, sample);
    if (!sample.member.empty() || sample.decoded.is_static())
      fail(ErrorKind::usage, "'{}' lies in an archive, which a list cannot name; use `part` in the file", sample.place());
    const std::string url =
        sample.url.find("://") == std::string::npos ? fs::absolute(sample.url).lexically_normal().string() : sample.url;
    fmt::print(file.get(), "{},{}\n", quoted(url), quoted(data.class_name(sample.label)));
  }
  if (std::fflush(file.get()) != 0) fail(ErrorKind::storage, "'{}' cannot be written", path.string());
  fmt::print("{:<24} {:>10} samples\n", path.string(), line.order().listed());
  return line.order().classes();
}

}  // namespace

int split_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::string out = ".", seed = "0";
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data split", "PIPELINE.toml NAME=FRACTION NAME=FRACTION ... [options]",
      "Divides the samples of a graph's source, each class in the same proportions, and writes one list (CSV: file_name,\n"
      "label) for each part, for read_list. Without files: `part = [0, 0.8]` in one source and [0.8, 1] in another.");
  options.declare(reader);
  reader.option("--out", "FOLDER", "where the lists go (.)", out).option("--seed", "N", "another division (0)", seed);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() < 3) fail(ErrorKind::usage, "expected a pipeline and at least two parts; see pipeline-data split --help");
  options.file = rest[0];
  std::vector<Part> parts;
  double total = 0;
  for (std::size_t i = 1; i < rest.size(); ++i) total += parts.emplace_back(parse_part(rest[i])).fraction;
  if (total > 1 + 1e-9) fail(ErrorKind::usage, "the fractions add up to {:g}, more than 1", total);

  Registry registry;
  registry.load_all();
  const Pipeline pipeline = load_pipeline(options.file, options.overrides, registry);
  const GraphPlan* graph = options.graph.empty() ? &pipeline.graphs.front() : pipeline.graph(options.graph);
  if (!graph) fail(ErrorKind::usage, "--graph: {} has no graph '{}'", options.file, options.graph);
  const std::string source = graph->name + "." + graph->stages.front().name;
  for (const char* key : {"part", "limit"}) {
    if (graph->stages.front().table.find(key)) {
      fail(ErrorKind::usage, "{} has '{}' itself: take it out of the file, then divide", source, key);
    }
  }
  fs::create_directories(out);
  std::vector<std::string> classes;
  double from = 0;
  for (const Part& part : parts) {
    DataSetOptions one = options;
    const double to = std::min(1.0, from + part.fraction);
    one.overrides.push_back(fmt::format("{}.part=[{}, {}]", source, from, to));
    one.overrides.push_back(fmt::format("{}.part_seed={}", source, integer("--seed", seed, 0, std::int64_t{1} << 62)));
    classes = write_part(one, fs::path(out) / (part.name + ".csv"));
    from = to;
  }
  for (std::string& name : classes) name = '"' + name + '"';
  if (!classes.empty()) fmt::print("for read_list, so that all parts number them alike:  classes = [{}]\n", fmt::join(classes, ", "));
  return 0;
}

}  // namespace millrace
