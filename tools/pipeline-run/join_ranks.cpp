#include "join_ranks.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "command_line.h"
#include "common/arguments.h"
#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/util/standard_error.h"

namespace millrace {
namespace {

std::string job_key_text(const RankWishes& wishes) {
  if (wishes.key_file.empty()) {
    const char* const key = std::getenv("MILLRACE_JOB_KEY");
    return key == nullptr ? "" : key;
  }
  std::ifstream file(wishes.key_file);
  std::stringstream text;
  if (!(text << file.rdbuf())) fail(ErrorKind::usage, "--job-key: '{}' cannot be read, or is empty", wishes.key_file);
  return text.str();
}

// Of the run's own, which all ranks share where they share a disk.
std::string rendezvous_folder(const RankPlace& place, const RankWishes& wishes, const Pipeline& pipeline) {
  if (!wishes.rendezvous.empty()) return wishes.rendezvous;
  if (!place.job.empty() && !pipeline.run.folder.empty()) return std::filesystem::path(pipeline.run.folder) / ".rendezvous";
  fail(ErrorKind::usage,
       "{} does not say where rank 0 is: give --master HOST:PORT, or --rendezvous FOLDER, which all ranks share", place.told_by);
}

}  // namespace

RankPlace rank_place(const CommandLine& line) {
  RankPlace place = find_rank(line.ranks.options, current_environment());
  if (!place.notice.empty()) print_to_stderr("warning: {}\n", place.notice);
  if (place.ranks == 1) return place;
  if (line.processes > 1) {
    fail(ErrorKind::usage, "--processes starts ranks itself, and this is one of {}: {}", place.ranks, place.told_by);
  }
  const char* const alone = !line.predict.empty() ? "--predict" : line.tries() ? "--overfit and --find-rate" : nullptr;
  if (alone != nullptr) {
    fail(ErrorKind::usage, "{} runs in one process, and this is one of {}: {}", alone, place.ranks, place.told_by);
  }
  return place;
}

Connections join_ranks(const RankPlace& place, const CommandLine& line, const Pipeline& pipeline) {
  RendezvousSetting setting{.place = place, .key = job_key_text(line.ranks), .interface = line.ranks.interface};
  if (place.master.empty()) setting.folder = rendezvous_folder(place, line.ranks, pipeline);
  setting.limit = std::chrono::seconds(integer("--wait", line.ranks.wait, 1, 1'000'000));
  setting.say = [](const std::string& text) { print_to_stderr("{}\n", text); };
  if (place.rank == 0 && setting.folder.empty() && setting.key.empty() && !line.quiet) {
    print_to_stderr(
        "warning: this job has no key, so whoever reaches {} could join it: give --job-key FILE, or set MILLRACE_JOB_KEY\n",
        place.master);
  }
  return connect_ranks(setting);
}

}  // namespace millrace
