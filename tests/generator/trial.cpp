#include "trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "config/plan.h"
#include "places.h"
#include "run/check.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "testkit/apart.h"

namespace millrace::generator {

namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 120;  // seconds, on busy machines
constexpr int kMaxRepairs = 30, kMaxRemovals = 150;
constexpr char kBetweenRuns = '\x1e';  // a separator of records

class Streams final : public RunObserver {
 public:
  void epoch(const EpochEvent& event) override {
    if (event.reported) text_ += fmt::format("{} {}: {:016x}\n", event.graph, event.epoch, event.stream_hash);
  }
  void pass(const PassEvent& event) override {
    text_ += fmt::format("{} after step {}: {:016x}\n", event.graph, event.step, event.stream_hash);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Errors caused by samples and values, in a pipeline that --check cannot refuse.
bool is_of_the_data(const Error& error) {
  static const std::regex kNumbers("not finite| is -?(nan|inf)|would both be written as");
  return error.kind() == ErrorKind::data || error.kind() == ErrorKind::content || std::regex_search(error.what(), kNumbers);
}

void say_into(const char* file) {
  const int said = ::open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(said, STDOUT_FILENO);
  ::dup2(said, STDERR_FILENO);
  ::close(said);
}

// Runs in the separate process. The first line is the outcome, the others are its details.
std::string run_here(const std::vector<std::string>& overrides, const Registry& registry) {
  say_into("said.txt");
  const auto streams = std::make_shared<Streams>();
  bool accepted = false;
  try {
    const Pipeline pipeline = load_pipeline("pipeline.toml", overrides, registry);
    {
      RunOptions check;
      check.only_check = true;
      const auto prepared = prepare(pipeline, registry, check);
      prepared->open_graphs();
      fmt::print("{}", check_report(*prepared));
    }
    accepted = true;
    RunOptions options;
    options.hash_input = true;
    options.hooks.observer = streams;
    run_with_rollbacks(pipeline, registry, options);
  } catch (...) {
    const Error error = current_error();
    return fmt::format("{}\n{}", accepted && !is_of_the_data(error) ? "failed" : "refused", error.what());
  }
  return "passed\n" + streams->text();
}

// Parses the text of run_here().
Outcome outcome_of(const std::string& text) {
  const std::size_t end = text.find('\n');
  const std::string how = text.substr(0, end), rest = text.substr(end + 1);
  if (how == "passed") return {Outcome::Kind::passed, {}, rest};
  return {how == "failed" ? Outcome::Kind::failed : Outcome::Kind::refused, rest, {}};
}

// The relevant lines of a report.
std::string report_in(const fs::path& file) {
  std::ifstream in(file);
  std::string found;
  int lines = 0;
  for (std::string line; std::getline(in, line);) {
    const bool begins = line.find("ERROR: ") != line.npos || line.find("runtime error") != line.npos ||
                        line.find("Assertion") != line.npos || line.find("terminate") != line.npos;
    if (begins && lines == 0) lines = 14;
    if (lines > 0 && --lines >= 0) found += line + "\n";
  }
  return found;
}

// Nothing runs without these, even if a message names them.
bool is_needed(const Value& document, const Place& place) {
  static const std::set<std::string> kKeys = {"flow",  "path",     "images", "use",  "input",   "layers", "op",  "stage", "type",
                                              "every", "channels", "name",   "loss", "sources", "size",   "fit", "crop"};
  static const std::regex kStages("read_.*|mix|decode_image|batch|forward|forward_backward|optimizer");
  static const std::set<std::string> kTables = {"run", "network", "train", "input", "layers"};
  if (place.size() < 2) return place.empty() || kTables.contains(place[0].key);
  const bool is_batch = place.size() == 3 && place[1].key == "batch";  // see mend()
  if (place.size() > 2 && kKeys.contains(place.back().key) && !is_batch) return true;
  if (place.size() == 2 && (place[1].key == "flow" || place[1].key == "every" || place[1].key == "use")) return true;
  if (place[1].key != "flow") return place.size() == 2 && std::regex_match(place[1].key, kStages);
  return place.size() < 3 ||
         std::regex_match(document.find(place[0].key)->find("flow")->array()[place[2].number].text(), kStages);
}

// From an element to its list, unless the elements are independent.
void leave_list(Place& place) {
  static const std::set<std::string> kLists = {"flow", "layers", "groups", "auxiliary"};
  while (place.size() > 1 && place.back().key.empty() && !kLists.contains(place[place.size() - 2].key)) place.pop_back();
}

// The key that a message names in the table at its position; else one that may be removed, if any.
std::optional<Place> what_is_meant(const Value& document, Place place, const std::string& said) {
  leave_list(place);
  const Value* value = &document;
  for (const PlaceStep& step : place) value = step.key.empty() ? &value->array()[step.number] : value->find(step.key);
  const std::optional<Place> itself = is_needed(document, place) ? std::nullopt : std::optional(place);
  if (value->kind() != Value::Kind::table || said.find("is not in the flow") != said.npos) return itself;
  std::optional<Place> any;
  std::size_t first = std::string::npos;
  for (const Member& member : value->table()) {
    Place inside = place;
    inside.push_back({member.key, 0});
    if (is_needed(document, inside)) continue;
    std::smatch named;
    const bool is_named = std::regex_search(said, named, std::regex("\\b" + member.key + "\\b"));
    const auto at = is_named ? static_cast<std::size_t>(named.position()) : std::string::npos;
    if (!any || at < first) any = inside, first = at;
  }
  return any ? any : itself;
}

// Removes it; keys that a batch needs are minimised instead.
void mend(Value& document, const Place& place) {
  if (place.size() != 3 || place[1].key != "batch" || place[2].key != "size") return take_out(document, place);
  Value& batch = *document.find(place[0].key)->find("batch");
  batch.set("size", Value(1));
  batch.set("last", Value("keep"));
}

}  // namespace

Outcome Trials::run(const DrawnPipeline& drawn, const std::vector<std::string>& overrides) const {
  return outcomes_of([&] { return std::vector{run_inside(drawn, overrides)}; }).back();
}

std::vector<Outcome> Trials::outcomes_of(const std::function<std::vector<std::string>()>& runs) const {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  const testkit::Ended ended = testkit::run_apart(
      [&] {
        fs::current_path(folder_);
        return fmt::format("{}", fmt::join(runs(), std::string(1, kBetweenRuns)));
      },
      kPatience);
  if (!ended.fate.empty()) return {{Outcome::Kind::fault, ended.fate + "\n" + report_in(folder_ / "said.txt"), {}}};
  std::vector<Outcome> outcomes;
  std::istringstream all(ended.result);
  for (std::string text; std::getline(all, text, kBetweenRuns);) outcomes.push_back(outcome_of(text));
  return outcomes;
}

std::string Trials::run_inside(const DrawnPipeline& drawn, const std::vector<std::string>& overrides) const {
  for (const fs::directory_entry& entry : fs::directory_iterator(".")) fs::remove_all(entry);
  std::ofstream("pipeline.toml") << to_toml(drawn.pipeline);
  std::ofstream("network.toml") << to_toml(drawn.network);
  return run_here(overrides, registry_);
}

bool Trials::take_out_what_is_wrong(DrawnPipeline& drawn, const std::string& said, Draw& draw) const {
  static const std::regex kPlace("(pipeline|network)[.]toml:([0-9]+):([0-9]+): ([^\n]*)");
  for (std::sregex_iterator found(said.begin(), said.end(), kPlace), end; found != end; ++found) {
    Value& document = (*found)[1] == "pipeline" ? drawn.pipeline : drawn.network;
    std::optional<Place> place = place_at(document, std::stoi((*found)[2]), std::stoi((*found)[3]));
    if (place) place = what_is_meant(document, *place, (*found)[4]);
    if (!place) continue;
    mend(document, *place);
    return true;  // the others may be gone as well
  }
  if (said.find("[validate") != said.npos && drawn.pipeline.erase("validate")) return true;
  std::vector<Place> all = places(drawn.pipeline);
  for (Place& place : all) leave_list(place);
  std::erase_if(all, [&](const Place& place) { return is_needed(drawn.pipeline, place); });
  if (all.empty()) return false;
  mend(drawn.pipeline, pick(draw, all));
  return true;
}

// One process for all of its runs: starting one costs more than most runs. Both processes remove the same keys.
Outcome Trials::run_valid(DrawnPipeline& drawn) const {
  const Draw draw(drawn.seed, {.position = drawn.number}, hash_text("repairs"));
  const auto repair = [&](DrawnPipeline& repaired, Draw& from, const std::function<Outcome()>& next) {
    Outcome outcome = next();
    for (int i = 0; i < kMaxRepairs && outcome.kind == Outcome::Kind::refused; ++i) {
      if (!take_out_what_is_wrong(repaired, outcome.said, from)) break;
      outcome = next();
    }
    return outcome;
  };
  const std::vector<Outcome> outcomes = outcomes_of([&] {
    std::vector<std::string> texts;
    DrawnPipeline there = drawn;
    Draw from = draw;
    repair(there, from, [&] { return outcome_of(texts.emplace_back(run_inside(there, {}))); });
    return texts;
  });
  Draw from = draw;
  std::size_t known = 0;
  const bool ended = outcomes.front().kind != Outcome::Kind::fault;
  return repair(drawn, from, [&] { return ended ? outcomes.at(known++) : run(drawn); });
}

void Trials::minimise(DrawnPipeline& drawn, const std::function<bool(const DrawnPipeline&)>& still_fails) const {
  int tries = 0;
  for (bool smaller = true; smaller && tries < kMaxRemovals;) {
    smaller = false;
    for (Value DrawnPipeline::*document : {&DrawnPipeline::pipeline, &DrawnPipeline::network}) {
      std::vector<Place> all = places(drawn.*document);
      for (std::size_t i = 0; i < all.size() && tries < kMaxRemovals; ++i, ++tries) {
        DrawnPipeline less = drawn;
        take_out(less.*document, all[i]);
        if (!still_fails(less)) continue;
        drawn = std::move(less);
        all = places(drawn.*document);
        --i;
        smaller = true;
      }
    }
  }
}

}  // namespace millrace::generator
