#include "trace_file.h"

#include <filesystem>

#include "common/arguments.h"
#include "millrace/error.h"
#include "millrace/util/standard_error.h"

namespace millrace {

TraceWish trace_wish(std::string_view text) {
  constexpr std::int64_t kMax = 1'000'000'000'000;
  const std::size_t colon = text.rfind(':');
  const std::string_view steps = colon == text.npos ? "" : text.substr(colon + 1);
  const bool has_steps = !steps.empty() && steps.find_first_not_of("0123456789-") == steps.npos;
  TraceWish wish{std::string(has_steps ? text.substr(0, colon) : text), {}};
  const std::size_t dash = steps.find('-');
  if (wish.file.empty() || (has_steps && dash == steps.npos)) {
    fail(ErrorKind::usage, "--trace: expected FILE or FILE:FIRST-LAST with two steps, found '{}'", text);
  }
  if (!has_steps) return wish;
  const std::int64_t first = integer("--trace", std::string(steps.substr(0, dash)), 1, kMax);
  const std::int64_t last = integer("--trace", std::string(steps.substr(dash + 1)), first, kMax);
  wish.steps = {static_cast<std::uint64_t>(first - 1), static_cast<std::uint64_t>(last - 1)};
  return wish;
}

std::string trace_mistake(const TraceWish& wish, std::uint64_t steps) {
  if (wish.steps.first < steps) return {};
  return fmt::format("--trace: the run has {} step{}, and the trace would begin with step {}: it will be empty", steps,
                     steps == 1 ? "" : "s", wish.steps.first + 1);
}

std::string trace_file_name(const std::string& file, int rank) {
  if (rank == 0) return file;
  std::filesystem::path path(file);
  path.replace_filename(path.stem().string() + ".rank" + std::to_string(rank) + path.extension().string());
  return path.string();
}

TraceFile::TraceFile(const TraceWish& wish, int rank)
    : path_(trace_file_name(wish.file, rank)), rank_(rank), file_(path_), trace_(wish.steps) {}

TraceFile::~TraceFile() {
  try {
    write();
  } catch (const std::exception& error) {  // the run is complete, whether or not its trace can be written
    print_to_stderr("warning: the trace is lost: {}\n", error.what());
  }
}

void TraceFile::write() {
  trace_.stop();
  file_.write(trace_json(trace_.tracks(), rank_));
  file_.commit();
  const std::uint64_t lost = trace_.lost();
  print_to_stderr(
      "trace: {}{}\n", path_,
      lost == 0 ? ""
                : fmt::format(" (without the first {} slices: --trace {}:FIRST-LAST keeps all of fewer steps)", lost, path_));
}

}  // namespace millrace
