// Pipelines drawn from declarations run correctly: no crash, no sanitizer report, no hang, no error after an accepted --check,
// and the same stream for any threads, devices and layout of the data. MILLRACE_GENERATED=10000 sets their number;
// MILLRACE_GENERATED_SEED draws others; MILLRACE_GENERATED_FIRST begins with that number; MILLRACE_GENERATED_FOLDER keeps the
// failing ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <set>

#include "millrace/util/load_plugins.h"
#include "trial.h"

namespace millrace::generator {
namespace {

namespace fs = std::filesystem;

constexpr int kFew = 20;
constexpr std::uint64_t kOfOneData = 25;  // pipelines that share a drawn data set

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Generated : public testing::Test {
 protected:
  Generated() {
    load_all_plugins(registry_);
    const char* kept = std::getenv("MILLRACE_GENERATED_FOLDER");  // NOLINT(concurrency-mt-unsafe)
    folder_ = kept ? fs::absolute(kept) : fs::temp_directory_path() / fmt::format("millrace_generated_{}", ::getpid());
    fs::create_directories(folder_);
    trials_.emplace(registry_, folder_ / "trial");
    seed_ = number_of("MILLRACE_GENERATED_SEED", 1);
  }
  ~Generated() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  void look_at(std::uint64_t number) {
    if (!data_ || number / kOfOneData != lot_) {
      lot_ = number / kOfOneData;
      Draw draw(seed_, {.position = lot_}, hash_text("data"));
      fs::remove_all(folder_ / "data");
      data_ = drawn_data(draw, folder_ / "data");
    }
    DrawnPipeline drawn = drawn_pipeline(seed_, number, registry_, *data_);
    const Outcome outcome = trials_->run_valid(drawn);
    ++counts_[static_cast<int>(outcome.kind)];
    if (outcome.kind == Outcome::Kind::refused) return (void)++refusals_[outcome.said.substr(0, 160)];
    if (outcome.kind != Outcome::Kind::passed) return tell(drawn, outcome);
    const std::vector<std::string> keys = keys_of(drawn, registry_);
    for (const std::string& key : keys) {
      ++keys_[key];
      for (const std::string& other : keys) {
        if (key < other) pairs_.insert(hash_text(key) * 3 + hash_text(other));
      }
    }
    compare(drawn, outcome, number % 3);
  }

  // The same stream with other threads, with other devices, from shards.
  void compare(const DrawnPipeline& drawn, const Outcome& outcome, std::uint64_t how) {
    const Value& run = *drawn.pipeline.find("run");
    if (how == 0) {
      const bool is_one = run.find("threads") != nullptr && run.find("threads")->integer() == 1;
      compare_with(drawn, outcome, is_one ? "run.threads=4" : "run.threads=1");
    } else if (how == 1) {
      const Value* devices = run.find("devices");
      compare_with(drawn, outcome, devices && devices->text() == "cpu" ? "run.devices=cpu*2" : "run.devices=cpu");
    } else if (const std::optional<TwoSources> two = folder_and_shards(drawn, *data_)) {
      const Outcome folder = trials_->run(two->folder), shards = trials_->run(two->shards);
      expect_same(two->shards, folder, shards, "from shards");
    }
  }
  void compare_with(const DrawnPipeline& drawn, const Outcome& outcome, const std::string& change) {
    expect_same(drawn, outcome, trials_->run(drawn, {change}), change);
  }
  void expect_same(const DrawnPipeline& drawn, const Outcome& one, const Outcome& other, const std::string& what) {
    using Kind = Outcome::Kind;
    if (other.kind == Kind::fault || other.kind == Kind::failed) return tell(drawn, other, what);
    if (one.kind != Kind::passed || other.kind != Kind::passed) return;
    ++compared_[what];
    if (one.streams == other.streams) return;
    keep(drawn);
    ADD_FAILURE() << "seed " << drawn.seed << ", number " << drawn.number << ": another stream with " << what << "\n"
                  << one.streams << "and\n"
                  << other.streams;
  }

  // Minimises the pipeline, keeps it, and prints its path.
  void tell(DrawnPipeline drawn, const Outcome& outcome, const std::string& change = {}) {
    const std::string first = outcome.said.substr(0, outcome.said.find('\n'));
    const std::vector<std::string> overrides =
        change.starts_with("run.") ? std::vector<std::string>{change} : std::vector<std::string>{};
    trials_->minimise(drawn, [&](const DrawnPipeline& less) {
      const Outcome now = trials_->run(less, overrides);
      return now.kind == outcome.kind && (outcome.kind == Outcome::Kind::fault || now.said.substr(0, 25) == first.substr(0, 25));
    });
    const Outcome last = trials_->run(drawn, overrides);
    keep(drawn);
    ADD_FAILURE() << "seed " << drawn.seed << ", number " << drawn.number << ' ' << change << ": " << outcome.said
                  << "\nmade small: " << last.said << "\n"
                  << to_toml(drawn.pipeline) << "\n# network.toml\n"
                  << to_toml(drawn.network);
  }
  void keep(const DrawnPipeline& drawn) {
    const fs::path place = folder_ / fmt::format("failed-{}-{}", drawn.seed, drawn.number);
    fs::create_directories(place);
    std::ofstream(place / "pipeline.toml") << to_toml(drawn.pipeline);
    std::ofstream(place / "network.toml") << to_toml(drawn.network);
    fs::copy(folder_ / "data", folder_ / fmt::format("data-{}-{}", drawn.seed, lot_),
             fs::copy_options::recursive | fs::copy_options::skip_existing);
    fmt::print("kept: {}\n", place.string());
  }

  void report(std::uint64_t count, bool last) const {
    fmt::print("seed {}: {} drawn, {} passed, {} refused, {} failed, {} faults\n", seed_, count, counts_[1], counts_[0],
               counts_[2], counts_[3]);
    for (const auto& [what, times] : compared_) fmt::print("compared {}: {}\n", what, times);
    const std::vector<std::string> known = known_keys(registry_);
    fmt::print("{} of {} keys, {} pairs of keys\n", keys_.size(), known.size(), pairs_.size());
    std::fflush(stdout);
    if (count < 100 || !last) return;
    for (const std::string& key : known) {
      if (!keys_.contains(key)) fmt::print("never: {}\n", key);
    }
    std::multimap<int, std::string, std::greater<>> most;
    for (const auto& [said, times] : refusals_) most.emplace(times, said);
    for (const auto& [times, said] : most) fmt::print("refused {} times: {}\n", times, said);
  }

  Registry registry_;
  fs::path folder_;
  std::optional<Trials> trials_;
  std::uint64_t seed_ = 1, lot_ = 0;
  std::optional<DataSet> data_;
  int counts_[4] = {};
  std::map<std::string, int> keys_, compared_, refusals_;
  std::set<std::uint64_t> pairs_;
};

TEST_F(Generated, PipelinesRunAndTheirStreamsAreTheSame) {
  const std::uint64_t count = number_of("MILLRACE_GENERATED", kFew), first = number_of("MILLRACE_GENERATED_FIRST", 0);
  for (std::uint64_t number = first; number < first + count; ++number) {
    look_at(number);
    if ((number + 1 - first) % 100 == 0 || number + 1 == first + count) report(number + 1 - first, number + 1 == first + count);
  }
  EXPECT_GT(counts_[static_cast<int>(Outcome::Kind::passed)], static_cast<int>(count / 2));
}

}  // namespace
}  // namespace millrace::generator
