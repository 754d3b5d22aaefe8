#include "write_boundaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"

namespace millrace {

namespace {

constexpr std::uint8_t kNone = 255;

struct Offset {
  int dy = 0, dx = 0;
  int square() const { return dy * dy + dx * dx; }
};

// All offsets within the distance, nearest first.
std::vector<Offset> offsets_within(double distance) {
  const int reach = static_cast<int>(distance);
  std::vector<Offset> offsets;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      if (std::sqrt(static_cast<double>(Offset{dy, dx}.square())) <= distance) offsets.push_back({dy, dx});
    }
  }
  std::stable_sort(offsets.begin(), offsets.end(), [](const Offset& a, const Offset& b) { return a.square() < b.square(); });
  return offsets;
}

class Grid {
 public:
  Grid(const ClassMaps& maps, std::span<const std::uint8_t> classes) : height_(maps.height), width_(maps.width) {
    values_.reserve(classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const bool counts = maps.truth[i] < maps.classes && classes[i] < maps.classes;
      values_.push_back(counts ? classes[i] : kNone);
    }
  }

  int height() const { return height_; }
  int width() const { return width_; }
  std::uint8_t at(int y, int x) const {
    if (y < 0 || x < 0 || y >= height_ || x >= width_) return kNone;
    return values_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  }
  // Boundary pixels keep their class; all others have none.
  Grid boundaries() const {
    Grid found = *this;
    std::size_t place = 0;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x, ++place) {
        const std::uint8_t c = at(y, x);
        if (at(y - 1, x) == c && at(y + 1, x) == c && at(y, x - 1) == c && at(y, x + 1) == c) found.values_[place] = kNone;
      }
    }
    return found;
  }

 private:
  int height_, width_;
  std::vector<std::uint8_t> values_;
};

// Boundary pixels of each class, and how many are near one of the other grid.
struct Found {
  double all = 0, near = 0;
  double share() const { return near / all; }
};

std::vector<Found> nearby(const Grid& boundaries, const Grid& others, std::size_t classes, const std::vector<Offset>& offsets) {
  std::vector<Found> found(classes);
  for (int y = 0; y < boundaries.height(); ++y) {
    for (int x = 0; x < boundaries.width(); ++x) {
      const std::uint8_t c = boundaries.at(y, x);
      if (c == kNone) continue;
      found[c].all += 1;
      const bool near =
          std::any_of(offsets.begin(), offsets.end(), [&](const Offset& by) { return others.at(y + by.dy, x + by.dx) == c; });
      if (near) found[c].near += 1;
    }
  }
  return found;
}

}  // namespace

std::vector<std::optional<double>> boundary_f1(const ClassMaps& maps, double tolerance) {
  const std::vector<Offset> offsets = offsets_within(tolerance * std::hypot(maps.height, maps.width));
  const Grid truth = Grid(maps, maps.truth).boundaries(), predicted = Grid(maps, maps.predicted).boundaries();
  const std::vector<Found> precision = nearby(predicted, truth, maps.classes, offsets);
  const std::vector<Found> recall = nearby(truth, predicted, maps.classes, offsets);
  std::vector<std::optional<double>> figures(maps.classes);
  for (std::size_t c = 0; c < maps.classes; ++c) {
    if (precision[c].all == 0 && recall[c].all == 0) continue;
    const bool both = precision[c].near > 0 && recall[c].near > 0;
    figures[c] = both ? 2 * precision[c].share() * recall[c].share() / (precision[c].share() + recall[c].share()) : 0.0;
  }
  return figures;
}

void WriteBoundaries::describe(StageDescription<Params>& d) {
  d.name("write_boundaries").text("Compares boundaries of predicted classes with label images: boundary F1.");
  d.input(payload::kPredictions).serial();
  d.params.add("folder", &Params::folder).text("folder for two CSV files, in the run's folder or an absolute path");
  d.params.add("tolerance", &Params::tolerance)
      .range(0, 0.1)
      .text("tolerated boundary distance, as a share of the image's diagonal");
}

void WriteBoundaries::request(const Params&, const StageSite&, CompileRequest& request) { request.needs_image = true; }

WriteBoundaries::WriteBoundaries(const Params& params, const DataContext& context) : params_(params), context_(context) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage compares its classes");
  const Shape& output = context.network->output();
  if (output.rank() != 3 || output[0] < 2 || output[0] > 255) {
    fail(ErrorKind::usage, "the network's output is {}: a map of classes has 2 to 255 channels, height and width",
         to_string(output));
  }
  if (context.target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage, "boundaries are compared with label images, and the source of [{}] has none", context.graph);
  }
  map_ = context.target.shape(context.window);
  if (map_.height != output[1] || map_.width != output[2]) {
    fail(ErrorKind::usage, "the network's output is {}, but the label images are {} x {}: they must match", to_string(output),
         map_.height, map_.width);
  }
  classes_.resize(static_cast<std::size_t>(output[0]));
}

void WriteBoundaries::open() { folder_ = output_folder(context_, "folder", params_.folder, "figures.csv"); }

void WriteBoundaries::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) compare(share, i);
  }
  if (share.last) finish();
}

void WriteBoundaries::compare(const Predictions& share, std::size_t sample) {
  const std::size_t pixels = map_.bytes();
  truth_.resize(pixels);
  share.copy_target(sample, truth_.data());
  judge_.find(share.result().row(sample), pixels, predicted_);
  const auto figures = boundary_f1({map_.height, map_.width, classes_.size(), truth_, predicted_}, params_.tolerance);
  Mean of_image;
  for (std::size_t c = 0; c < figures.size(); ++c) {
    if (!figures[c]) continue;
    classes_[c].add(*figures[c]);
    of_image.add(*figures[c]);
  }
  if (of_image.count > 0) images_.add(of_image.sum / of_image.count);
}

void WriteBoundaries::finish() {
  std::string text = "class,images,boundary_f1\r\n";
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    append_csv(text, c < context_.classes.size() ? context_.classes[c] : std::to_string(c));
    const Mean& mean = classes_[c];
    fmt::format_to(std::back_inserter(text), ",{},{}\r\n", mean.count, quotient(mean.sum, mean.count));
  }
  if (images_.count > 0) context_.run->figure(context_.graph, {"mean_boundary_f1", images_.sum / images_.count, true, true});
  OutputFiles files(context_);
  files.add(folder_ + "/classes.csv", text);
  files.add(folder_ + "/figures.csv", fmt::format("figure,value\r\nimages,{}\r\nmean_boundary_f1,{}\r\n", images_.count,
                                                  quotient(images_.sum, images_.count)));
  files.commit();
  std::fill(classes_.begin(), classes_.end(), Mean{});
  images_ = {};
}

}  // namespace millrace

MILLRACE_PLUGIN("write_boundaries", "1.0", "Boundaries of predicted classes compared with label images, as CSV.") {
  registry.add_stage<millrace::WriteBoundaries>();
}
