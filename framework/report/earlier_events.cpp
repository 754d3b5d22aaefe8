#include "millrace/util/earlier_events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

namespace millrace {
namespace {

// Properties of metrics other than their values, by graph ("" for the main one) and name.
using FigureKinds = std::map<std::pair<std::string, std::string>, Figure>;

class RecordedLine {
 public:
  explicit RecordedLine(const std::string& line) : json_(nlohmann::ordered_json::parse(line, nullptr, false)) {
    if (!json_.is_object()) json_ = nlohmann::ordered_json::object();
  }
  bool has(const char* key) const { return json_.contains(key); }
  std::string text(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  double number(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_number() ? found->get<double>() : NAN;
  }
  std::uint64_t step(const char* key) const {
    const double number = this->number(key);
    return number >= 0 ? static_cast<std::uint64_t>(number) : 0;
  }
  std::uint64_t hash(const char* key) const {
    const std::string digits = text(key);
    std::uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
  }
  bool lists(const char* key, const std::string& name) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_array()) return false;
    return std::any_of(found->begin(), found->end(), [&](const auto& each) { return each == name; });
  }
  // All numbers except the fields common to all lines. `kinds`: properties from earlier lines of this graph.
  std::vector<Figure> figures(FigureKinds& kinds) const {
    static const std::set<std::string> kOthers = {"epoch",        "step",           "samples",   "images_per_second",
                                                  "seconds",      "resident_bytes", "best_step", "elapsed_seconds",
                                                  "learning_rate"};
    std::vector<Figure> found;
    for (const auto& [key, value] : json_.items()) {
      if (kOthers.contains(key) || !(value.is_number() || value.is_null())) continue;
      Figure& kind = kinds.try_emplace({text("graph"), key}, Figure{key}).first->second;
      kind.percent |= lists("percent", key);
      kind.higher_is_better |= lists("higher_is_better", key);
      kind.is_detail |= lists("details", key);
      kind.value = value.is_number() ? value.get<double>() : NAN;
      found.push_back(kind);
    }
    return found;
  }

 private:
  nlohmann::ordered_json json_;
};

StepEvent step_in(const RecordedLine& line, FigureKinds& kinds) {
  StepEvent event;
  event.epoch = line.step("epoch");
  event.step = line.step("step");
  event.reported = line.has("images_per_second");
  event.figures = line.figures(kinds);
  if (line.has("learning_rate")) event.scalars.emplace_back("learning_rate", line.number("learning_rate"));
  event.images_per_second = line.number("images_per_second");
  event.elapsed_seconds = line.number("elapsed_seconds");
  return event;
}

EpochEvent epoch_in(const RecordedLine& line, FigureKinds& kinds) {
  EpochEvent event;
  event.epoch = line.step("epoch");
  event.step = line.step("step");
  event.reported = line.has("stream_hash");
  event.figures = line.figures(kinds);
  event.images_per_second = line.number("images_per_second");
  event.seconds = line.number("seconds");
  event.stream_hash = line.hash("stream_hash");
  event.resident_bytes = line.step("resident_bytes");
  event.waits_for = line.text("waits_for");
  event.elapsed_seconds = line.number("elapsed_seconds");
  return event;
}

PassEvent pass_in(const RecordedLine& line, FigureKinds& kinds) {
  PassEvent event;
  event.graph = line.text("graph");
  event.epoch = line.number("epoch");
  event.step = line.step("step");
  event.samples = line.number("samples");
  event.reported = true;
  event.figures = line.figures(kinds);
  event.elapsed_seconds = line.number("elapsed_seconds");
  event.images_per_second = line.number("images_per_second");
  event.seconds = line.number("seconds");
  event.stream_hash = line.hash("stream_hash");
  event.best_step = line.step("best_step");
  event.only_class = line.text("only_class");
  return event;
}

bool is_plain_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);  // reading a pipe may block forever
}

}  // namespace

std::optional<std::uint64_t> step_today(std::uint64_t recorded, const ResumedAt& at) {
  if (recorded > at.recorded) return std::nullopt;
  if (recorded == 0 || at.recorded == at.today) return recorded;
  return (recorded * at.today + at.recorded - 1) / at.recorded;
}

RecordedSteps::RecordedSteps(const std::filesystem::path& metrics) {
  if (!is_plain_file(metrics)) return;
  std::ifstream file(metrics);
  std::size_t number = 0;
  for (std::string text; std::getline(file, text); ++number) {
    if (text.find("\"resume\"") == std::string::npos) continue;
    const RecordedLine line(text);
    if (line.text("event") != "resume") continue;
    const std::uint64_t recorded = line.step("step"), first = line.step("first_step");
    resumes_.push_back({number, {recorded, first > 0 ? first - 1 : recorded}});
  }
}

std::optional<std::uint64_t> RecordedSteps::today(std::size_t line, std::uint64_t step) const {
  std::optional<std::uint64_t> today = step;
  for (const Resume& resume : resumes_) {
    if (today && resume.line > line) today = step_today(*today, resume.at);
  }
  return today;
}

void send_earlier_events(const std::filesystem::path& metrics, const ResumedAt& at, const EventReceivers& to) {
  if (!is_plain_file(metrics)) return;
  RecordedSteps steps(metrics);
  steps.resume(at);
  std::ifstream file(metrics);
  FigureKinds kinds;
  const auto send = [](const auto& receiver, auto event, std::uint64_t step) {
    event.step = step;
    if (receiver) receiver(event);
  };
  std::size_t number = 0;
  for (std::string text; std::getline(file, text); ++number) {
    const RecordedLine line(text);
    if (!(line.number("step") >= 0)) continue;
    const std::optional<std::uint64_t> step = steps.today(number, line.step("step"));
    if (!step) continue;
    const std::string event = line.text("event");
    if (event == "step") send(to.step, step_in(line, kinds), *step);
    if (event == "epoch") send(to.epoch, epoch_in(line, kinds), *step);
    if (event != "validate") continue;
    PassEvent pass = pass_in(line, kinds);
    pass.best_step = steps.today(number, pass.best_step).value_or(pass.best_step);
    send(to.pass, std::move(pass), *step);
  }
}

}  // namespace millrace
