// Pictures of a run's course, of its metrics and of its weights.
#include <bars.h>
#include <fmt/format.h>
#include <matrix.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "first_filters.h"
#include "history.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"
#include "results_picture.h"

namespace millrace {
namespace {

constexpr double kSecondsOfSteps = 5, kSecondsOfEpochs = 2;  // minimum time between drawings

// Writes into the run's folder: results.png and .svg, redrawn during the run; for the newest pass with a class matrix,
// confusion.png and .svg and classes.png; and filters.png at the end. A picture replaces its file when complete, so each is
// readable at any time. A run without a learning rate trains nothing and has no results.png.
class PicturesObserver final : public RunObserver {
 public:
  struct Params {};
  static void describe(ObserverDescription<Params>& d) {
    d.name("pictures")
        .text(
            "Draws results.png and results.svg into the run's folder: loss, metrics, learning rate and speed, of training and "
            "validation. Pixel class losses add confusion.png, confusion.svg and classes.png of the newest pass; networks that "
            "start with a convolution over an image, filters.png.");
    d.delivery(Delivery::latest).by_default();
  }

  void start(const RunStart& e, RunControl& control) override {
    folder_ = drawing::can_draw() ? e.folder : std::filesystem::path();
    control_ = &control;
    if (!folder_.empty()) attempt("results.png", [] { drawing::load_fonts(); });
    drawn_ = e.elapsed_seconds;
    history_.start(e);
    if (e.resumed && !folder_.empty()) history_.read(folder_ / "metrics.jsonl", resumed_at(e));
  }
  void step(const StepEvent& e) override {
    history_.step(e);
    draw_results(e.elapsed_seconds, kSecondsOfSteps);
  }
  void epoch(const EpochEvent& e) override {
    history_.epoch(e);
    draw_results(e.elapsed_seconds, kSecondsOfEpochs);
  }
  void pass(const PassEvent& e) override {
    history_.pass(e);
    if (constexpr auto kMost = drawing::kMostDrawnClasses; !e.class_matrix.empty() && e.class_matrix.size() <= kMost * kMost) {
      newest_ = e;
      draw_classes(kSecondsOfEpochs);
    }
    draw_results(e.elapsed_seconds, kSecondsOfEpochs);
  }
  void end(const RunEnd& e) override {
    const std::string time = duration_text(e.elapsed_seconds);
    state_ = fmt::format("{} {}", !e.error.empty() ? "failed after" : e.stopped ? "stopped after" : "done in", time);
    error_ = e.error;
    draw_results(e.elapsed_seconds, 0);
    draw_classes(0);
    if (folder_.empty() || history_.rate().empty() || e.weights_file.empty()) return;
    attempt("filters.png", [&] {
      if (const auto filters = pictures::first_filters(e.weights_file)) write("filters.png", filters->png());
    });
  }

 private:
  void draw_results(double now, double pause) {
    if (folder_.empty() || now - drawn_ < pause || history_.rate().empty() || history_.names().empty()) return;
    attempt("results.png", [&] {
      const std::string state = state_.empty() ? fmt::format("running, {}", duration_text(now)) : state_;
      const drawing::Picture picture = pictures::results_picture(history_, state, error_);
      write("results.png", picture.png());
      write("results.svg", picture.svg());
    });
    drawn_ = now;
  }

  void draw_classes(double pause) {
    if (folder_.empty() || !newest_ || newest_->elapsed_seconds - classes_drawn_ < pause) return;
    const PassEvent& pass = *newest_;
    attempt("confusion.png", [&] {
      const ClassMatrix matrix(pass.class_matrix);
      std::vector<std::string> names = pass.classes;
      for (std::size_t c = names.size(); c < matrix.classes(); ++c) names.push_back(fmt::format("{}", c));
      const std::string heading = fmt::format("{}, epoch {:.4g}", pass.graph, pass.epoch);
      const drawing::Picture confusion = drawing::confusion(matrix, names, true, heading);
      write("confusion.png", confusion.png());
      write("confusion.svg", confusion.svg());
      write("classes.png", drawing::class_scores(matrix, names, true, heading).png());
    });
    classes_drawn_ = pass.elapsed_seconds;
    newest_.reset();
  }

  void write(const char* name, const std::string& bytes) const {
    OutputFile file((folder_ / name).string(), OutputFile::Sync::later);
    file.write(bytes);
    file.commit();
  }

  // A full disk or memory must not end the run: the next picture may succeed.
  void attempt(const char* name, const std::function<void()>& draw) {
    try {
      draw();
    } catch (...) {
      const Error error = current_error();
      if (!std::exchange(has_warned_, true)) {
        control_->warn(fmt::format("{} stays as it was until it can be drawn: {}", name, error.what()));
      }
    }
  }

  std::filesystem::path folder_;  // empty: draws nothing
  RunControl* control_ = nullptr;
  pictures::History history_;
  std::string state_, error_;  // empty while the run continues
  double drawn_ = 0, classes_drawn_ = 0;
  std::optional<PassEvent> newest_;  // its class matrix is not drawn yet
  bool has_warned_ = false;
};

MILLRACE_PART { registry.add_observer<PicturesObserver>(); }

}  // namespace
}  // namespace millrace
