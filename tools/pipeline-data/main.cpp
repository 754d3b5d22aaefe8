// pipeline-data VERB: makes and inspects data sets.
#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/arguments.h"
#include "common/manual.h"
#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "verbs.h"

namespace millrace {
namespace {

struct Verb {
  std::string_view name;
  std::string_view text;
  int (*run)(int count, const char* const* arguments);
};

constexpr Verb kVerbs[] = {
    {"shapes", "draws a labelled data set of ten classes", &shapes_verb},
    {"count", "counts the samples of each class", &count_verb},
    {"statistics", "mean, deviation, sizes, labels", &statistics_verb},
    {"check", "reads everything and lists bad samples", &check_verb},
    {"replay", "repeats one bad sample of a run's ledger", &replay_verb},
    {"show", "draws the network's input", &show_verb},
    {"pack", "writes a data set as tar shards", &pack_verb},
    {"split", "divides a data set into lists", &split_verb},
    {"convert", "writes annotations as COCO or YOLO", &convert_verb},
    {"hash", "prints or compares a manifest of all bytes", &hash_verb},
    {"copy", "copies a folder to or from another machine's storage", &copy_verb},
};

constexpr const char* kPurpose = "Makes and inspects data sets.";

std::string help() {
  std::string text = fmt::format("usage: pipeline-data VERB ...\n\n{}\n\n", kPurpose);
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<24} {}\n", verb.name, verb.text);
  return text + "\npipeline-data VERB --help explains a verb.\n" + exit_codes_text();
}

void print_manual() {
  fmt::print("{}.SH VERBS\n", manual_start({"pipeline-data", "VERB ...", kPurpose, {}}));
  for (const Verb& verb : kVerbs) {
    const std::array<const char*, 2> asked = {verb.name.data(), "--help=section"};
    verb.run(2, asked.data());
  }
  fmt::print("{}", manual_end("pipeline-data"));
}

// `words`: those after "--complete". A verb completes its own options.
int complete(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    for (const Verb& verb : kVerbs) {
      if (!words.empty() && verb.name.starts_with(words[0])) fmt::print("{}\t{}\n", verb.name, verb.text);
    }
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (verb.name != words[0]) continue;
    std::vector<const char*> asked = {verb.name.data(), "--complete"};
    for (std::size_t i = 1; i < words.size(); ++i) asked.push_back(words[i].c_str());
    return verb.run(static_cast<int>(asked.size()), asked.data());
  }
  return 0;
}

int run(int count, const char* const* arguments) {
  const std::string_view name = count > 1 ? arguments[1] : "";
  if (name == "--help" || name == "-h") {
    fmt::print("{}", help());
    return 0;
  }
  if (name == "--version") {
    fmt::print("{}", version_text("pipeline-data"));
    return 0;
  }
  if (name == "--complete") return complete({arguments + 2, arguments + count});
  if (name == "--help=man") {
    print_manual();
    return 0;
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return verb.run(count - 1, arguments + 1);
    names.emplace_back(verb.name);
  }
  if (name.empty()) fail(ErrorKind::usage, "expected a verb: {}", fmt::join(names, ", "));
  const auto near = nearest_name(name, names);
  fail(ErrorKind::usage, "unknown verb '{}'{}; see pipeline-data --help", name,
       near ? fmt::format("; nearest is '{}'", *near) : "");
}

}  // namespace
}  // namespace millrace

int main(int count, char** arguments) {
  return millrace::run_tool("pipeline-data", [&] { return millrace::run(count, arguments); });
}
