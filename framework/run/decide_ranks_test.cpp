// Ranks that agree before each step, each with rules of its own: whatever is requested of whichever rank, all do the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "run/decide_fixture.h"

namespace millrace {
namespace {

constexpr std::uint64_t kReadAhead = 2;  // steps that are agreed on before the step under way is done
constexpr std::uint64_t kPassSteps = 2;

class Ranks {
 public:
  static constexpr std::size_t kCount = 2;

  Ranks(const RunRules& rules, Random& random) : random_(random) {
    for (std::size_t r = 0; r < kCount; ++r) {
      Rank& rank = ranks_[r];
      rank.rules = rules;
      rank.rules.is_alone = false;
      rank.rules.is_first = r == 0;
      rank.state = begin(rank.rules, nullptr);
      rank.results.emplace_back(event::Began{});
    }
  }

  // Returns what is wrong; "": nothing.
  std::string run() {
    for (int turn = 0, idle = 0; !have_ended(); ++turn) {
      if (idle > 1000 || turn > 100'000) return "nobody moves: " + log_of(0) + "\n   or: " + log_of(1);
      if (below(random_, 12) == 0) ask_for_something();
      idle = advance(below(random_, kCount)) || agree_on_step() || agree_on_pass() || agree_on_verdict() ? 0 : idle + 1;
    }
    return ranks_[0].log == ranks_[1].log ? "" : log_of(0) + "\n  and: " + log_of(1);
  }

 private:
  struct Rank {
    RunRules rules;
    RunState state;
    std::deque<RunEvent> inbox, results;
    std::vector<RequestEvent> outside;
    std::uint64_t done = 0, horizon = 0, asked = 0;
    bool is_training = false, was_stopped = false, was_reached = true;
    std::optional<std::size_t> other;  // the graph that runs
    bool is_other_stopped = false;
    std::uint64_t pass_steps = 0;  // of it, agreed on
    std::optional<event::Verdict> verdict;
    std::vector<std::string> log;  // what all ranks must do
  };

  std::string log_of(std::size_t r) const { return fmt::format("{}", fmt::join(ranks_[r].log, ", ")); }
  bool have_ended() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.state.phase == RunState::Phase::ended; });
  }

  void ask_for_something() {
    Rank& rank = ranks_[below(random_, kCount)];
    if (rank.state.phase == RunState::Phase::ready || rank.state.phase == RunState::Phase::ended) return;
    switch (below(random_, 16)) {
      case 0: rank.inbox.emplace_back(event::Signal{15}); break;
      case 1: rank.outside.push_back({.kind = RequestKind::stop, .by = "page", .text = {}}); break;
      case 2: rank.outside.push_back({.kind = RequestKind::save, .by = "page", .text = {}}); break;
      case 3: rank.outside.push_back({.kind = RequestKind::validate, .by = "page", .text = {}}); break;
      case 4: rank.outside.push_back({.kind = RequestKind::rate_factor, .by = "page", .factor = 0.5, .text = {}}); break;
      case 5: rank.inbox.emplace_back(event::CheckpointDue{"a signal"}); break;
      case 6: rank.inbox.emplace_back(event::CaughtUp{}); break;
      default: break;
    }
  }

  // One event, or a step of a graph. False: this rank waits for others.
  bool advance(std::size_t r) {
    Rank& rank = ranks_[r];
    const bool is_ready = rank.state.phase != RunState::Phase::ready;
    if (rank.state.phase == RunState::Phase::ended) return false;
    if (is_ready && !rank.inbox.empty()) return feed(rank, rank.inbox);
    if (!rank.results.empty()) return feed(rank, rank.results);
    if (rank.other) {
      if (rank.pass_steps < kPassSteps && !rank.is_other_stopped) return false;
      rank.inbox.emplace_back(event::Drained{*std::exchange(rank.other, std::nullopt), rank.done});
      return true;
    }
    if (!rank.is_training) return false;
    if (rank.was_stopped || rank.done == rank.rules.end) {
      rank.is_training = false;
      rank.inbox.emplace_back(event::Drained{0, rank.done});
      return true;
    }
    if (rank.done >= agreed_ || rank.done >= rank.horizon) return false;
    ++rank.done;
    check_horizon(rank);
    return true;
  }

  bool feed(Rank& rank, std::deque<RunEvent>& events) {
    RunEvent event = std::move(events.front());
    events.pop_front();
    Decision decision = decide(rank.rules, std::move(rank.state), std::move(event));
    rank.state = std::move(decision.state);
    for (Action& each : decision.actions) std::visit([&](auto& action) { execute(rank, action); }, each);
    return true;
  }

  static void check_horizon(Rank& rank) {
    if (!rank.is_training || rank.was_reached || rank.done < rank.horizon) return;
    rank.was_reached = true;
    rank.inbox.emplace_back(event::Reached{rank.done});
  }
  static void lower(Rank& rank, std::uint64_t limit) {
    rank.asked = std::min(rank.asked, limit);
    rank.horizon = std::max(rank.asked, rank.done);
    check_horizon(rank);
  }
  void enter(const std::vector<RequestEvent>& requests, std::uint64_t from) {
    for (Rank& rank : ranks_) {
      for (const RequestEvent& request : requests) {
        rank.inbox.emplace_back(event::Requested{request, from});
        if (rank.is_training) lower(rank, request.kind == RequestKind::stop ? from : std::max(from, rank.done + 1));
      }
    }
  }
  std::vector<RequestEvent> gather() {
    std::vector<RequestEvent> all;
    for (Rank& rank : ranks_) {
      for (RequestEvent& request : std::exchange(rank.outside, {})) all.push_back(std::move(request));
    }
    return all;
  }

