// Pictures of a run's course, of its metrics and of its weights.
#include <bars.h>
#include <fmt/format.h>
#include <matrix.h>
#include <picture.h>
#include <sheet.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "history.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"
#include "results_picture.h"

namespace millrace {

namespace {

static_assert(std::endian::native == std::endian::little);  // the byte order of the file's values

constexpr std::uint64_t kLargestHeader = 64 << 20;
constexpr int kMaxFilters = 256, kLargestFilter = 64;

struct Filters {
  std::string name;
  int count = 0, channels = 0, height = 0, width = 0;
  std::vector<float> values;  // (count, channels, height, width)
};

// The shape of a tensor in the header if it has displayable filters.
std::optional<Filters> filters_of(const std::string& name, const nlohmann::json& tensor) {
  if (!tensor.is_object() || tensor.value("dtype", "") != "F32") return {};
  const auto shape = tensor.find("shape");
  if (shape == tensor.end() || !shape->is_array() || shape->size() != 4) return {};
  std::vector<int> extents;
  for (const nlohmann::json& extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > 1'000'000) return {};
    extents.push_back(extent.get<int>());
  }
  const bool has_colours = extents[1] == 1 || extents[1] == 3;
  if (!has_colours || extents[0] < 1 || std::min(extents[2], extents[3]) < 2 || std::max(extents[2], extents[3]) > kLargestFilter)
    return {};
  return Filters{name, std::min(extents[0], kMaxFilters), extents[1], extents[2], extents[3], {}};
}

std::optional<Filters> read_filters(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), sizeof length) || length > kLargestHeader) return {};
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length))) return {};
  // In file order, which is that of the layers.
  const auto json = nlohmann::ordered_json::parse(header, nullptr, false);
  if (!json.is_object()) return {};
  for (const auto& [name, tensor] : json.items()) {
    std::optional<Filters> filters = filters_of(name, nlohmann::json(tensor));
    const auto offsets = tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
    if (!filters || offsets == tensor.end() || !offsets->is_array() || offsets->empty() || !offsets->front().is_number_unsigned())
      continue;
    const std::uint64_t begin = sizeof length + length + offsets->front().get<std::uint64_t>();
    filters->values.resize(static_cast<std::size_t>(filters->count) * static_cast<std::size_t>(filters->channels) *
                           static_cast<std::size_t>(filters->height * filters->width));
    file.seekg(static_cast<std::streamoff>(begin));
    const auto bytes = static_cast<std::streamsize>(filters->values.size() * sizeof(float));
    if (!file.read(reinterpret_cast<char*>(filters->values.data()), bytes)) return {};
    return filters;
  }
  return {};
}

// As pixels, all on one scale: `most` is white, and 0 mid-grey.
drawing::SheetCell cell_of(const Filters& filters, int filter, float most) {
  const auto places = static_cast<std::size_t>(filters.height * filters.width);
  const auto channels = static_cast<std::size_t>(filters.channels);
  const float* values = filters.values.data() + static_cast<std::size_t>(filter) * channels * places;
  std::vector<std::uint8_t> pixels(places * channels);
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float value = values[c * places + place], level = std::isfinite(value) && most > 0 ? 127.5F * (1 + value / most) : 0;
      pixels[place * channels + c] = static_cast<std::uint8_t>(std::lround(level));
    }
  }
  drawing::SheetCell cell;
  cell.images.push_back(drawing::kept({pixels.data(), {filters.height, filters.width, filters.channels}}));
  return cell;
}

// From a safetensors file: the first tensor (filters, 1 or 3 channels, height, width) of float32. Empty if there is none or the
// file is invalid.
std::optional<drawing::Picture> first_filters(const std::filesystem::path& weights) {
  const std::optional<Filters> filters = read_filters(weights);
  if (!filters) return {};
  float most = 0;
  for (const float value : filters->values) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  drawing::Sheet sheet;
  sheet.title = fmt::format("Filters of the first convolution, {}", filters->name);
  sheet.subtitle = fmt::format("{} of {} x {} x {}, all on one scale: black {:.3g}, grey 0, white {:.3g}", filters->count,
                               filters->channels, filters->height, filters->width, -most, most);
  for (int filter = 0; filter < filters->count; ++filter) sheet.cells.push_back(cell_of(*filters, filter, most));
  sheet.largest = 48;
  sheet.smallest_cell = 0;
  sheet.apart = 8;
  return drawing::draw(sheet);
}

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
    if (constexpr auto kMax = drawing::kMaxDrawnClasses; !e.class_matrix.empty() && e.class_matrix.size() <= kMax * kMax) {
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
      if (const auto filters = first_filters(e.weights_file)) write("filters.png", filters->png());
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
        control_->warn(fmt::format("{} keeps its old content until it can be drawn: {}", name, error.what()));
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
