#include "run_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command_line.h"
#include "common/arguments.h"
#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/util/standard_error.h"
#include "toml/document.h"

namespace millrace {
namespace {

// A file without the lines that break its TOML syntax, and without `extends`.
Value readable_lines(const std::string& file) {
  constexpr int kMaxLeftOut = 100;
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  for (int left_out = 0; left_out <= kMaxLeftOut; ++left_out) {
    Diagnostics errors;
    if (auto document = parse_toml(fmt::format("{}\n", fmt::join(lines, "\n")), file, errors)) return *document;
    std::size_t at = std::min(static_cast<std::size_t>(std::max(errors.entries().front().at.line, 1)), lines.size());
    while (at > 0 && lines[at - 1].empty()) --at;  // a construct open at the end of the file began before
    if (at == 0) break;
    lines[at - 1].clear();
  }
  return Value(Table{});
}

// Where the other ranks may look for this one despite an error in the file: as far as it is readable.
std::string folder_of_runs(const CommandLine& line) {
  Diagnostics ignored;
  std::optional<Value> read = read_document(line.file, {}, ignored);
  Value document = read ? *std::move(read) : readable_lines(line.file);
  for (const std::string& set : line.overrides) apply_override(set, document, ignored);
  std::set<std::string> referred;
  const Value resolved = resolve_document(document, referred, ignored);
  const Value* const run = resolved.find("run");
  const Value* const folder = run != nullptr && run->kind() == Value::Kind::table ? run->find("folder") : nullptr;
  return folder != nullptr && folder->kind() == Value::Kind::text ? folder->text() : RunParams().folder;
}

}  // namespace

RankPlace rank_place(const CommandLine& line) {
  RankPlace place = find_rank(line.ranks.options, current_environment());
  if (!place.notice.empty()) print_to_stderr("warning: {}\n", place.notice);
  if (place.ranks == 1) return place;
  if (line.processes > 1) {
    fail(ErrorKind::usage, "--processes starts ranks itself, and this is one of {}: {}", place.ranks, place.source);
  }
  const char* const alone = !line.predict.empty() ? "--predict" : line.tries() ? "--overfit and --find-rate" : nullptr;
  if (alone != nullptr) {
    fail(ErrorKind::usage, "{} runs in one process, and this is one of {}: {}", alone, place.ranks, place.source);
  }
  return place;
}

void tell_other_ranks(const RankPlace& place, CommandLine line, const Error& mistake) {
  constexpr std::int64_t kWait = 20;  // seconds; launchers start ranks together
  try {
    line.ranks.wait = std::to_string(std::min(kWait, integer("--wait", line.ranks.wait, 1, 1'000'000)));
    SocketGroup group(join_ranks(place, line.ranks, folder_of_runs(line), true));
    group.leave(&mistake);
  } catch (const Error&) {  // they are missing, or end because of another mistake
  }
}

void require_same_command(const CommandLine& line, Group& group) {
  const RunOptions& options = line.options;
  std::string mine;
  const auto add = [&](bool is_given, std::string_view text) {
    if (is_given) mine += fmt::format(" {}", text);
  };
  add(line.check, "--check");
  add(options.resume.run.has_value(), "--resume");
  add(options.compare_data, "--compare-data");
  add(line.verify > 0, fmt::format("--verify {}", line.verify));
  add(!line.explain.empty(), "--explain-nan");
  add(!options.weights.empty(), "--weights");
  add(!options.graph.empty(), fmt::format("--graph {}", options.graph));
  add(options.from.epoch > 0 || options.from.step > 0,
      fmt::format("--from {}:{}", options.from.epoch + 1, options.from.step + 1));
  for (const std::string& key : options.resume.allow_change) add(true, fmt::format("--allow-change {}", key));
  const auto all = group.all_gather(Group::kRun, std::as_bytes(std::span(mine)));
  const auto text_of = [&](std::size_t rank) {
    return all[rank].empty() ? std::string(" none of these")
                             : std::string(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail(ErrorKind::usage, "ranks were started with different options: rank 0 with{}, rank {} with{}", text_of(0), rank,
         text_of(rank));
  }
}

}  // namespace millrace
