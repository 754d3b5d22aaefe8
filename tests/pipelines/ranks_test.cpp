// Processes started by launchers run one pipeline together, with exactly the results of one. No fault of one blocks the others
// or stays unnamed. All are on this machine and communicate over TCP. MILLRACE_RANK_FAULTS=500 sets the number of random faults.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "command.h"
#include "running_program.h"
#include "small_run.h"

namespace millrace::test {
namespace {

using Programs = std::vector<std::unique_ptr<RunningProgram>>;
constexpr double kLimit = 120;  // seconds, for busy machines

class Ranks : public testing::Test {
 protected:
  Ranks() {
    constexpr const char *kNorm = "{ op = \"batch_norm\" },", *kDropout = "{ op = \"dropout\", probability = 0.3 },";
    std::ofstream(folder_ / "network.toml") << fmt::format(kSmallNetwork, kNorm, kDropout);
    std::ofstream(folder_ / "pipeline.toml") << fmt::format(kSmallPipeline, shapes());
  }
  Words command(const std::string& runs, const Words& more = {}) const {
    Words words = {tool("pipeline-run"), folder_ / "pipeline.toml", "--set", "run.folder=" + (folder_ / runs)};
    for (const char* set : {"run.precision=fp32", "checkpoint.resume=auto", "train.forward_backward.sync_batch_norm=true"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Rank `rank` of `ranks`, which meet in a folder next to their runs.
  Words ranked(const std::string& runs, int rank, int ranks, const Words& more = {}) const {
    Words words = command(runs, {"--rank", std::to_string(rank), "--ranks", std::to_string(ranks), "--rendezvous",
                                 folder_ / (runs + "-meets"), "--devices", "cpu*4", "--wait", "60"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Programs started(const std::string& runs, int ranks, const Words& more = {}) const {
    Programs all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<RunningProgram>(ranked(runs, rank, ranks, more)));
    return all;
  }
  // Three ranks of one size; those from `first` on set run.memory = `memory`.
  Programs started_with_memory(const std::string& runs, int first, const char* memory, const Words& more = {}) const {
    Programs all;
    for (const int rank : {0, 1, 2}) {
      Words words = ranked(runs, rank, 3, {"--devices", "cpu*3"});
      words.insert(words.end(), {"--set", "train.batch.size=42", "--set", "validate.batch.size=51"});
      if (rank >= first) words.insert(words.end(), {"--set", fmt::format("run.memory={}", memory)});
      words.insert(words.end(), more.begin(), more.end());
      all.push_back(std::make_unique<RunningProgram>(words));
    }
    return all;
  }
  // "" if there are none, as after a fault before the runs' folder exists.
  std::string weights(const std::string& runs) const {
    const std::string folder = folder_ / runs;
    return std::filesystem::exists(folder) ? read_file(find_file(folder, "weights.safetensors")) : "";
  }
  template <class Make>
  static Programs two(const Make& words_of) {
    Programs all;
    for (const int rank : {0, 1}) all.push_back(std::make_unique<RunningProgram>(words_of(rank)));
    return all;
  }
  static void expect_ended(const Programs& all, int code = 0, const std::string& said = "") {
    for (const auto& each : all) {
      EXPECT_TRUE(each->ends(kLimit)) << each->err();
      EXPECT_EQ(each->code(), code) << each->err();
      EXPECT_NE(each->err().find(said), std::string::npos) << each->err();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(Ranks, TrainToTheSameBitsAsOneProcess) {
  for (const Words& set : {Words(), Words{"--set", "run.load=[3, 1, 2, 2]"}}) {
    const std::string name = set.empty() ? "equal" : "unequal";
    Words alone = command(name + "-one", {"--devices", "cpu*4"});
    alone.insert(alone.end(), set.begin(), set.end());
    const Outcome one = succeeded(run_command(alone));
    for (const int ranks : {2, 4}) {
      const std::string runs = fmt::format("{}-{}", name, ranks);
      const auto all = started(runs, ranks, set);
      expect_ended(all);
      EXPECT_TRUE(weights(runs) == weights(name + "-one") && !weights(runs).empty()) << runs;
    }
  }
}

constexpr const char* kMpirun = "/usr/bin/mpirun";
bool has_mpi() {
  const std::filesystem::path build = std::filesystem::path(tool("pipeline-run")).parent_path().parent_path();
  return std::filesystem::exists(build / "lib/millrace/plugins/communicator_mpi.so") && std::filesystem::exists(kMpirun);
}
constexpr const char* kNoMpi = "there is no MPI (Debian: openmpi-bin, libopenmpi-dev)";

// Over MPI, and in half precision, results do not depend on the distribution of replicas either.
TEST_F(Ranks, AddUpOverMpiToTheSameBits) {
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  for (const std::string name : {"local", "local_bf16"}) {
    const Words set = {"--devices", "cpu*4", "--set", "train.allreduce.communicator="};
    Words alone = command(name, set), over_mpi = command(name + "-mpi", set);
    alone.back() += name;
    over_mpi.back() += name == "local" ? "mpi" : "mpi_bf16";
    Words words = {kMpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2"};
    words.insert(words.end(), over_mpi.begin(), over_mpi.end());
    const Outcome one = run_command(alone), two = run_command(words);
    ASSERT_EQ(one.code, 0) << one.err;
    ASSERT_EQ(two.code, 0) << two.err;
    EXPECT_TRUE(weights(name) == weights(name + "-mpi") && !weights(name).empty()) << name;
  }
  EXPECT_FALSE(weights("local") == weights("local_bf16")) << "half precision rounds";
}

// MPI itself would wait for it for ever.
TEST_F(Ranks, OverMpiOneThatIsFrozenIsNamedAndNotWaitedFor) {
  if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  Words words = {kMpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2"};
  const Words run = command("frozen-mpi", {"--devices", "cpu*4", "--patience", "2", "--set", "run.epochs=100000", "--set",
                                           "train.allreduce.communicator=mpi"});
  words.insert(words.end(), run.begin(), run.end());
  RunningProgram all(words);
  ASSERT_TRUE(all.reports("train: epoch 1", kLimit)) << all.err();
  ::kill(all.children().at(0), SIGSTOP);
  EXPECT_TRUE(all.ends(30)) << all.err();
  EXPECT_NE(all.err().find("is lost: it has been silent for 2 s"), std::string::npos) << all.err();
}

// "" if there is none.
std::string line_with(const std::string& text, const std::string& what) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST_F(Ranks, ABatchPerDeviceIsAGlobalBatchOfAll) {
  const Outcome global = succeeded(run_command(command("global", {"--devices", "cpu*4", "--set", "train.batch.size=40"})));
  const auto all = started("each", 2, {"--set", "train.batch.per_device=10"});
  expect_ended(all);
  EXPECT_TRUE(weights("each") == weights("global") && !weights("each").empty());
  EXPECT_NE(read_file(find_file(folder_ / "each", "pipeline.toml")).find("size = 40"), std::string::npos);
  const auto resumed =
      started("each", 2, {"--set", "train.batch.per_device=10", "--epochs", "3", "--resume", "--allow-change", "run.epochs"});
  expect_ended(resumed);
}

// Their values depend on the machine: all ranks, and a resumed run, use the same.
TEST_F(Ranks, MeasureTheirSharesOnceAndKeepThem) {
  std::vector<std::string> said;
  for (const Words& more : {Words{"--epochs", "1"}, Words{"--epochs", "2", "--resume", "--allow-change", "run.epochs"}}) {
    Words set = {"--set", "run.load=auto"};
    set.insert(set.end(), more.begin(), more.end());
    const auto all = started("measured", 2, set);
    expect_ended(all);
    said.push_back(line_with(all[0]->err(), "load: "));
  }
  EXPECT_NE(said[0].find("(measured: "), std::string::npos) << said[0];
  EXPECT_EQ(said[1], said[0].substr(0, said[0].find(" (")) + " (the checkpoint's)");
}

TEST_F(Ranks, ASlowReplicaIsNamedOnceWithTheSharesThatBalance) {
  const Words set = {"--devices", "cpu*2",
                     "--set",     "run.load=[20, 1]",
                     "--set",     "run.compare_replicas=3",
                     "--set",     "run.epochs=100",                                 // half a second of work
                     "--set",     "train.forward_backward.sync_batch_norm=false"};  // else they wait for each other inside a step
  const Outcome outcome = succeeded(run_command(command("slow", set)));
  const std::string line = line_with(outcome.err, "replica 0 ");
  EXPECT_NE(line.find("times as long for its share of a step as the others"), std::string::npos) << outcome.err;
  EXPECT_NE(line.find("load = ["), std::string::npos) << line;
  EXPECT_EQ(line_with(outcome.err.substr(outcome.err.find(line) + line.size()), "times as long"), "") << outcome.err;
}

TEST_F(Ranks, ASignalToOneStopsAllAtTheSameStep) {
  const auto all = started("signal", 3, {"--set", "run.epochs=100000"});
  ASSERT_TRUE(all[0]->reports("train: epoch 1", kLimit)) << all[0]->err();
  all[2]->send(SIGTERM);
  expect_ended(all, 128 + SIGTERM);
  EXPECT_FALSE(weights("signal").empty());
}

enum class Harm { killed, frozen, crashed, slowed, cut_off, failing };
constexpr const char* kHarms[] = {"killed", "frozen", "crashed", "slowed", "cut off", "failing"};

// A fault of a rank, and its time.
struct Fault {
  int ranks = 3, victim = 1;
  Harm harm = Harm::killed;
  double after = -1;  // seconds; -1: after the first epoch
  int call = 0;       // for a failing rank: it ends at its n-th call on a file of the data or, on rank 0, of the runs too
  std::string text() const {
    return fmt::format("rank {} of {} {} after {} s, call {}", victim, ranks, kHarms[static_cast<int>(harm)], after, call);
  }
};

// Hosts simulated by namespaces, each with an address, on one bridge. Needs root privileges.
class Hosts {
 public:
  explicit Hosts(int count) : tag_(fmt::format("mr{}x{}", ::getpid() % 10'000, made_before++)) {
    if (count == 0) return;
    is_there_ = ip({"link", "add", tag_ + "b", "type", "bridge"}) && ip({"link", "set", tag_ + "b", "up"});
    for (int host = 0; host < count && is_there_; ++host) {
      const std::string space = name(host), outer = fmt::format("{}o{}", tag_, host), inner = fmt::format("{}i{}", tag_, host);
      is_there_ = ip({"netns", "add", space}) && ip({"link", "add", outer, "type", "veth", "peer", "name", inner}) &&
                  ip({"link", "set", outer, "master", tag_ + "b", "up"}) && ip({"link", "set", inner, "netns", space}) &&
                  ip({"-n", space, "addr", "add", fmt::format("10.77.0.{}/24", host + 1), "dev", inner}) &&
                  ip({"-n", space, "link", "set", inner, "up"}) && ip({"-n", space, "link", "set", "lo", "up"});
      ++made_;
    }
  }
  ~Hosts() {
    for (int host = 0; host < made_; ++host) ip({"netns", "del", name(host)});
    if (is_there_ || made_ > 0) ip({"link", "del", tag_ + "b"});
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool are_there() const { return is_there_; }
  std::string name(int host) const { return fmt::format("{}-{}", tag_, host); }
  void cut_off(int host) const { ip({"link", "set", fmt::format("{}o{}", tag_, host), "down"}); }

 private:
  static bool ip(Words words) {
    words.insert(words.begin(), "/usr/sbin/ip");
    return std::filesystem::exists(words[0]) && run_command(words).code == 0;
  }
  static inline int made_before = 0;  // links of a removed host may stay for a moment
  const std::string tag_;
  int made_ = 0;
  bool is_there_ = false;
};

class Faulty : public Ranks {
 protected:
  // All survivors end in time, and name the victim. Returns whether the run completed, as after a late or harmless fault.
  bool suffer(const Fault& fault, const std::string& runs, const Words& more) const {
    const Hosts hosts(fault.harm == Harm::cut_off ? fault.ranks : 0);
    EXPECT_TRUE(fault.harm != Harm::cut_off || hosts.are_there());
    Programs all;
    for (int rank = 0; rank < fault.ranks; ++rank) {
      Words words = ranked(runs, rank, fault.ranks, more), environment;
      if (fault.harm == Harm::cut_off) {
        // Each rank simulates a machine. Together they have four replicas, with a core each: rounding depends on the number.
        words.insert(words.end(), {"--devices", fmt::format("cpu*{}", 4 / fault.ranks)});
        if (fault.ranks == 4) words.insert(words.begin(), {"/usr/bin/taskset", "-c", "0"});
        words.insert(words.begin(), {"/usr/sbin/ip", "netns", "exec", hosts.name(rank)});
      }
      if (fault.harm == Harm::slowed) words.insert(words.end(), {"--wait", "60"});  // it may be late
      if (fault.harm == Harm::failing && rank == fault.victim) environment = failing(fault, runs);
      all.push_back(std::make_unique<RunningProgram>(words, environment));
    }
    if (fault.after < 0) {
      EXPECT_TRUE(all[0]->reports("train: epoch 1", kLimit)) << all[0]->err();
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.after));
    }
    RunningProgram& victim = *all[static_cast<std::size_t>(fault.victim)];
    bool done = victim.ends(0) && victim.code() == 0;
    if (!done) do_harm(fault, victim, hosts);
    for (int rank = 0; rank < fault.ranks; ++rank) {
      if (rank != fault.victim) done |= bears(fault, rank, *all[static_cast<std::size_t>(rank)]);
    }
    if (fault.harm == Harm::slowed || fault.harm == Harm::cut_off) {
      const bool ended = victim.ends(40);
      EXPECT_TRUE(ended && (victim.code() == 0 || victim.code() == 138)) << fault.text() << ": the victim: " << victim.err();
    }
    EXPECT_TRUE(fault.harm != Harm::slowed || (done && victim.code() == 0)) << fault.text() << victim.err();
    victim.send(SIGKILL);
    EXPECT_TRUE(victim.ends(kLimit));
    return done;
  }
  const Words quick_ = {"--patience", "4", "--wait", "8"};

 private:
  Words failing(const Fault& fault, const std::string& runs) const {
    const std::string build = std::filesystem::path(tool("pipeline-run")).parent_path().parent_path();
    const bool of_runs = fault.victim == 0 && fault.call % 2 == 0;
    return {"LD_PRELOAD=" + build + "/tests/fault/fault_files.so", "FAULT_FILES_DO=exit-before",
            "FAULT_FILES_FOLDER=" + (of_runs ? folder_ / runs : shapes()), fmt::format("FAULT_FILES_AT={}", fault.call)};
  }
  static void do_harm(const Fault& fault, RunningProgram& victim, const Hosts& hosts) {
    if (fault.harm == Harm::killed) victim.send(SIGKILL);
    if (fault.harm == Harm::frozen) victim.send(SIGSTOP);
    if (fault.harm == Harm::crashed) victim.send(SIGSEGV);
    if (fault.harm == Harm::cut_off) hosts.cut_off(fault.victim);
    if (fault.harm != Harm::slowed) return;
    for (int pause = 0; pause < 20 && !victim.ends(0); ++pause) {
      victim.send(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      victim.send(SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  // Whether it reached the end of the run.
  static bool bears(const Fault& fault, int rank, RunningProgram& survivor) {
    // The patience is 4 s and ranks wait 8 s for each other at the start; the rest is for busy machines.
    const bool ended = survivor.ends(40);
    EXPECT_TRUE(ended) << fault.text() << ": rank " << rank << " hangs: " << survivor.err();
    if (!ended || survivor.code() == 0) return ended;
    EXPECT_EQ(survivor.code(), 138) << fault.text() << ": " << survivor.err();
    EXPECT_NE(survivor.err().find(fmt::format("rank {}", fault.victim)), std::string::npos)
        << fault.text() << ": rank " << rank << " says: " << survivor.err();
    return false;
  }
};

TEST_F(Faulty, RankIsNamedByAllOthers) {
  int number = 0;
  for (const Fault& fault : {Fault{.victim = 1}, Fault{.victim = 0}, Fault{.victim = 2, .harm = Harm::frozen}}) {
    Words more = quick_;
    more.insert(more.end(), {"--set", "run.epochs=100000"});
    EXPECT_FALSE(suffer(fault, fmt::format("fault{}", number++), more)) << fault.text();
  }
}

// For this process and its children: then each of four replicas has one core, on any machine.
void keep_to_two_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(0, &cores);
  CPU_SET(1, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

Fault drawn(std::mt19937& random, double seconds, bool can_cut_off) {
  Fault fault;
  fault.harm = static_cast<Harm>(random() % std::size(kHarms));
  if (fault.harm == Harm::cut_off && !can_cut_off) fault.harm = Harm::frozen;
  fault.ranks = fault.harm == Harm::cut_off ? 2 << random() % 2 : 2 + static_cast<int>(random() % 3);
  fault.victim = static_cast<int>(random() % static_cast<unsigned>(fault.ranks));
  if (fault.harm == Harm::failing) {
    fault.after = 0;
    fault.call = 1 + static_cast<int>(random() % 300);
  } else {
    fault.after = seconds * static_cast<double>(random() % 1000) / 1000;
  }
  return fault;
}

// At any time, from before ranks meet to the last write; resuming gives exactly the results of a run without faults.
TEST_F(Faulty, RunsGoOnToTheSameBits) {
  const char* const wish = std::getenv("MILLRACE_RANK_FAULTS");
  const char* const seed = std::getenv("MILLRACE_RANK_FAULTS_SEED");
  const int faults = wish == nullptr ? 3 : std::atoi(wish);
  const Words end = {"--set", "run.epochs=4"};
  keep_to_two_cores();
  Words alone = command("whole", {"--devices", "cpu*4"});
  alone.insert(alone.end(), end.begin(), end.end());
  const Outcome whole = succeeded(run_command(alone));
  std::mt19937 random(seed == nullptr ? 1U : static_cast<unsigned>(std::atoi(seed)));
  const bool can_cut_off = Hosts(1).are_there();
  std::array<int, std::size(kHarms)> counts{};
  int done = 0;
  for (int number = 0; number < faults; ++number) {
    const Fault fault = drawn(random, whole.seconds * 2.5, can_cut_off);
    ++counts[static_cast<std::size_t>(fault.harm)];
    const std::string runs = fmt::format("drawn{}", number);
    Words more = quick_;
    more.insert(more.end(), end.begin(), end.end());
    done += suffer(fault, runs, more) ? 1 : 0;
    const auto again = started(runs, 2 + number % 2, more);
    for (const auto& each : again) {
      ASSERT_TRUE(each->ends(kLimit)) << fault.text() << ": " << each->err();
      EXPECT_EQ(each->code(), 0) << fault.text() << ": " << each->err();
    }
    EXPECT_TRUE(weights(runs) == weights("whole") && !weights(runs).empty())
        << fault.text() << ", seed " << (seed == nullptr ? "1" : seed);
    if (HasFailure()) return;
    std::filesystem::remove_all(folder_ / runs);
  }
  for (std::size_t harm = 0; harm < counts.size(); ++harm) fmt::print("{:3} {}\n", counts[harm], kHarms[harm]);
  fmt::print("{} faults; {} of these runs came to their end\n", faults, done);
}

TEST_F(Ranks, ReadTheSameDataOrNone) {
  const std::filesystem::path other = folder_.path() / "other";
  std::filesystem::copy(shapes(), other, std::filesystem::copy_options::recursive);
  const std::filesystem::path image = *std::filesystem::directory_iterator(*std::filesystem::directory_iterator(other / "train"));
  const auto expect_refusal = [&](const std::string& said) {
    const Programs all = two([&](int rank) {
      const std::string data = rank == 0 ? shapes() : other.string();
      return ranked("data", rank, 2, {"--set", "train.read.path=" + data + "/train"});
    });
    expect_ended(all, 3, "ranks read different data:\n  train.read" + said);
  };
  std::filesystem::rename(image, image.parent_path() / "other.jpg");  // as many, in the same classes
  expect_refusal(".listing is ");
  std::filesystem::remove(image.parent_path() / "other.jpg");
  expect_refusal(".samples is 400 on rank 0, 399 on rank 1");
}

// Changes the last byte of a file: it keeps its size, and shows the same image.
void change_last_byte(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-1, std::ios::end);
  const auto last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

TEST_F(Ranks, HoldTheSameBytesOrNone) {
  namespace fs = std::filesystem;
  const fs::path other = folder_.path() / "other";
  fs::copy(shapes(), other, fs::copy_options::recursive);
  const fs::path star = *fs::directory_iterator(other / "train/star");
  const auto end = [&](const Words& more, int code, const std::string& said) {
    const Programs all = two([&](int rank) {
      Words words = ranked("bytes", rank, 2, {"--set", "run.epochs=1"});
      if (rank == 1) words.insert(words.end(), {"--set", "train.read.path=" + (other / "train").string()});
      words.insert(words.end(), more.begin(), more.end());
      return words;
    });
    expect_ended(all, code, said);
  };
  end({"--check", "--compare-data"}, 0, "");
  for (const auto& entry : fs::directory_iterator(other / "train/circle")) change_last_byte(entry.path());
  end({}, 3, "ranks read different data:\n  train.read: ");
  end({"--check"}, 3, " samples that were compared hold other bytes, such as '" + (other / "train/circle").string());
  fs::remove_all(other / "train");
  fs::copy(fs::path(shapes()) / "train", other / "train", fs::copy_options::recursive);
  change_last_byte(star);
  end({"--check", "--compare-data"}, 3, "other bytes");
  std::ofstream(star, std::ios::app) << '\n';
  end({}, 3, "has another size");
}

// A plugin whose descriptor has another version, in its own folder.
std::string with_other_version(const TemporaryFolder& folder) {
  std::string plugin =
      read_file(std::filesystem::path(tool("pipeline-run")).parent_path().parent_path() / "lib/millrace/plugins/read_folder.so");
  const std::string before(
      "\0"
      "1.1\0",
      5);
  const std::size_t at = plugin.find(before);
  EXPECT_NE(at, std::string::npos) << "read_folder has another version: name it here";
  if (at != std::string::npos)
    plugin.replace(at, before.size(),
                   std::string("\0"
                               "9.9\0",
                               5));
  std::filesystem::create_directories(folder / "plugins");
  std::ofstream(folder / "plugins/read_folder.so", std::ios::binary) << plugin;
  return "MILLRACE_PLUGIN_PATH=" + folder / "plugins";
}

TEST_F(Ranks, RunOneVersionOrNone) {
  const std::string other = with_other_version(folder_);
  const Programs all = two([&](int rank) {
    Words words = {"/usr/bin/env", rank == 1 ? other : "NONE=1"};
    for (const std::string& word : ranked("versions", rank, 2)) words.push_back(word);
    return words;
  });
  expect_ended(all, 2,
               "ranks run different versions of Millrace or its plugins: install the same on all machines:\n"
               "  plugin read_folder is 1.1 on rank 0, 9.9 on rank 1");
}

TEST_F(Ranks, AResumedRunNamesPluginsOfOtherVersions) {
  const Outcome before = succeeded(run_command(command("before", {"--devices", "cpu"})));
  Words words = {"/usr/bin/env", with_other_version(folder_)};
  for (const std::string& word :
       command("before", {"--devices", "cpu", "--resume", "--epochs", "3", "--allow-change", "run.epochs"}))
    words.push_back(word);
  const Outcome resumed = succeeded(run_command(words));
  EXPECT_NE(
      resumed.err.find("was written by other versions, so bits may differ from here on: plugin read_folder: 1.1 before, now 9.9"),
      std::string::npos)
      << resumed.err;
}

// As on machines without a shared disk: rank 1 has its own, empty folder of runs.
TEST_F(Ranks, ACheckpointComesToRanksThatHaveNone) {
  const auto start = [&] {
    return two([&](int rank) {
      const Words own = {"--set", fmt::format("run.folder={}{}", folder_ / "own", rank), "--set", "run.epochs=10"};
      return ranked("apart", rank, 2, own);
    });
  };
  const auto stopped = start();
  ASSERT_TRUE(stopped[0]->reports("train: epoch 3", kLimit)) << stopped[0]->err();
  stopped[0]->send(SIGTERM);
  for (const auto& each : stopped) ASSERT_TRUE(each->ends(kLimit));
  EXPECT_EQ(stopped[0]->code(), 128 + SIGTERM) << stopped[0]->err();
  for (const auto& each : start()) {
    ASSERT_TRUE(each->ends(kLimit));
    EXPECT_EQ(each->code(), 0) << each->err();
  }
  const Outcome whole = succeeded(run_command(command("whole", {"--devices", "cpu*4", "--set", "run.epochs=10"})));
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "own0/small")) {
    if (entry.path().filename() > last && !entry.is_symlink()) last = entry.path().filename();
  }
  EXPECT_TRUE(read_file(folder_.path() / "own0/small" / last / "weights.safetensors") == weights("whole"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "own1/small"));
}

// As on machines without a shared disk: one of them has the file, not necessarily rank 0.
TEST_F(Ranks, WeightsComeToRanksThatHaveNone) {
  const Outcome before = succeeded(run_command(command("before", {"--devices", "cpu*4", "--set", "run.epochs=1"})));
  const std::string file = find_file(folder_ / "before", "weights.safetensors"), nowhere = folder_ / "nowhere/w.safetensors";
  const Outcome one = succeeded(run_command(command("one", {"--devices", "cpu*4", "--weights", file})));
  const std::tuple<bool, int> ways[] = {
      {false, 0}, {false, 1}, {true, 0}, {false, -1}};  // by --weights; the rank that has the file
  for (const auto& [by_option, owner] : ways) {
    const std::string runs = fmt::format("sent{}{}", by_option, owner);
    const Programs all = two([&](int rank) {
      const std::string path = rank == owner ? file : nowhere;
      const Words own =
          by_option ? Words{"--weights", path} : Words{"--set", fmt::format("network.weights={{file=\"{}\"}}", path)};
      return ranked(runs, rank, 2, own);
    });
    for (const auto& each : all) {
      ASSERT_TRUE(each->ends(kLimit));
      EXPECT_EQ(each->code(), owner < 0 ? 2 : 0) << each->err();
      const bool refuses = each->err().find("file '" + nowhere) != std::string::npos;
      EXPECT_EQ(refuses, owner < 0) << each->err();
    }
    EXPECT_TRUE(owner < 0 || weights(runs) == weights("one")) << runs;
  }
}

TEST_F(Ranks, RunTheSameFileOrNone) {
  const Programs all = two([&](int rank) {
    return ranked("file", rank, 2,
                  {"--set", fmt::format("train.batch.size={}", 40 + rank), "--set", fmt::format("run.threads={}", 1 + rank),
                   "--set", fmt::format("run.compare_replicas={}", 3 * rank)});
  });
  expect_ended(all, 2,
               "ranks do not run the same pipeline:\n  train.batch.size is 40 on rank 0, 41 on rank 1\n"
               "  run.compare_replicas is 0 on rank 0, 3 on rank 1\n");
}

// A new start would repeat the error, so no rank ends with the code of a lost peer.
TEST_F(Ranks, AMistakeOfOneEndsAllWithItsKind) {
  struct Mistake {
    int rank, code;
    std::string set, said;
  };
  const Mistake mistakes[] = {{1, 2, "train.batch.sise=40", "has no key 'sise'"},
                              {0, 2, "train.batch.sise=40", "has no key 'sise'"},
                              {1, 3, "train.read.path=/nowhere", "'/nowhere'"},
                              {0, 3, "train.read.path=/nowhere", "'/nowhere'"},
                              {1, 2, "run.precision=tf32", "run.precision is fp32 on rank 0, tf32 on rank 1"}};
  for (const Mistake& mistake : mistakes) {
    const Programs all = two([&](int rank) {
      const Words own = rank == mistake.rank ? Words{"--set", mistake.set} : Words();
      return ranked("mistake", rank, 2, own);
    });
    expect_ended(all, mistake.code, mistake.said);
    const std::string other = all[static_cast<std::size_t>(1 - mistake.rank)]->err();
    const bool names_it = other.find(fmt::format("rank {} of 2 on ", mistake.rank)) != std::string::npos;
    EXPECT_TRUE(names_it || other.find("on rank 1") != std::string::npos) << other;
  }
}

// The launcher gives the number of ranks, and the file where the ranks meet. The mistake is elsewhere in the file: an unknown
// key, or a line of invalid TOML.
TEST_F(Ranks, AMistakeIsToldInTheFolderOfRunsThatTheFileNames) {
  const std::pair<const char*, const char*> mistakes[] = {{"epoch = 3\n", "has no key 'epoch'"},
                                                          {"log_every = 1,5\n", "numbers need a decimal point"}};
  for (int way = 0; way < 4; ++way) {
    const int wrong = way % 2;
    const auto& [mistake, said] = mistakes[way / 2];
    Programs all;
    for (const int rank : {0, 1}) {
      std::string text = fmt::format(kSmallPipeline, shapes());
      text.insert(text.find("[network]"), fmt::format("{}folder = \"${{env.RUNS}}\"\n", rank == wrong ? mistake : ""));
      const std::string file = folder_ / fmt::format("of-{}.toml", rank);
      std::ofstream(file) << text;
      all.push_back(
          std::make_unique<RunningProgram>(Words{tool("pipeline-run"), file, "--devices", "cpu*2"},
                                           Words{fmt::format("OMPI_COMM_WORLD_RANK={}", rank), "OMPI_COMM_WORLD_SIZE=2",
                                                 fmt::format("PMIX_NAMESPACE=job-{}", way), "RUNS=" + (folder_ / "named")}));
    }
    expect_ended(all, 2, said);
  }
}

// Some would hang, others train nonsense.
TEST_F(Ranks, AreStartedTheSameWay) {
  const Outcome one = succeeded(run_command(command("one", {"--devices", "cpu*4"})));
  const std::string file = find_file(folder_ / "one", "weights.safetensors");
  const std::pair<Words, std::string> wrong[] = {
      {{"--check"}, "ranks were started with different options: rank 0 with none of these, rank 1 with --check"},
      {{"--resume"}, "rank 0 with none of these, rank 1 with --resume"},
      {{"--weights", file}, "rank 0 with none of these, rank 1 with --weights"}};
  for (const auto& [more, said] : wrong) {
    const Programs all = two([&](int rank) { return ranked("way", rank, 2, rank == 1 ? more : Words()); });
    expect_ended(all, 2, said);
  }
  // Files of one name, as on separate disks.
  const Outcome other = succeeded(run_command(command("other", {"--devices", "cpu*4", "--set", "run.seed=4"})));
  const Programs all = two([&](int rank) {
    const std::string own = find_file(folder_ / (rank == 0 ? "one" : "other"), "weights.safetensors");
    return ranked("way", rank, 2, {"--weights", own});
  });
  expect_ended(all, 2, "starting from weights with checksum");
}

// None waits for one that has ended.
TEST_F(Ranks, ACheckTellsTheWarningsOfAllOnceAndEndsAllInGoodOrder) {
  keep_to_two_cores();  // so that the ranks need the same memory
  const std::pair<int, std::string> ways[] = {
      {0, "warning: the run needs "}, {1, "warning: ranks 1, 2: the run needs "}, {2, "warning: rank 2: the run needs "}};
  for (const auto& [first, said] : ways) {  // the first rank that is short of memory
    const auto all = started_with_memory("check", first, "1MiB", {"--check"});
    expect_ended(all);
    const std::string told = all[0]->err();
    EXPECT_TRUE(told.starts_with(said)) << told;
    EXPECT_EQ(told.find("the run needs "), told.rfind("the run needs ")) << told;
    EXPECT_NE(all[0]->out().find("no mistakes found, 1 warning\n"), std::string::npos) << all[0]->out();
    EXPECT_EQ(all[1]->err() + all[2]->err(), "");
  }
}

TEST_F(Ranks, ARunTellsTheWarningsOfAllOnce) {
  keep_to_two_cores();
  const auto all = started_with_memory("warns", 1, "1MiB");
  expect_ended(all);
  const std::string told = all[0]->err();
  EXPECT_NE(told.find("warning: ranks 1, 2: the run needs "), std::string::npos) << told;
  EXPECT_EQ(told.find("the run needs "), told.rfind("the run needs ")) << told;
}

// Machines may have different amounts.
TEST_F(Ranks, EachSaysThatItsMachineHasLessMemoryThanTheRunMayTake) {
  const auto all = started_with_memory("less", 1, "4096 TiB", {"--check"});
  expect_ended(all);
  const std::string told = all[0]->err();
  EXPECT_TRUE(told.starts_with("warning: ranks 1, 2: run.memory = \"4096 TiB\" is more than the ")) << told;
}

TEST_F(Ranks, DevicesOfAllHostsAreOneTable) {
  const std::string port = std::to_string(20'000 + ::getpid() % 12'000);  // below those that the system assigns
  Programs all;
  for (const char* rank : {"0", "1"}) {
    all.push_back(std::make_unique<RunningProgram>(
        Words{tool("pipeline-inspect"), "devices"},
        Words{fmt::format("RANK={}", rank), "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=" + port}));
  }
  expect_ended(all);
  const std::string table = all[0]->out();
  EXPECT_TRUE(table.starts_with("rank  host")) << table;
  EXPECT_NE(table.find("\n   0  "), std::string::npos) << table;
  EXPECT_NE(table.find("\n   1  "), std::string::npos) << table;
  EXPECT_EQ(all[1]->out(), "");
}

}  // namespace
}  // namespace millrace::test
