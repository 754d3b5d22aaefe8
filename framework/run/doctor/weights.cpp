// Initial weights: their values, classes and preparation of images; and the weights of classes in losses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "run/doctor/doctor.h"

namespace millrace {
namespace {

// A run cannot save weights that are not finite, and training seldom repairs them.
void refuse_wrong_numbers(const PreparedRun& run) {
  if (!trains(run.stepping_graph())) return;
  for (std::size_t p = 0; p < run.weights.values.size(); ++p) {
    if (std::ranges::all_of(run.weights.values[p], [](float value) { return std::isfinite(value); })) continue;
    fail(ErrorKind::data, "the weights '{}' hold numbers that are not finite, in '{}': training cannot begin with them",
         run.weights.from.file, run.pipeline.network->parameters[p].name);
  }
}

}  // namespace

// Compares the weights' validation with this file's. Training on other images may be intended, but metrics and predictions would
// be silently wrong. Each rank refuses; only the first one warns, since the file may lie in a rank's own cache.
void check_weights(const PreparedRun& run, const Doubt& doubt) {
  refuse_wrong_numbers(run);
  const WeightsSource& from = run.weights.from;
  if (run.options.is_first() && !run.weights.new_layer.empty()) {
    doubt(fmt::format("the weights '{}' are of other classes: layer '{}' begins with new values", from.file,
                      run.weights.new_layer));
  }
  if (!run.stored_recipe) return;
  const Diagnostics found = disagreements(*run.stored_recipe, *run.recipe, !from.fresh.empty(), run.registry);
  if (found.empty()) return;
  const std::string text = fmt::format(
      "{}\nthe weights '{}' record how [{}] of their run prepared images, but {} differs: change it, or accept the difference "
      "with preprocessing = \"mine\" in [network] (--set network.preprocessing=mine)",
      found.text(), from.file, run.stored_recipe->graph, run.pipeline.title());
  if (!run.main().trains()) fail(ErrorKind::usage, "{}", text);
  if (run.options.is_first()) doubt(text);
}

// Images of a graph that does not train, compared with the summary of training images in the weights. Reads up to 1,000.
void check_unlike_images(const PreparedRun& run, const Doubt& doubt) {
  constexpr std::uint64_t kMaxImages = 1000;
  const bool begins = run.pipeline.network && !run.options.only_check && !run.options.only_main;
  const auto images = begins && !run.main().trains() ? image_summary_from(run.weights.metadata) : std::nullopt;
  if (!images) return;
  run.options.doing("checking some images");
  doubt(unlike_images(*images, run.main(), kMaxImages, static_cast<unsigned>(run.data_threads())));
}

// Classes that a loss with weights by "median-frequency" ignores, since they have no pixel.
void check_class_weights(const PreparedRun& run, const Doubt& doubt) {
  const std::vector<double>& weights = run.class_weights.median;
  const std::vector<std::string>& names = run.class_weights.classes;
  const GraphPlan& counted = run.pipeline.graphs.front();
  const auto source =
      std::ranges::find(counted.stages, StageType::Role::source, [](const auto& stage) { return stage.type->role; });
  for (std::size_t k = 0; k < std::min(names.size(), weights.size()); ++k) {
    if (weights[k] > 0) continue;
    doubt(fmt::format("{}: no pixel is of class '{}', so its weight is 0 and it is not learned", place_of(*source, counted),
                      names[k]));
  }
}

}  // namespace millrace
