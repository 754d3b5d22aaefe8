#include "ranks/rank_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kMaxRanks = 65'536;
constexpr const char* kDefaultPort = "29500";  // torchrun's

// What one launcher declares for this process. `rank` and `ranks` may each be missing.
struct Claim {
  std::string by, rank_name, ranks_name;
  std::optional<int> rank = {}, ranks = {};
  std::string master = {}, job = {};
  bool starts_nodes = false;  // it may have started launchers, each with several processes

  bool is_complete() const { return rank && ranks; }
  std::string text() const {
    std::string words;
    for (const auto& [name, value] : {std::pair(&rank_name, &rank), std::pair(&ranks_name, &ranks)}) {
      if (*value) words += fmt::format("{}{}={}", words.empty() ? "" : ", ", *name, **value);
    }
    return fmt::format("{} ({})", by, words);
  }
};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::string text(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : found->second;
  }
  std::optional<int> number(const std::string& name) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    return whole_number(name, value);
  }
  static int whole_number(const std::string& name, const std::string& value) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size() && number >= 0 && number <= kMaxRanks) return number;
    fail(ErrorKind::usage, "{} = '{}' must be a rank from 0 to {}", name, value, kMaxRanks);
  }
  std::string address(const std::string& host, const std::string& port) const {
    const std::string name = text(host), number = text(port);
    if (name.empty()) return {};
    return fmt::format("{}:{}", name.find(':') == std::string::npos ? name : '[' + name + ']',
                       number.empty() ? kDefaultPort : number);
  }
  Claim claim(std::string by, std::string rank, std::string ranks) const {
    Claim claim{.by = std::move(by), .rank_name = std::move(rank), .ranks_name = std::move(ranks)};
    claim.rank = number(claim.rank_name);
    claim.ranks = number(claim.ranks_name);
    return claim;
  }
  const Environment& all() const { return environment_; }

 private:
  const Environment& environment_;
};

// A Volcano job may have several tasks, VC_<TASK>_NUM each. The task of this process is known only if there is just one.
Claim volcano(const Reader& read) {
  Claim claim = read.claim("Volcano", read.text("VC_TASK_INDEX").empty() ? "VK_TASK_INDEX" : "VC_TASK_INDEX", "");
  claim.starts_nodes = true;
  if (!claim.rank) return claim;
  for (const auto& [name, value] : read.all()) {
    if (!name.starts_with("VC_") || !name.ends_with("_NUM")) continue;
    if (!claim.ranks_name.empty()) {
      claim.ranks.reset();
      claim.ranks_name = "";
      break;
    }
    claim.ranks_name = name;
    claim.ranks = Reader::whole_number(name, value);
    const std::string hosts = read.text(name.substr(0, name.size() - 3) + "HOSTS");
    if (!hosts.empty()) claim.master = fmt::format("{}:{}", hosts.substr(0, hosts.find(',')), kDefaultPort);
  }
  return claim;
}

