// --watch: files that arrive in every way, and a program that is killed at any moment, miss none and repeat none.
//
// MILLRACE_KILLS=200 sets the number of kills, MILLRACE_KILLS_SEED the seed of their moments.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "millrace/detail/random.h"
#include "pipeline-run/watch_journal.h"
#include "pipelines/command.h"
#include "pipelines/running_program.h"
#include "trained_fixture.h"

namespace millrace::test::watch_test {
namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 60;  // seconds, for busy machines

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// Whole lines only.
std::vector<nlohmann::json> answers_in(const std::string& text) {
  std::vector<nlohmann::json> answers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    if (!line.starts_with('{')) continue;  // planted
    auto answer = nlohmann::json::parse(line);
    if (answer.contains("id")) answers.push_back(std::move(answer));
  }
  return answers;
}

std::string image(std::size_t i) { return read_file(trained().images[i % trained().images.size()]); }

class Watch : public testing::Test {
 protected:
  Watch() { fs::create_directory(in()); }
  std::string in() const { return folder_ / "in"; }
  std::string in(const std::string& name) const { return in() + "/" + name; }
  Words command() const {
    return {tool("pipeline-run"), "--watch", in(), "--weights", trained().run, "--out", folder_ / "out", "--devices", "cpu"};
  }
  std::string shell(const std::string& before, const std::string& behind) const {
    std::string text = before;
    for (const std::string& word : command()) text += " '" + word + "'";
    return text + behind;
  }
  std::vector<nlohmann::json> journal() const { return answers_in(read_file(folder_ / "out/journal.jsonl")); }
  // Whether the file is answered within this time; `answer` receives the last one.
  bool is_answered(const std::string& path, nlohmann::json* answer = nullptr, double seconds = kPatience) const {
    for (int i = 0; i < seconds * 100; ++i) {
      FileStates states;
      const auto state = states.of(path);
      for (const auto& each : journal()) {
        if (!state || each.at("id") != to_string(*state)) continue;
        if (answer != nullptr) *answer = each;
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  const TemporaryFolder folder_;
};

TEST_F(Watch, AnswersWholeFilesHoweverTheyArrive) {
  fs::create_directory(in("old"));
  write(in("old/a.jpg"), image(0));
  RunningProgram program(command());
  ASSERT_TRUE(program.reports("watching", kPatience)) << program.err();
  write(folder_ / "away.jpg", image(1));
  fs::rename(folder_ / "away.jpg", in("renamed.jpg"));
  EXPECT_TRUE(is_answered(in("renamed.jpg")));
  write(in("bad.JPG"), "GIF89a");
  nlohmann::json bad;
  EXPECT_TRUE(is_answered(in("bad.JPG"), &bad));
  EXPECT_NE(bad.at("error").get<std::string>().find("GIF"), std::string::npos) << bad;
  EXPECT_TRUE(is_answered(in("old/a.jpg"))) << "it was there before";
  write(in("renamed.jpg"), image(2));  // the same name again
  EXPECT_TRUE(is_answered(in("renamed.jpg")));
  fs::create_directories(in("new/er"));
  write(in("new/er/b.png"), image(3));
  EXPECT_TRUE(is_answered(in("new/er/b.png")));
  fs::create_directory(folder_ / "moved");
  write(folder_ / "moved/c.jpg", image(4));
  fs::rename(folder_ / "moved", in("moved"));
  EXPECT_TRUE(is_answered(in("moved/c.jpg")));
  fs::rename(in("moved"), in("again"));
  EXPECT_TRUE(is_answered(in("again/c.jpg"))) << "another path";
  fs::create_hard_link(in("again/c.jpg"), in("linked.jpg"));
  EXPECT_TRUE(is_answered(in("linked.jpg")));
  fs::create_symlink(trained().images[5], in("symbolic.jpg"));
  EXPECT_TRUE(is_answered(in("symbolic.jpg")));
  fs::last_write_time(in("linked.jpg"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(is_answered(in("linked.jpg"))) << "only a listing finds this";
  write(in("caf\xe9.jpg"), image(6));  // not UTF-8
  EXPECT_TRUE(is_answered(in("caf\xe9.jpg")));
  const std::vector<nlohmann::json> written = journal();
  EXPECT_EQ(answers_in(program.out()), written);
  program.send(SIGTERM);
  ASSERT_TRUE(program.ends(kPatience));
  EXPECT_EQ(program.code(), 128 + SIGTERM) << program.err();

  RunningProgram again(command());
  write(in("last.jpg"), image(7));
  EXPECT_TRUE(is_answered(in("last.jpg")));
  std::this_thread::sleep_for(std::chrono::seconds(4));  // for old files to rest
  EXPECT_EQ(answers_in(again.out()).size(), 1U) << again.out();
  again.send(SIGINT);
  ASSERT_TRUE(again.ends(kPatience));
  EXPECT_EQ(again.code(), 128 + SIGINT);
}

TEST_F(Watch, LeavesPartialAndHiddenFilesAlone) {
  RunningProgram program(command());
  ASSERT_TRUE(program.reports("watching", kPatience)) << program.err();
  const std::string bytes = image(0);
  std::ofstream slow(in("slow.jpg"), std::ios::binary);
  slow << bytes.substr(0, bytes.size() / 2) << std::flush;
  for (const char* name : {".hidden.jpg", "a.jpg.part", "b.jpg.tmp", "notes.txt"}) write(in(name), image(1));
  fs::create_directory(in(".sync"));
  write(in(".sync/c.jpg"), image(2));
  write(in("empty.jpg"), "");
  EXPECT_TRUE(is_answered(in("empty.jpg"))) << "an error, once it rested";
  std::this_thread::sleep_for(std::chrono::seconds(4));
  EXPECT_EQ(answers_in(program.out()).size(), 1U) << program.out();
  slow << bytes.substr(bytes.size() / 2);
  slow.close();
  fs::rename(in("a.jpg.part"), in("a.jpg"));
  nlohmann::json answer;
  EXPECT_TRUE(is_answered(in("slow.jpg"), &answer));
  EXPECT_TRUE(answer.contains("scores")) << answer;
  EXPECT_TRUE(is_answered(in("a.jpg")));
  EXPECT_EQ(answers_in(program.out()).size(), 3U) << program.out();
}

TEST_F(Watch, WaitsForAFolderThatVanishes) {
  RunningProgram program(command());
  write(in("a.jpg"), image(0));
  ASSERT_TRUE(is_answered(in("a.jpg"))) << program.err();
  fs::rename(in(), folder_ / "away");
  ASSERT_TRUE(program.reports("is gone: waiting for it", kPatience)) << program.err();
  write(folder_ / "away/b.jpg", image(1));
  fs::rename(folder_ / "away", in());
  EXPECT_TRUE(is_answered(in("b.jpg"))) << program.err();
  fs::rename(in(), folder_ / "away");
  fs::create_directory(in());
  write(in("c.jpg"), image(2));
  EXPECT_TRUE(is_answered(in("c.jpg"))) << "another folder of this name: " << program.err();
  EXPECT_EQ(answers_in(program.out()).size(), 3U) << program.out();
}

TEST_F(Watch, OneWatcherWritesAJournal) {
  RunningProgram program(command());
  ASSERT_TRUE(program.reports("watching", kPatience)) << program.err();
  const Outcome second = run_command(command());
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("another process writes '" + (folder_ / "out/journal.jsonl")), std::string::npos) << second.err;
}

TEST_F(Watch, TheJournalForgetsFilesThatNoLongerExist) {
  for (int i = 0; i < 4; ++i) write(in(fmt::format("{}.jpg", i)), image(static_cast<std::size_t>(i)));
  const auto run_until = [&](const std::string& path) {
    RunningProgram program(command());
    EXPECT_TRUE(is_answered(path)) << program.err();
    program.send(SIGKILL);
    EXPECT_TRUE(program.ends(kPatience));
  };
  run_until(in("3.jpg"));
  ASSERT_EQ(journal().size(), 4U);
  fs::remove(in("0.jpg"));
  std::ofstream(folder_ / "out/journal.jsonl", std::ios::app) << "damaged}\n{\"id\":\"0123";
  write(in("4.jpg"), image(4));
  run_until(in("4.jpg"));
  EXPECT_EQ(journal().size(), 4U);
  EXPECT_EQ(read_file(folder_ / "out/journal.jsonl").find("damaged"), std::string::npos);
  fs::rename(in(), folder_ / "mounted");  // an empty folder in its place is no reason to forget
  fs::create_directory(in());
  write(in("5.jpg"), image(5));
  run_until(in("5.jpg"));
  EXPECT_EQ(journal().size(), 5U);
  fs::remove_all(in());
  fs::rename(folder_ / "mounted", in());
  write(in("6.jpg"), image(6));
  run_until(in("6.jpg"));
  EXPECT_EQ(journal().size(), 6U);
}

TEST_F(Watch, EndsWhenItCannotWrite) {
  for (int i = 0; i < 30; ++i) write(in(fmt::format("{}.jpg", i)), image(static_cast<std::size_t>(i)));
  const Outcome full = run_command({"/bin/bash", "-c", shell("set -o pipefail; (ulimit -f 2; timeout 60", ") | cat")});
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_NE(full.err.find("journal.jsonl': File too large"), std::string::npos) << full.err;
  const std::size_t answered = journal().size();
  EXPECT_GT(answered, 2U);
  EXPECT_EQ(answers_in(full.out).size(), answered + 1);
  EXPECT_TRUE(read_file(folder_ / "out/journal.jsonl").ends_with('\n'));
  const Outcome closed = run_command({"/bin/bash", "-c", shell("set -o pipefail; timeout 60", " | head -n 1")});
  EXPECT_EQ(closed.code, 1) << closed.err;
  EXPECT_NE(closed.err.find("standard output cannot be written: Broken pipe"), std::string::npos) << closed.err;
  EXPECT_EQ(answers_in(closed.out).at(0).at("id"), answers_in(full.out).back().at("id")) << "printed, but not in the journal";
}

TEST_F(Watch, NamesMistakes) {
  const auto message = [&](const Words& more, Words words) {
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(message({"--weights", "x"}, {tool("pipeline-run"), "--watch", in("nothing")})
                .find("'" + in("nothing") + "' is not a folder"),
            std::string::npos);
  EXPECT_NE(message({}, {tool("pipeline-run"), "--watch", in()}).find("--weights"), std::string::npos);
  EXPECT_NE(message({"other"}, command()).find("leave out 'other'"), std::string::npos);
  EXPECT_NE(message({"--strict"}, command()).find("--strict"), std::string::npos);
}

// Files that a queue of the system cannot hold are found by listing.
TEST_F(Watch, FindsFilesAfterAnOverflow) {
  std::size_t events = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> events;
  RunningProgram program(command());
  for (const char* name : {"a.jpg", "b.jpg"}) write(in(name), image(0));
  ASSERT_TRUE(is_answered(in("a.jpg")) && is_answered(in("b.jpg"))) << program.err();
  program.send(SIGSTOP);
  for (std::size_t i = 0; i < events + 100; ++i) {  // equal events in a row count once
    ::close(::open(in(i % 2 == 0 ? "a.jpg" : "b.jpg").c_str(), O_WRONLY | O_CLOEXEC));
  }
  for (int i = 0; i < 50; ++i) write(in(fmt::format("{}.jpg", i)), image(static_cast<std::size_t>(i)));
  program.send(SIGCONT);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(is_answered(in(fmt::format("{}.jpg", i)))) << program.err();
  EXPECT_EQ(journal().size(), 52U);
}

// Makes files in every way until it is stopped.
class Writer {
 public:
  Writer(std::string in, std::string away, std::uint64_t seed) : in_(std::move(in)), away_(std::move(away)), random_(seed) {
    fs::create_directory(away_);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        step();
        pause(random_() % 4 == 0 ? 60 : 4);
      }
    });
  }
  std::size_t files() const { return files_; }
  void stop() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  static void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

  void step() {
    const std::string bytes = random_() % 8 == 0 ? std::string("GIF89a") : image(random_());
    const std::string name = fmt::format("{}{}.jpg", bytes[0] == 'G' ? "bad" : "good", random_() % 400);  // again and again
    const std::string folder = fmt::format("{}/{}", in_, random_() % 6);
    const std::string path = fmt::format("{}/{}", folder, name), other = fmt::format("{}/{}", away_, name);
    fs::create_directories(folder);
    ++files_;
    switch (random_() % 9) {
      case 0: write(path + ".part", bytes); return fs::rename(path + ".part", path);
      case 1: write(other, bytes); return fs::rename(other, path);
      case 2: return write(path, bytes);
      case 3: {
        std::ofstream file(path, std::ios::binary);
        file << bytes.substr(0, bytes.size() / 2) << std::flush;
        pause(static_cast<int>(random_() % 300));
        file << bytes.substr(bytes.size() / 2);
        return;
      }
      case 4: {  // a link takes the place of none
        write(other, bytes);
        std::error_code ignored;
        fs::create_hard_link(other, path, ignored);
        fs::remove(other);
        return;
      }
      case 5: {  // another folder
        const std::string fresh = fmt::format("{}/fresh{}", away_, files_.load());
        fs::create_directory(fresh);
        write(fresh + "/" + name, bytes);
        return fs::rename(fresh, fmt::format("{}/fresh{}", in_, files_.load()));
      }
      case 6: {
        const std::string fresh = fmt::format("{}/made{}/deep", in_, files_.load());
        fs::create_directories(fresh);
        return write(fresh + "/" + name, bytes);
      }
      case 7:
        write(path, bytes);
        return fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(random_() % 9));
      default: {
        std::error_code ignored;
        const std::string old = fmt::format("{}/good{}.jpg", folder, random_() % 400);
        random_() % 2 == 0 ? static_cast<void>(fs::remove(old, ignored))
                           : fs::rename(old, fmt::format("{}/good{}-moved.jpg", folder, files_.load()), ignored);
      }
    }
  }

  const std::string in_, away_;
  std::mt19937_64 random_;
  std::atomic<std::size_t> files_{0};
  std::jthread thread_;
};

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

using WatchKills = Watch;

TEST_F(WatchKills, MissNoneAndRepeatNone) {
  const std::uint64_t kills = environment_number("MILLRACE_KILLS", kSanitizer ? 3 : 8);
  std::mt19937_64 random(environment_number("MILLRACE_KILLS_SEED", 1));
  Writer writer(in(), folder_ / "away", random());
  std::map<std::string, int> printed;
  std::string last, errors;
  int repeated = 0;
  const auto read = [&](const std::string& out, std::uint64_t kill) {
    for (const auto& answer : answers_in(out)) {
      const std::string id = answer.at("id");
      if (++printed[id] > 1) {
        ++repeated;
        EXPECT_EQ(id, last) << "after kill " << kill << ": " << answer;
      }
      last = id;
      const bool is_good = answer.at("path").get<std::string>().find("good") != std::string::npos;
      if (is_good == answer.contains("error")) errors += answer.dump() + "\n";
    }
  };
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    RunningProgram program(command());
    const bool soon = random() % 4 == 0;  // while it starts
    if (!soon) {
      ASSERT_TRUE(program.says("}", kPatience)) << program.err();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (soon ? 1'500'000 : 300'000)));
    program.send(SIGKILL);
    ASSERT_TRUE(program.ends(kPatience));
    ASSERT_EQ(program.code(), 128 + SIGKILL) << program.err();
    read(program.out(), kill);
  }
  writer.stop();
  RunningProgram program(command());
  std::vector<std::string> missing;
  FileStates states;
  for (int i = 0; i < kPatience * 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::set<std::string> answered;
    for (const auto& answer : journal()) answered.insert(answer.at("id"));
    missing.clear();
    for (const auto& entry : fs::recursive_directory_iterator(in())) {
      if (!entry.is_regular_file()) continue;
      if (!answered.contains(to_string(*states.of(entry.path().string())))) missing.push_back(entry.path().string());
    }
    if (missing.empty()) break;
  }
  EXPECT_TRUE(missing.empty()) << missing.size() << " such as " << missing.front() << program.err();
  program.send(SIGTERM);
  ASSERT_TRUE(program.ends(kPatience));
  EXPECT_EQ(program.code(), 128 + SIGTERM);
  read(program.out(), kills);
  EXPECT_EQ(errors, "") << "a good file was read in part, or a bad one was not";
  std::map<std::string, int> in_journal;
  for (const auto& answer : journal()) {
    const std::string id = answer.at("id");
    EXPECT_EQ(++in_journal[id], 1) << answer;
    EXPECT_TRUE(printed.contains(id)) << answer;
  }
  EXPECT_LE(repeated, static_cast<int>(kills));
  fmt::print("{} kills, {} files written, {} answers, {} printed twice\n", kills, writer.files(), printed.size(), repeated);
}

}  // namespace
}  // namespace millrace::test::watch_test
