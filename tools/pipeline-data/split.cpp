// pipeline-data split: writes lists that divide a data set.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "data_parts.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "millrace/util/paths.h"
#include "verbs.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A CSV field, quoted if necessary.
std::string quoted(const std::string& text) {
  constexpr std::string_view kBlanks = " \t";  // ignored around a bare field
  const bool has_blanks =
      !text.empty() && (kBlanks.find(text.front()) != kBlanks.npos || kBlanks.find(text.back()) != kBlanks.npos);
  if (!has_blanks && text.find_first_of(",\"\r\n") == text.npos) return text;
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

void require_listable(const DataSet& data) {
  if (data.line().source().numbers() > 0 || data.build().data().target.kind != TargetSpec::Kind::none) {
    fail(ErrorKind::usage, "a list of files and labels cannot hold this set's numbers or targets; use `part` in the file");
  }
  const StagePlan& source = data.graph().stages.front();
  const std::string place = fmt::format("{}.{}", data.graph().name, source.name);
  if (source.table.find("part")) {
    fail(ErrorKind::usage, "{}.part divides this set already, as data.held_out does: train without a split, or remove the key",
         place);
  }
  if (source.table.find("limit")) fail(ErrorKind::usage, "{}.limit shortens this set: remove the key, then split", place);
}

// A row of a list. An unreadable file also has one: it still belongs to the source.
std::string row(const DataSet& data, std::uint64_t at, const std::vector<std::string>& classes, Sample& sample) {
  const std::uint64_t index = data.line().order().listed(at);
  data.load({0, at, index, 0}, DataLine::Depth::encoded, sample);
  if (!sample.member.empty() || sample.decoded.is_static())
    fail(ErrorKind::usage, "'{}' is in an archive, which a list cannot name; use `part` in the file", sample.place());
  const std::int32_t label = data.line().order().label(data.line().source().label(index));
  if (label < 0) fail(ErrorKind::usage, "'{}' has no label, and a list needs one; use `part` in the file", sample.place());
  const auto number = static_cast<std::size_t>(label);
  const std::string url =
      sample.url.find("://") == std::string::npos ? fs::absolute(sample.url).lexically_normal().string() : sample.url;
  // If classes have no names, read_list uses their numbers.
  return fmt::format("{},{}\n", quoted(url), quoted(number < classes.size() ? classes[number] : std::to_string(number)));
}

struct List {
  fs::path path;
  std::string text;
  std::uint64_t samples = 0;
};

List make_list(const DataSetOptions& options, const fs::path& path) {
  const DataSet data(options, DataSet::Stages::source);
  const std::vector<std::string> classes = data.line().order().classes();
  List list{path, "file_name,label\n", data.line().order().listed()};
  Sample sample;
  for (std::uint64_t at = 0; at < list.samples; ++at) list.text += row(data, at, classes, sample);
  return list;
}

// Publishes none before all are written.
void write(const std::vector<List>& lists) {
  OutputFiles files;
  for (const List& list : lists) files.add(list.path.string(), list.text);
  files.commit();
  for (const List& list : lists) fmt::print("{:<24} {:>10} samples\n", list.path.string(), list.samples);
}

struct SplitOptions {
  DataSetOptions data;
  fs::path out = ".";
  std::int64_t seed = 0;
  std::vector<Part> parts;
};

void check_parts(const SplitOptions& options) {
  std::set<std::string> names;
  double total = 0;
  for (const Part& part : options.parts) {
    if (!names.insert(part.name).second) fail(ErrorKind::usage, "two parts are named '{}': each becomes a file", part.name);
    total += part.fraction;
  }
  if (total > 1 + 1e-9) fail(ErrorKind::usage, "the fractions add up to {:g}, more than 1", total);
}

// The path of a part's list.
fs::path list_path(const SplitOptions& options, const Part& part) { return options.out / (part.name + ".csv"); }

void make_folder(const SplitOptions& options) {
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) fail(ErrorKind::storage, "--out: cannot make folder '{}': {}", options.out.string(), error.message());
  for (const Part& part : options.parts) {
    const fs::path path = list_path(options, part);
    if (fs::exists(path, error)) fail(ErrorKind::usage, "'{}' already exists: remove it, or name another folder", path.string());
  }
}

std::vector<List> make_lists(const SplitOptions& options, const std::string& source) {
  std::vector<List> lists;
  double from = 0;
  for (const Part& part : options.parts) {
    DataSetOptions one = options.data;
    one.quiet = true;  // warnings about the whole set are already printed
    const double to = std::min(1.0, from + part.fraction);
    one.overrides.push_back(fmt::format("{}.part=[{}, {}]", source, from, to));
    one.overrides.push_back(fmt::format("{}.part_seed={}", source, options.seed));
    try {
      lists.push_back(make_list(one, list_path(options, part)));
    } catch (Error& error) {
      throw error.in(fmt::format("part '{}'", part.name));
    }
    from = to;
  }
  return lists;
}

int split(const SplitOptions& options) {
  check_parts(options);
  const DataSet whole(options.data, DataSet::Stages::source);
  require_listable(whole);
  warn_of_other_parts(whole, options.data);
  make_folder(options);
  write(make_lists(options, whole.graph().name + "." + whole.graph().stages.front().name));
  const std::vector<std::string> classes = whole.line().order().classes();
  if (classes.empty()) return 0;
  const Value names(Array(classes.begin(), classes.end()));
  fmt::print("for read_list, so that all parts number them alike, or with data.path as data.classes:\nclasses = {}\n",
             to_toml(names));
  return 0;
}

}  // namespace

int split_verb(int count, const char* const* arguments) {
  SplitOptions options;
  std::string out = ".", seed = "0";
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data split", "PIPELINE.toml NAME=FRACTION NAME=FRACTION ... [options]",
      "Divides the samples of a graph's source, each class in the same proportions, and writes a list (NAME.csv, with\n"
      "file_name and label) for each part, for read_list; prints the line that keeps the class numbers. Samples\n"
      "beyond the fractions are in no list. Without files: `part = [0, 0.8]` in one source and [0.8, 1] in another.");
  options.data.declare(reader);
  reader.option("--out", "FOLDER", "folder for the lists (.)", out).option("--seed", "N", "seed of the division (0)", seed);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() < 3) fail(ErrorKind::usage, "expected a pipeline and at least two parts; see pipeline-data split --help");
  options.data.file = rest[0];
  options.data.whole = true;
  options.out = local_path("--out", out);
  options.seed = integer("--seed", seed, 0, std::int64_t{1} << 62);
  for (std::size_t i = 1; i < rest.size(); ++i) options.parts.push_back(parse_part(rest[i]));
  return split(options);
}

}  // namespace millrace