  // All ranks have a batch for the next step that is not agreed on.
  bool agree_on_step() {
    const bool are_ready = std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.is_training && !rank.was_stopped && agreed_ < rank.rules.end && agreed_ <= rank.done + kReadAhead;
    });
    if (!are_ready || has_stop_) return false;
    const std::vector<RequestEvent> all = gather();
    has_stop_ = std::ranges::find(all, RequestKind::stop, &RequestEvent::kind) != all.end();
    enter(all, agreed_ + 1);
    ++agreed_;
    return true;
  }

  bool agree_on_pass() {
    const bool are_ready = std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.other && rank.other == ranks_[0].other && rank.pass_steps == ranks_[0].pass_steps &&
             rank.pass_steps < kPassSteps && !rank.is_other_stopped;
    });
    if (!are_ready || is_broken_off_) return false;
    const std::vector<RequestEvent> all = gather();
    is_broken_off_ = std::ranges::any_of(all, [](const RequestEvent& request) { return request.signal != 0; });
    enter(all, 0);
    for (Rank& rank : ranks_) ++rank.pass_steps;
    return true;
  }

  bool agree_on_verdict() {
    if (!std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.verdict.has_value(); })) return false;
    for (Rank& rank : ranks_) rank.results.emplace_back(*ranks_[0].verdict);
    for (Rank& rank : ranks_) rank.verdict.reset();
    return true;
  }

  void start(Rank& rank, std::size_t graph, const char* what) {
    rank.log.push_back(fmt::format("{} {} after {}", what, graph, rank.done));
    rank.other = graph;
    rank.pass_steps = 0;
    rank.is_other_stopped = is_broken_off_ = false;
  }
  std::vector<Figure> metrics_of(const Rank& rank, const std::string& graph) {
    return {{"loss", rank.rules.is_first ? metric(graph, rank.done, 1) : 1, false, false}};  // rank 1 has a part of the sums
  }

  void execute(Rank& rank, action::TryGraph& action) { start(rank, action.graph, "try"); }
  void execute(Rank& rank, action::RunPass& action) { start(rank, action.graph, "pass"); }
  void execute(Rank& rank, action::EndTry&) { rank.results.emplace_back(event::Tried{}); }
  void execute(Rank& rank, action::StartTraining&) {
    rank.is_training = true;
    check_horizon(rank);
  }
  void execute(Rank& rank, action::SetHorizon& action) {
    rank.asked = action.step;
    for (const RunEvent& each : rank.inbox) {
      const auto* requested = std::get_if<event::Requested>(&each);
      if (requested == nullptr) continue;
      const bool is_stop = requested->request.kind == RequestKind::stop;
      rank.asked = std::min(rank.asked, is_stop ? requested->from : std::max(requested->from, rank.done + 1));
    }
    rank.horizon = std::max(rank.asked, rank.done);
    rank.was_reached = false;
    check_horizon(rank);
  }
  void execute(Rank& rank, action::StopGraph& action) {
    if (action.graph == 0) {
      rank.was_stopped = true;
    } else {
      rank.is_other_stopped = true;
    }
  }
  void execute(Rank& rank, action::FinishTraining&) { rank.log.push_back(fmt::format("finish after {}", rank.done)); }
  void execute(Rank& rank, action::Settle& action) {
    rank.log.push_back(fmt::format("settle after {}", rank.done));
    event::Settled settled;
    if (action.ends_epoch) settled.metrics = metrics_of(rank, rank.rules.graph);
    rank.results.emplace_back(std::move(settled));
  }
  void execute(Rank& rank, action::CompareWeights&) { rank.log.emplace_back("compare"); }
  void execute(Rank& rank, action::MeasurePass& action) {
    rank.log.emplace_back("measure");
    rank.results.emplace_back(event::PassEnded{metrics_of(rank, rank.rules.others[action.graph - 1].graph)});
  }
  void execute(Rank& rank, action::Ask& action) {
    rank.outside.push_back(std::move(action.request));
    rank.results.emplace_back(event::Asked{});
  }
  void execute(Rank& rank, action::SetRate& action) {
    rank.log.push_back(fmt::format("rate {} after {}", action.factor, rank.done));
  }
  void execute(Rank& rank, action::Agree& action) {
    rank.log.emplace_back("agree");
    rank.verdict = {action.is_best, action.is_flat};
  }
  void execute(Rank& rank, action::PutBest&) {
    rank.log.emplace_back("put");
    rank.results.emplace_back(event::BestInPlace{0});
  }
  void execute(Rank& rank, action::SaveWeights&) { rank.log.push_back(fmt::format("weights after {}", rank.done)); }
  void execute(Rank& rank, action::Checkpoint& action) {
    rank.log.push_back(fmt::format("save after {}{}", rank.done, action.may_be_left_out ? ", perhaps" : ""));
    rank.results.emplace_back(event::CheckpointMade{});
  }
  void execute(Rank& rank, action::End&) { rank.log.push_back(fmt::format("end after {}", rank.done)); }
  template <class A>
  void execute(Rank&, A&) {}  // what each rank does for itself

  Random& random_;
  std::array<Rank, kCount> ranks_;
  std::uint64_t agreed_ = 0;  // steps of the main graph
  bool has_stop_ = false;     // no later step is agreed on
  bool is_broken_off_ = false;
};

TEST(DecideRanks, AllDoTheSameWhateverIsRequested) {
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    Random random(seed);
    const RunRules rules = random_rules(random);
    ASSERT_EQ(Ranks(rules, random).run(), "") << seed;
  }
}

}  // namespace
}  // namespace millrace
