// Whatever lies among the images, a run ends well, and says what was wrong with what.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/broken_images/broken_images.h"
#include "tests/pipelines/command.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10, kKinds = static_cast<int>(Breakage::kCount);

void write(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

struct Counts {
  int good = 1000, broken = 200;
};

Counts how_many() {
  const char* asked = std::getenv("MILLRACE_BROKEN");
  return asked != nullptr && std::string(asked) == "full" ? Counts{10'000, 2000} : Counts{};
}

// Good and broken images among one another in ten class folders; the names of the broken ones begin with their kind.
void fill(const fs::path& folder, const Counts& counts) {
  const auto name = [&](const std::string& part, int i, const std::string& file) {
    return folder / part / ("class" + std::to_string(i % kClasses)) / file;
  };
  for (int i = 0; i < counts.good; ++i)
    write(name("train", i, "good-" + std::to_string(i) + ".jpg"), make_good(static_cast<std::uint64_t>(i)));
  for (int i = 0; i < counts.broken; ++i) {
    const auto kind = static_cast<Breakage>(i % kKinds);
    write(name("train", i / kKinds, std::string(to_string(kind)) + "-" + std::to_string(i) + ".jpg"),
          make_broken(kind, static_cast<std::uint64_t>(i)));
  }
  for (int i = 0; i < 5 * kClasses; ++i)
    write(name("test", i, std::to_string(i) + ".jpg"), make_good(static_cast<std::uint64_t>(1'000'000 + i)));
}

std::vector<std::string> command(const fs::path& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {tool("pipeline-run"), pipeline("quickstart.toml")};
  const auto set = [&](const std::string& assignment) { arguments.insert(arguments.end(), {"--set", assignment}); };
  set("data.path=" + folder.string());
  set("run.folder=" + (folder / "runs").string());
  set("run.epochs=1");
  set("train.batch.bad_sample_budget=1000000");
  for (const std::string part : {"train", "validate"}) {
    set(part + ".decode_image.fit=exact");
    set(part + ".decode_image.max_pixels=1048576");
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

double bound_in_mib(const std::string& report) {
  std::smatch match;
  if (!std::regex_search(report, match, std::regex(R"(([0-9.]+) (MiB|GiB)  in all)"))) return 0;
  return std::stod(match[1]) * (match[2] == "GiB" ? 1024 : 1);
}

// The first cause that the ledger names for each file of the training set.
std::map<std::string, std::string> read_ledger(const fs::path& runs, std::size_t& lines) {
  std::map<std::string, std::string> causes;
  lines = 0;
  for (const auto& entry : fs::recursive_directory_iterator(runs)) {
    if (entry.path().filename() != "quarantine.jsonl") continue;
    std::ifstream ledger(entry.path());
    for (std::string line; std::getline(ledger, line); ++lines) {
      const auto sample = nlohmann::json::parse(line);
      EXPECT_TRUE(sample.at("stage") == "decode_image" || sample.at("cause") == "the file is empty") << line;
      EXPECT_EQ(sample.at("action"), "replaced") << line;
      causes.emplace(fs::path(sample.at("path").get<std::string>()).filename().string(), sample.at("cause").get<std::string>());
    }
  }
  return causes;
}

TEST(BrokenImages, AreAllNamedWithTheirCauseAndTheRunEndsWell) {
  const TemporaryFolder folder;
  const Counts counts = how_many();
  fill(folder.path(), counts);
  const Outcome check = run_command(command(folder.path(), {"--check"}));
  ASSERT_EQ(check.code, 0) << check.err;
  const Outcome run = run_command(command(folder.path(), {"--json", "--set", "train.batch.last=keep"}));
  ASSERT_EQ(run.code, 0) << run.err;

  std::size_t lines = 0;
  const auto causes = read_ledger(folder.path() / "runs", lines);
  std::map<std::string, std::string> example;  // of each kind, for a reader of the log
  int named = 0;
  for (int i = 0; i < counts.broken; ++i) {
    const auto kind = static_cast<Breakage>(i % kKinds);
    const auto found = causes.find(std::string(to_string(kind)) + "-" + std::to_string(i) + ".jpg");
    EXPECT_TRUE(found != causes.end() || may_be_used(kind)) << to_string(kind) << "-" << i << " was used";
    if (found == causes.end()) continue;
    EXPECT_FALSE(found->second.empty());
    example.emplace(to_string(kind), found->second);
    ++named;
  }
  EXPECT_EQ(causes.size(), static_cast<std::size_t>(named)) << "a good image was refused";
  EXPECT_EQ(events(run, "end").back().at("bad_samples"), lines);
  for (const auto& [kind, cause] : example) std::printf("%-15s %s\n", kind.c_str(), cause.c_str());
  std::printf("%d of %d broken images named, peak %.0f MiB\n", named, counts.broken, static_cast<double>(run.peak_kib) / 1024);

  // What an image of unknown size may need beyond the bound, on each of a few threads: max_pixels of pixels and of coefficients.
  const double bound = bound_in_mib(check.out);
  ASSERT_GT(bound, 0) << check.out;
  EXPECT_LE(static_cast<double>(run.peak_kib) / 1024, bound + 64);
}

}  // namespace
}  // namespace millrace::test
