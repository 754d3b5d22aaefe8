// Every shipped file with one mistake in it: it is refused where the mistake is, with the name that was meant, or it is harmless:
// `pipeline-run --check`, with images that are there, accepts it too, or refuses it and names a file.
// MILLRACE_MUTANTS=100 makes a hundred of each file instead of a few, and prints what was said of each.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "command.h"
#include "config/plan.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "mutant.h"
#include "network/load.h"

namespace millrace::test::mutants_test {
namespace {

namespace fs = std::filesystem;

constexpr int kFew = 3;  // of each file

struct Tally {
  int mutants = 0, refused = 0, placed = 0;
  int misspelt = 0, suggested = 0;     // of those that are refused
  int harmless = 0, refused_late = 0;  // by --check, of those that are accepted

  Tally& operator+=(const Tally& other) {
    mutants += other.mutants;
    refused += other.refused;
    placed += other.placed;
    misspelt += other.misspelt;
    suggested += other.suggested;
    harmless += other.harmless;
    refused_late += other.refused_late;
    return *this;
  }
};

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// What messages name after "nearest is", without quotes and "${...}".
std::vector<std::string> suggestions(const std::string& said) {
  constexpr std::string_view kWords = "nearest is ";
  std::vector<std::string> names;
  for (std::size_t at = said.find(kWords); at != std::string::npos; at = said.find(kWords, at + 1)) {
    const std::size_t quote = at + kWords.size();
    std::string name = said.substr(quote + 1, said.find(said[quote], quote + 1) - quote - 1);
    if (name.starts_with("${")) name = name.substr(2, name.size() - 3);
    names.push_back(std::move(name));
  }
  return names;
}

// Whether `part` is `name`, or begins or ends it at the border of a word: "augment" of "train.augment", "epochs" of "10 epochs".
bool is_part(const std::string& part, const std::string& name) {
  if (part.empty() || part == name || part.size() > name.size()) return part == name;
  const auto is_border = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  return (name.starts_with(part) && is_border(name[part.size()])) ||
         (name.ends_with(part) && is_border(name[name.size() - part.size() - 1]));
}

// The name that was meant is the one before. Where a definition is misspelt and its uses are refused, it is the one after.
bool is_suggested(const Mutant& mutant, const std::string& said) {
  const std::vector<std::string> names = suggestions(said);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return is_part(name, mutant.before) || is_part(mutant.before, name) || is_part(name, mutant.after) ||
           is_part(mutant.after, name);
  });
}

// More images than a batch of any shipped file takes; also as a folder of photographs.
const TemporaryFolder& images() {
  static const TemporaryFolder folder;
  if (fs::exists(folder / "shapes")) return folder;
  const Outcome made =
      run_command({tool("pipeline-data"), "shapes", folder / "shapes", "--count", "1200", "--validation", "400"});
  EXPECT_EQ(made.code, 0) << made.err;
  for (const auto& [name, from] : {std::pair("train", "train"), {"val", "test"}}) {
    fs::create_directories(folder.path() / name);
    fs::create_directory_symlink(folder.path() / "shapes" / from / "circle", folder.path() / name / "images");
  }
  return folder;
}

// What makes a shipped pipeline find images. Nothing: it takes others than can be drawn here.
std::optional<std::vector<std::string>> data_of(const std::string& name) {
  const std::string shapes = images() / "shapes";
  for (const char* each : {"quickstart", "cifar10", "cifar10_airbench", "cifar10_muon", "cifar10_resnet"}) {
    if (name == each) return std::vector<std::string>{"data.path=" + shapes};
  }
  if (name == "resnet50") return std::vector<std::string>{"data.path=" + shapes, "network.classes=10"};
  if (name == "denoise")
    return std::vector<std::string>{"data.train=" + (images() / "train"), "data.validate=" + (images() / "val")};
  if (name == "super_resolution") return std::vector<std::string>{"data.path=" + images().path().string()};
  return std::nullopt;
}

class Mutants : public testing::Test {
 protected:
  Mutants() {
    load_all_plugins(registry_);
    fs::copy(pipeline(""), folder_.path(), fs::copy_options::recursive);
  }

  Tally look_at_file(const fs::path& file, int count) {
    const std::string text = read_file(file);
    check_ = check_of(file);
    has_check_ = std::nullopt;
    if (count > kFew) has_check(file);  // of every file
    const std::uint64_t seed = hash_text(file.filename().string());
    Tally tally;
    for (int i = 0; i < count; ++i) {
      const Mutant mutant = mutant_of(text, seed + static_cast<std::uint64_t>(i));
      SCOPED_TRACE(fmt::format("{}, mutant {} (seed {}): {} at line {}: '{}' became '{}'", file.filename().string(), i, seed,
                               kMutantKinds[static_cast<std::size_t>(mutant.kind)], mutant.line, mutant.before, mutant.after));
      look_at(file, mutant, tally);
    }
    fmt::print(
        "{:30} {:4} mutants {:4} refused {:4} there {:4} misspelt names {:4} with the right one {:4} harmless {:4} refused "
        "late\n",
        file.filename().string(), tally.mutants, tally.refused, tally.placed, tally.misspelt, tally.suggested, tally.harmless,
        tally.refused_late);
    return tally;
  }

 private:
  // What is said of a file; nothing when it is accepted.
  std::string said_of(const fs::path& file) const {
    try {
      if (file.parent_path().filename() == "networks") {
        Diagnostics errors;
        load_network(file.string(), Value(), registry_, errors);
        errors.throw_if_any();
      } else {
        load_pipeline(file.string(), {}, registry_);
      }
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
      return error.message();
    }
  }

