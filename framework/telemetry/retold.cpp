#include "millrace/util/retold.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

class ToldLine {
 public:
  explicit ToldLine(const std::string& line) : json_(nlohmann::ordered_json::parse(line, nullptr, false)) {
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
  // All numbers that are no field of every line.
  std::vector<Figure> figures() const {
    static const std::set<std::string> kOthers = {"epoch",        "step",           "samples",   "images_per_second",
                                                  "seconds",      "resident_bytes", "best_step", "elapsed_seconds",
                                                  "learning_rate"};
    std::vector<Figure> found;
    for (const auto& [key, value] : json_.items()) {
      if (kOthers.contains(key) || !(value.is_number() || value.is_null())) continue;
      found.push_back({key, value.is_number() ? value.get<double>() : NAN, false, false});
    }
    return found;
  }

 private:
  nlohmann::ordered_json json_;
};

StepEvent step_in(const ToldLine& line) {
  StepEvent event;
  event.step = line.step("step");
  event.reported = line.has("images_per_second");
  event.figures = line.figures();
  if (line.has("learning_rate")) event.scalars.emplace_back("learning_rate", line.number("learning_rate"));
  event.images_per_second = line.number("images_per_second");
  event.elapsed_seconds = line.number("elapsed_seconds");
  return event;
}

EpochEvent epoch_in(const ToldLine& line) {
  EpochEvent event;
  event.step = line.step("step");
  event.figures = line.figures();
  event.elapsed_seconds = line.number("elapsed_seconds");
  return event;
}

PassEvent pass_in(const ToldLine& line) {
  PassEvent event;
  event.graph = line.text("graph");
  event.epoch = line.number("epoch");
  event.step = line.step("step");
  event.samples = line.number("samples");
  event.reported = true;
  event.figures = line.figures();
  event.elapsed_seconds = line.number("elapsed_seconds");
  event.best_step = line.step("best_step");
  return event;
}

}  // namespace

void retell(const std::filesystem::path& metrics, std::uint64_t first_step, const RetoldTo& to) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(metrics, ignored)) return;  // to read a pipe may take for ever
  std::ifstream file(metrics);
  for (std::string text; std::getline(file, text);) {
    const ToldLine line(text);
    const double step = line.number("step");
    if (!(step >= 0) || step >= static_cast<double>(first_step)) continue;
    const std::string event = line.text("event");
    if (event == "resume" && to.resume) to.resume(line.step("step"));
    if (event == "step" && to.step) to.step(step_in(line));
    if (event == "epoch" && to.epoch) to.epoch(epoch_in(line));
    if (event == "validate" && to.pass) to.pass(pass_in(line));
  }
}

}  // namespace millrace
