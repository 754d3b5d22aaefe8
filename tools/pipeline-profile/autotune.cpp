#include "autotune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <utility>

#include "millrace/detail/value.h"
#include "toml/document.h"

namespace millrace {
namespace {

constexpr double kWorthIt = 1.02;   // minimum gain of a change
constexpr double kAsGood = 0.99;    // fraction of the best prediction: the difference is not worth a thread or a buffer
constexpr double kHopeless = 0.85;  // fraction of the best measurement
constexpr std::size_t kCandidates = 6;
constexpr double kRunSeconds = 2.5;

Question question_of(const Settings& settings, const RunFacts& facts) {
  Question question{.text = {}, .changes = {}};
  const Settings today = settings_of(facts);
  const auto add = [&](const char* key, double value, bool differs) {
    if (differs) question.changes.push_back({key, value});
  };
  add("threads", settings.threads, settings.threads != today.threads);
  add("io_threads", settings.io_threads, settings.io_threads != today.io_threads);
  add("chunk", settings.chunk, settings.chunk != today.chunk);
  add("buffers", settings.buffers, settings.buffers != today.buffers);
  add("batch", settings.batch, settings.batch != today.batch);
  return question;
}

// Cost of the settings: threads, and memory for batches.
double cost_of(const Settings& settings) { return settings.threads + 0.25 * settings.io_threads + settings.buffers; }

// The settings with each value of one key that is worth a simulation.
std::vector<Settings> variants(const Settings& of, int Settings::*key, std::initializer_list<int> values) {
  std::vector<Settings> all = {of};
  for (const int value : values) {
    all.push_back(of);
    all.back().*key = std::max(value, 1);
  }
  return all;
}
std::vector<Settings> variants(const Settings& of, std::uint32_t Settings::*key, std::initializer_list<std::uint32_t> values) {
  std::vector<Settings> all = {of};
  for (const std::uint32_t value : values) {
    all.push_back(of);
    all.back().*key = std::min(value, of.batch);
  }
  return all;
}

// The cheapest of those about as good as the best one.
Candidate best_of(const std::vector<Settings>& all, const Predictor& predictor, const RunFacts& facts) {
  std::vector<Candidate> simulated;
  double most = 0;
  for (const Settings& settings : all) {
    simulated.push_back({settings, predictor.rate(question_of(settings, facts))});
    most = std::max(most, simulated.back().predicted);
  }
  std::erase_if(simulated, [&](const Candidate& each) { return each.predicted < kAsGood * most; });
  return *std::ranges::min_element(simulated, {}, [](const Candidate& each) { return cost_of(each.settings); });
}

ProfiledFile with(const ProfiledFile& what, const Settings& settings, const RunFacts& facts) {
  ProfiledFile changed = what;
  const std::string batcher = facts.graph + "." + facts.stages.back().name;
  changed.overrides.insert(
      changed.overrides.end(),
      {fmt::format("run.threads={}", settings.threads), fmt::format("run.io_threads={}", settings.io_threads),
       settings.chunk == 0 ? "run.chunk=auto" : fmt::format("run.chunk={}", settings.chunk),
       fmt::format("{}.buffers={}", batcher, settings.buffers)});
  if (facts.batch_is_chosen) changed.overrides.push_back(fmt::format("{}.size={}", batcher, settings.batch));
  return changed;
}

// Runs candidates alternately, so that other load affects all of them.
class Trials {
 public:
  struct Trial {
    Candidate candidate;
    std::vector<double> rates;
    double mean() const {
      double sum = 0;
      for (const double rate : rates) sum += rate;
      return rates.empty() ? 0 : sum / static_cast<double>(rates.size());
    }
  };

