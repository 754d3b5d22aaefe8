#include "common/join_ranks.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "millrace/error.h"
#include "millrace/util/standard_error.h"
#include "ranks/rendezvous.h"

namespace millrace {
namespace {

// A shell strips trailing newlines, an editor adds them.
std::string without_end(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::string job_key_text(const RankWishes& wishes) {
  if (!wishes.key.empty()) return wishes.key;
  if (wishes.key_file.empty()) {
    const char* const key = std::getenv("MILLRACE_JOB_KEY");
    if (key != nullptr && without_end(key).empty())
      fail(ErrorKind::usage, "MILLRACE_JOB_KEY is set but empty: give it a text, or unset it to run without a key");
    return key == nullptr ? "" : without_end(key);
  }
  std::ifstream file(wishes.key_file);
  std::stringstream text;
  if (!(text << file.rdbuf())) fail(ErrorKind::usage, "--job-key: '{}' cannot be read, or is empty", wishes.key_file);
  return without_end(text.str());
}

// The folder for the rendezvous: by default below the folder of runs, which all ranks share if they share a disk.
std::string rendezvous_folder(const RankPlace& place, const RankWishes& wishes, const std::string& runs) {
  if (!wishes.rendezvous.empty()) return wishes.rendezvous;
  if (!place.job.empty() && !runs.empty()) return std::filesystem::path(runs) / ".rendezvous";
  fail(ErrorKind::usage,
       "{} does not give the address of rank 0: add --master HOST:PORT, or --rendezvous FOLDER, which all ranks share",
       place.source);
}

}  // namespace

Arguments& add_rank_options(Arguments& arguments, RankWishes& ranks) {
  return arguments.option("--rank", "R", "rank of this process, from 0, of --ranks N; set by launchers", ranks.options.rank)
      .option("--ranks", "N", "number of processes that run this pipeline, on this machine and others", ranks.options.ranks)
      .option("--master", "HOST:PORT", "address where rank 0 listens", ranks.options.master)
      .option("--rendezvous", "FOLDER", "instead: shared folder where rank 0 writes its address", ranks.rendezvous)
      .option("--job-key", "FILE", "its text admits ranks to the job (also MILLRACE_JOB_KEY)", ranks.key_file)
      .option("--interface", "NAME", "network between ranks: eth0, or 10.1.0.0/16 (any)", ranks.interface)
      .option("--wait", "SECONDS", "how long ranks wait for each other at the start (600)", ranks.wait)
      .option("--patience", "SECONDS", "how long a rank may be silent before it is lost (10)", ranks.patience);
}

SocketGroup::Setting join_ranks(const RankPlace& place, const RankWishes& wishes, const std::string& runs, bool quiet) {
  RendezvousSetting setting{.place = place,
                            .key = job_key_text(wishes),
                            .interface = wishes.interface,
                            .listener = wishes.listener,
                            .lost = wishes.lost};
  if (place.master.empty()) setting.folder = rendezvous_folder(place, wishes, runs);
  setting.limit = std::chrono::seconds(integer("--wait", wishes.wait, 1, 1'000'000));
  setting.report = [](const std::string& text) { print_to_stderr("{}\n", text); };
  if (place.rank == 0 && setting.folder.empty() && setting.key.empty() && !quiet) {
    print_to_stderr(
        "warning: this job has no key, so anyone who reaches {} can join it: give --job-key FILE, or set MILLRACE_JOB_KEY\n",
        place.master);
  }
  const std::chrono::seconds patience(integer("--patience", wishes.patience, 1, 100'000));
  Connections connections = connect_ranks(setting);
  return {.rank = place.rank,
          .sockets = std::move(connections.sockets),
          .patience = patience,
          .hosts = std::move(connections.hosts),
          .report = setting.report};
}

}  // namespace millrace