  // How --check is told of a file: the words after it. A network is looked at in quickstart.toml, with its own size of images.
  std::optional<std::vector<std::string>> check_of(const fs::path& file) const {
    if (file.parent_path().filename() != "networks") return data_of(file.stem().string());
    Diagnostics errors;
    const ImageShape size = load_network(file.string(), Value(), registry_, errors)->input;
    std::vector<std::string> set = *data_of("quickstart");
    for (const char* graph : {"train", "validate"}) {
      set.push_back(fmt::format("{}.decode_image.size=[{}, {}]", graph, size.height, size.width));
      set.push_back(fmt::format("{}.batch.size=8", graph));
    }
    return set;
  }

  Outcome run_check(const fs::path& file) const {
    const bool is_network = file.parent_path().filename() == "networks";
    std::vector<std::string> words = {tool("pipeline-run"), is_network ? folder_ / "quickstart.toml" : file.string(), "--check",
                                      "--devices", "cpu"};
    if (is_network) words.insert(words.end(), {"--set", "network.use=" + file.string()});
    for (const std::string& each : *check_) words.insert(words.end(), {"--set", each});
    Interruption patience;
    patience.limit = 240;  // on machines that do much else
    return run_command(words, patience);
  }

  // Whether the file passes --check as it is, which takes seconds: asked when a mutant of it is accepted.
  bool has_check(const fs::path& file) {
    if (!has_check_) {
      has_check_ = check_ && run_check(file).code == 0;
      checked_ += *has_check_;
    }
    return *has_check_;
  }

  void expect_harmless(const fs::path& file, const fs::path& changed, Tally& tally) {
    if (!has_check(file)) return;
    const Outcome outcome = run_check(changed);
    if (outcome.code == 0) {
      ++tally.harmless;
      return;
    }
    ++tally.refused_late;
    EXPECT_TRUE(outcome.code == 2 || outcome.code == 3) << "code " << outcome.code << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(".toml:"), std::string::npos) << outcome.err;
  }

  void look_at(const fs::path& file, const Mutant& mutant, Tally& tally) {
    const fs::path changed = file.parent_path() / "mutant.toml";
    std::ofstream(changed, std::ios::binary) << mutant.text;
    const std::clock_t begin = std::clock();  // of this process alone: others may have the processor meanwhile
    const std::string said = said_of(changed);
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10) << "seconds";
    ++tally.mutants;
    if (std::getenv("MILLRACE_MUTANTS") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
      fmt::print("  {} line {}: '{}' became '{}': {}\n", kMutantKinds[static_cast<std::size_t>(mutant.kind)], mutant.line,
                 mutant.before, mutant.after, said.empty() ? "accepted" : said);
    }
    if (said.empty()) expect_harmless(file, changed, tally);
    fs::remove(changed);
    if (said.empty()) return;
    ++tally.refused;
    look_at_positions(said);
    // A wrong value is told where it is used, if its place says nothing about what may stand there.
    const std::string here = fmt::format("{}:{}:", changed.string(), mutant.line);
    const bool is_named = !mutant.after.empty() && said.find(mutant.after) != std::string::npos;
    tally.placed += said.find(here) != std::string::npos || is_named || mutant.after.empty();
    if (!mutant.is_misspelt()) return;
    ++tally.misspelt;
    tally.suggested += is_suggested(mutant, said);
  }

  // Each line begins with "file:line:column: ".
  static void look_at_positions(const std::string& said) {
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("    ")) continue;  // a remedy, which goes on over lines
      const std::size_t end = line.find(".toml:");
      ASSERT_NE(end, std::string::npos) << line;
      int row = 0, column = 0;
      EXPECT_EQ(std::sscanf(line.c_str() + end, ".toml:%d:%d: ", &row, &column), 2) << line;
      EXPECT_GT(row, 0) << line;
      EXPECT_GT(column, 0) << line;
    }
  }

  TemporaryFolder folder_;
  std::optional<std::vector<std::string>> check_;  // of the file that is looked at
  std::optional<bool> has_check_;                  // and it passes as it is; nothing: that was not asked

 protected:
  int checked_ = 0;  // files with a check

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const fs::path& folder : {folder_.path(), folder_.path() / "networks"}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".toml") found.push_back(entry.path());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  bool is_good(const fs::path& file) const { return said_of(file).empty(); }

  Registry registry_;
};

TEST_F(Mutants, OfShippedFilesAreRefusedByNameAndPlaceOrHarmless) {
  const char* asked = std::getenv("MILLRACE_MUTANTS");  // NOLINT(concurrency-mt-unsafe)
  const int count = asked ? std::atoi(asked) : kFew;
  const std::vector<fs::path> all = files();
  ASSERT_GT(all.size(), 40U);
  for (const fs::path& file : all) EXPECT_TRUE(is_good(file)) << file;
  const long peak = peak_kib();
  Tally sum;
  for (const fs::path& file : all) sum += look_at_file(file, count);
  fmt::print("{} mutants: {} refused, {} in the right place; {} of {} misspelt names answered with the right one\n", sum.mutants,
             sum.refused, sum.placed, sum.suggested, sum.misspelt);
  fmt::print("of those accepted, in {} files: {} pass --check, {} are refused by it\n", checked_, sum.harmless, sum.refused_late);
  EXPECT_GE(checked_, count > kFew ? 30 : 0);
  EXPECT_GT(sum.harmless, 0);
  EXPECT_GE(sum.refused, sum.mutants / 2);
  EXPECT_GE(100 * sum.placed, 90 * sum.refused);
  EXPECT_GE(100 * sum.suggested, 90 * sum.misspelt);
  EXPECT_LT(peak_kib() - peak, 512 * 1024);
}

}  // namespace
}  // namespace millrace::test::mutants_test