  explicit Trials(const std::vector<Candidate>& all) {
    for (const Candidate& each : all) trials_.push_back({each, {}});
  }
  // Returns true if one more was run.
  bool run_next(const std::function<double(const Settings&)>& measure) {
    const auto next = std::ranges::min_element(trials_, {}, [](const Trial& trial) { return trial.rates.size(); });
    if (next == trials_.end() || next->rates.size() >= 3) return false;
    next->rates.push_back(measure(next->candidate.settings));
    const bool round_is_over =
        std::ranges::all_of(trials_, [&](const Trial& trial) { return trial.rates.size() == trials_.front().rates.size(); });
    if (round_is_over) drop_hopeless();
    return true;
  }
  std::vector<Trial> all() const {
    std::vector<Trial> all = trials_;
    all.insert(all.end(), dropped_.begin(), dropped_.end());
    return all;
  }
  // The current settings if no other is worth it.
  const Trial& best() const {
    const Trial& today = trials_.front();
    const Trial& best = *std::ranges::max_element(trials_, {}, &Trial::mean);
    return best.mean() > kWorthIt * today.mean() ? best : today;
  }

 private:
  void drop_hopeless() {
    const double most = std::ranges::max_element(trials_, {}, &Trial::mean)->mean();
    for (std::size_t i = 1; i < trials_.size();) {  // the current settings stay, for comparison
      if (trials_[i].mean() >= kHopeless * most) {
        ++i;
        continue;
      }
      dropped_.push_back(std::move(trials_[i]));
      trials_.erase(trials_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  std::vector<Trial> trials_, dropped_;
};

std::string text_of(const Settings& settings, const RunFacts& facts) {
  std::string text = fmt::format("threads={} io_threads={} chunk={} buffers={}", settings.threads, settings.io_threads,
                                 settings.chunk == 0 ? "auto" : std::to_string(settings.chunk), settings.buffers);
  if (facts.batch_is_chosen) text += fmt::format(" batch={}", settings.batch);
  return text;
}

struct Chosen {
  std::string table, key, value, reason;
};

// The keys with their values, and the reasons.
std::vector<Chosen> chosen_of(const Tuned& tuned) {
  const RunFacts& facts = tuned.facts;
  const std::string gain = fmt::format("with all changes {:.0f} images/s instead of {:.0f}", tuned.rate_after, tuned.rate_before);
  std::vector<Chosen> all;
  const auto add = [&](const std::string& table, const char* key, std::uint64_t before, std::uint64_t after) {
    const auto worded = [&](std::uint64_t value) {
      return key == std::string("chunk") && value == 0 ? "\"auto\"" : std::to_string(value);
    };
    const std::string reason = before == after ? fmt::format("as before: none of {} settings gained 2 %", tuned.measured() - 1)
                                               : fmt::format("was {}; {}", worded(before), gain);
    all.push_back({table, key, worded(after), reason});
  };
  const Settings &before = tuned.before, &after = tuned.after;
  const std::string batcher = facts.graph + "." + facts.stages.back().name;
  add("run", "threads", static_cast<std::uint64_t>(before.threads), static_cast<std::uint64_t>(after.threads));
  add("run", "io_threads", static_cast<std::uint64_t>(before.io_threads), static_cast<std::uint64_t>(after.io_threads));
  add("run", "chunk", before.chunk, after.chunk);
  add(batcher, "buffers", before.buffers, after.buffers);
  if (facts.batch_is_chosen) add(batcher, "size", before.batch, after.batch);
  return all;
}

}  // namespace

Settings settings_of(const RunFacts& facts) { return {facts.threads, facts.io_threads, facts.chunk, facts.buffers, facts.batch}; }

std::vector<Candidate> candidates(const Calibration& measured, const Predictor& predictor, std::size_t most) {
  const RunFacts& facts = measured.facts;
  const Settings today = settings_of(facts);
  const int cores = facts.cores;
  // The best value of a key, with the others unchanged.
  const std::array<std::function<Candidate(const Settings&)>, 4> along = {
      [&](const Settings& from) {
        return best_of(variants(from, &Settings::threads, {1, cores / 2, cores - 1, cores, cores + 1}), predictor, facts);
      },
      [&](const Settings& from) {
        return best_of(variants(from, &Settings::io_threads, {1, 2, 4, 8, 16, 32}), predictor, facts);
      },
      [&](const Settings& from) {
        return best_of(variants(from, &Settings::buffers, {2, 3, 4, 6}), predictor, facts);
      },
      [&](const Settings& from) {
        return best_of(variants(from, &Settings::chunk, {0, 1, 4, 16, 64}), predictor, facts);
      }};
  Settings together = today;
  for (int round = 0; round < 2; ++round) {
    for (const auto& best : along) together = best(together).settings;
  }
  std::vector<Candidate> chosen = {{today, predictor.measured()}};
  const auto add = [&](const Candidate& candidate) {
    const auto is_same = [&](const Candidate& other) { return other.settings == candidate.settings; };
    if (chosen.size() < most && std::ranges::none_of(chosen, is_same)) chosen.push_back(candidate);
  };
  add({together, predictor.rate(question_of(together, facts))});
  if (facts.batch_is_chosen && today.batch > 1) {
    Settings half = today;
    half.batch /= 2;
    add({half, predictor.rate(question_of(half, facts))});
  }
  Settings roomy = together;  // effects outside the simulation may need room
  roomy.threads = std::max(roomy.threads, cores);
  roomy.chunk = 0;
  roomy.buffers = std::max(roomy.buffers, 4U);
  add({roomy, predictor.rate(question_of(roomy, facts))});
  for (const auto& best : along) add(best(today));
  return chosen;
}

Tuned autotune(const ProfiledFile& what, const Registry& registry, double seconds) {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(steady_clock::now() - begin).count(); };
  const CalibrationOptions options{.steps = 5, .seconds = std::min(kRunSeconds, seconds / 10), .most_seconds = seconds / 6};
  const Calibration measured = calibrate(what, registry, options);
  double longest = elapsed();  // the longest run, including its start
  Trials trials(candidates(measured, Predictor(measured), kCandidates));
  const auto run = [&](const Settings& settings) {
    const double before = elapsed();
    const double rate = calibrate(with(what, settings, measured.facts), registry, options).images_per_second();
    longest = std::max(longest, elapsed() - before);
    return rate;
  };
  while (elapsed() + longest < seconds && trials.run_next(run)) continue;

  Tuned tuned;
  tuned.facts = measured.facts;
  tuned.before = settings_of(measured.facts);
  const auto all = trials.all();
  for (const auto& trial : all) tuned.tried.push_back({trial.candidate.settings, trial.candidate.predicted, trial.mean()});
  tuned.after = trials.best().candidate.settings;
  tuned.rate_before = all.front().mean();
  tuned.rate_after = trials.best().mean();
  tuned.seconds = elapsed();
  return tuned;
}

std::size_t Tuned::measured() const {
  return static_cast<std::size_t>(std::ranges::count_if(tried, [](const Tried& each) { return each.measured > 0; }));
}

std::string autotune_text(const Tuned& tuned) {
  std::string text = fmt::format("{:<52} {:>12} {:>12}\n", "tried", "simulated /s", "measured /s");
  for (const Tuned::Tried& each : tuned.tried) {
    const bool is_measured = each.measured > 0;
    text += fmt::format("{:<52} {:>12.0f} {:>12}{}\n", text_of(each.settings, tuned.facts), each.predicted,
                        is_measured ? fmt::format("{:.0f}", each.measured) : "-",
                        each.settings == tuned.after    ? "  chosen"
                        : each.settings == tuned.before ? "  as before"
                                                        : "");
  }
  if (!tuned.has_compared()) {
    return text + fmt::format("nothing was tried: {:.0f} s do not suffice for two runs; give more --seconds\n", tuned.seconds);
  }
  for (const Chosen& each : chosen_of(tuned)) {
    text += fmt::format("{}.{} = {}: {}\n", each.table, each.key, each.value, each.reason);
  }
  return text + fmt::format("chosen in {:.0f} s\n", tuned.seconds);
}

std::string autotune_toml(const Tuned& tuned, const std::string& file, const std::vector<std::string>& overrides) {
  std::string text = fmt::format("# Chosen by pipeline-profile --autotune on {} cores: {} settings were tried.\n",
                                 tuned.facts.cores, tuned.measured());
  Value document{Table{}};
  Diagnostics errors;
  for (const std::string& each : overrides) apply_override(each, document, errors);
  for (const Chosen& each : chosen_of(tuned)) {
    apply_override(fmt::format("{}.{}={}", each.table, each.key, each.value), document, errors);
    text += fmt::format("# {}.{}: {}\n", each.table, each.key, each.reason);
  }
  errors.throw_if_any();
  return text + fmt::format("extends = {}\n\n{}", to_toml(Value(file)), to_toml(document));
}

}  // namespace millrace
