#include "history.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace millrace::page {
namespace {

using Json = nlohmann::ordered_json;

// Beside these a line has figures, and what stages report.
const std::set<std::string> kNoFigures = {"event",        "epoch",
                                          "step",         "graph",
                                          "samples",      "best_step",
                                          "seconds",      "elapsed_seconds",
                                          "stream_hash",  "images_per_second",
                                          "learning_rate"};

std::vector<Figure> figures_of(const Json& line) {
  std::vector<Figure> figures;
  for (const auto& [name, value] : line.items()) {
    if (value.is_number() && !kNoFigures.contains(name)) figures.push_back({name, value.get<double>()});
  }
  return figures;
}

void recall_step(const Json& line, const std::string& graph, Story& story) {
  StepEvent event;
  event.graph = graph;
  event.step = line.value("step", std::uint64_t{0});
  event.reported = line.contains("images_per_second");
  event.figures = figures_of(line);
  if (line.contains("learning_rate")) event.scalars = {{"learning_rate", line.value("learning_rate", 0.0)}};
  event.images_per_second = line.value("images_per_second", 0.0);
  story.add(event);
}

void recall_pass(const Json& line, Story& story) {
  PassEvent event;
  event.graph = line.value("graph", "validate");
  event.epoch = line.value("epoch", 0.0);
  event.step = line.value("step", std::uint64_t{0});
  event.best_step = line.value("best_step", std::uint64_t{0});
  event.samples = line.value("samples", 0.0);
  event.reported = true;
  event.figures = figures_of(line);
  event.elapsed_seconds = line.value("elapsed_seconds", 0.0);
  story.add(event);
}

}  // namespace

void recall(const std::filesystem::path& folder, std::uint64_t last_step, Story& story) {
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string text; std::getline(file, text);) {
    try {
      const Json line = Json::parse(text);
      const std::string event = line.value("event", "");
      const auto step = line.value("step", std::uint64_t{0});
      if (event == "resume") story.forget_after(step);
      if (step > last_step) continue;
      if (event == "step") recall_step(line, story.graph(), story);
      if (event == "validate") recall_pass(line, story);
    } catch (const Json::exception&) {  // half a line of a killed run
    }
  }
}

}  // namespace millrace::page