// From the innermost launcher to the outermost one.
std::vector<Claim> claims(const Reader& read) {
  std::vector<Claim> all;
  Claim torchrun = read.claim("torchrun", "RANK", "WORLD_SIZE");
  torchrun.master = read.address("MASTER_ADDR", "MASTER_PORT");
  if (read.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {  // then torchrun itself listens at that port
    const int port = read.number("MASTER_PORT").value_or(0) + 1;
    torchrun.master = torchrun.master.substr(0, torchrun.master.rfind(':')) + fmt::format(":{}", port);
  }
  torchrun.job = read.text("TORCHELASTIC_RUN_ID");
  all.push_back(std::move(torchrun));
  Claim mpi = read.claim("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  mpi.job = read.text("PMIX_NAMESPACE");
  all.push_back(std::move(mpi));
  Claim mpich = read.claim("MPICH", "PMI_RANK", "PMI_SIZE");
  if (!mpich.ranks) mpich.rank.reset();  // other programs set PMI_RANK too
  all.push_back(std::move(mpich));
  Claim kubeflow = read.claim("Kubeflow", "PET_NODE_RANK", "PET_NNODES");
  kubeflow.master = read.address("PET_MASTER_ADDR", "PET_MASTER_PORT");
  kubeflow.starts_nodes = true;
  all.push_back(std::move(kubeflow));
  all.push_back(volcano(read));
  all.push_back(read.claim("Kubernetes", "JOB_COMPLETION_INDEX", ""));
  all.back().starts_nodes = true;
  Claim slurm = read.claim("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  slurm.job = fmt::format("{}.{}.{}", read.text("SLURM_JOB_ID"), read.text("SLURM_STEP_ID"), read.text("SLURM_RESTART_COUNT"));
  slurm.starts_nodes = true;
  if (!slurm.ranks) slurm.rank.reset();  // an sbatch script is one process with SLURM_PROCID = 0
  all.push_back(std::move(slurm));
  all.push_back(read.claim("PMIx", "PMIX_RANK", ""));  // also set by Open MPI and Slurm, which give the number of ranks
  all.back().starts_nodes = true;
  all.back().job = read.text("PMIX_NAMESPACE");
  return all;
}

// `inner` may count processes and `outer` nodes.
void require_agreement(const Claim& inner, const Claim& outer) {
  if (!inner.is_complete() || !outer.is_complete()) return;
  if (outer.starts_nodes && *outer.ranks < *inner.ranks) return;
  if (*inner.rank == *outer.rank && *inner.ranks == *outer.ranks) return;
  fail(ErrorKind::usage, "{} and {} contradict each other: unset the variables of one", inner.text(), outer.text());
}

Claim from_options(const RankOptions& options) {
  Claim claim{.by = "the command line", .rank_name = "--rank", .ranks_name = "--ranks"};
  if (!options.rank.empty()) claim.rank = Reader::whole_number("--rank", options.rank);
  if (!options.ranks.empty()) claim.ranks = Reader::whole_number("--ranks", options.ranks);
  return claim;
}

// `options` complete a launcher's incomplete numbers, and must not contradict it.
void complete(Claim& claim, const Claim& options) {
  for (const auto& [mine, given] : {std::pair(&claim.rank, &options.rank), std::pair(&claim.ranks, &options.ranks)}) {
    if (!*given) continue;
    if (*mine && **mine != **given) {
      fail(ErrorKind::usage, "{} and {} contradict each other: leave out the options", options.text(), claim.text());
    }
    *mine = *given;
  }
  if (claim.ranks_name.empty()) claim.ranks_name = "--ranks";
}

RankPlace placed(const Claim& claim, const std::string& master) {
  if (*claim.ranks < 1 || *claim.rank >= *claim.ranks) {
    fail(ErrorKind::usage, "{}: ranks are counted from 0, so rank {} is none of {}", claim.text(), *claim.rank, *claim.ranks);
  }
  RankPlace place{.rank = *claim.rank, .ranks = *claim.ranks, .master = master.empty() ? claim.master : master};
  place.job = claim.job;
  place.source = claim.text();
  if (!place.master.empty() && place.master.find(':') == std::string::npos) place.master += fmt::format(":{}", kDefaultPort);
  return place;
}

// Notice for a process that runs alone, though a launcher has started several.
std::string notice_of(const Reader& read, const std::string& incomplete) {
  if (!incomplete.empty())
    return fmt::format("{} does not set the number of processes, so this one runs alone; otherwise give --ranks N", incomplete);
  const std::optional<int> tasks = read.number("SLURM_NTASKS");
  if (!tasks || *tasks < 2 || !read.text("SLURM_STEP_NUM_TASKS").empty()) return {};
  return fmt::format("Slurm has given this job {} tasks, but this process runs alone: start it with srun to use all of them",
                     *tasks);
}

}  // namespace

Environment current_environment() {
  Environment all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) all.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return all;
}

RankPlace find_rank(const RankOptions& options, const Environment& environment) {
  const Reader read(environment);
  const Claim given = from_options(options);
  std::optional<Claim> chosen;
  std::string incomplete;
  for (Claim& claim : claims(read)) {
    if (!claim.rank && !claim.ranks) continue;
    if (!claim.is_complete() && !given.ranks && !given.rank) {
      if (claim.ranks_name.empty()) {  // the launcher never gives it, or only ambiguously
        if (incomplete.empty()) incomplete = claim.text();
        continue;
      }
      fail(ErrorKind::usage, "{} is incomplete: {} is not set; unset both to run alone", claim.text(),
           claim.rank ? claim.ranks_name : claim.rank_name);
    }
    if (chosen) {
      require_agreement(*chosen, claim);
      const bool is_the_same = claim.is_complete() && *claim.ranks == *chosen->ranks;
      if (chosen->by == "MPICH" && is_the_same) chosen->job = claim.job;  // Slurm has set the variables of both
      continue;
    }
    const bool is_shell = claim.is_complete() && *claim.ranks == 1;  // a shell in which a user starts ranks, such as srun --pty
    if (is_shell && given.is_complete() && *given.ranks > 1) continue;
    complete(claim, given);
    if (!claim.is_complete()) fail(ErrorKind::usage, "{}: give both --rank and --ranks", claim.text());
    chosen = std::move(claim);
  }
  if (!chosen && (given.rank || given.ranks)) {
    if (!given.is_complete())
      fail(ErrorKind::usage, "--rank and --ranks belong together: the number of this process, and how many run");
    chosen = given;
  }
  if (!chosen) {
    if (!options.master.empty()) fail(ErrorKind::usage, "--master belongs to --rank and --ranks");
    return {.notice = notice_of(read, incomplete)};
  }
  return placed(*chosen, options.master);
}

}  // namespace millrace
