#include "pictures.h"

#include <fmt/format.h>
#include <plot.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "millrace/util/output_file.h"

namespace millrace {
namespace {

using drawing::Area;
using drawing::Colour;
using drawing::Picture;
using drawing::Plot;
using drawing::Point;
using drawing::Scale;

constexpr double kWidth = 960, kHeight = 420, kMargin = 24, kHeading = 16, kSmall = 10;
constexpr double kGiga = 1e9;
constexpr Colour kMeasured = drawing::kBlue, kPredicted = drawing::kOrange, kIdeal = drawing::kFaint;

const char* name_of_scaling(ScalingKind kind) { return kind == ScalingKind::strong ? "strong" : "weak"; }

std::string replicas_name(const Scaling& scaling) { return scaling.question.over_ranks ? "ranks" : "replicas"; }
std::string replicas_text(const Scaling& scaling, int count) {
  return fmt::format("{} {}{}", count, scaling.question.over_ranks ? "rank" : "replica", count == 1 ? "" : "s");
}

std::vector<ScalingPoint> of_kind(const Scaling& scaling, ScalingKind kind) {
  std::vector<ScalingPoint> points;
  std::ranges::copy_if(scaling.points, std::back_inserter(points), [&](const ScalingPoint& point) { return point.kind == kind; });
  return points;
}

// Draws the title; returns the area below it.
Area below_title(Picture& picture, const std::string& title) {
  picture.text({kMargin, kMargin}, title, {.size = kHeading, .bold = true, .most = picture.width() - 2 * kMargin});
  const double heading = drawing::line_height(kHeading) + 12;
  return {kMargin, kMargin + heading, picture.width() - 2 * kMargin, picture.height() - 2 * kMargin - heading};
}

std::array<Area, 2> halves(const Area& area) {
  const double width = (area.width - kMargin) / 2;
  return {Area{area.left, area.top, width, area.height}, Area{area.left + width + kMargin, area.top, width, area.height}};
}

void draw_throughput(Picture& picture, const Area& area, const Scaling& scaling, ScalingKind kind) {
  const std::vector<ScalingPoint> points = of_kind(scaling, kind);
  const double first = points.front().images_per_second / points.front().replicas, most = points.back().replicas;
  std::vector<double> rates = {0, first * most};
  std::vector<Point> measured, predicted;
  for (const ScalingPoint& point : points) {
    measured.push_back({static_cast<double>(point.replicas), point.images_per_second});
    predicted.push_back({static_cast<double>(point.replicas), point.predicted});
    rates.insert(rates.end(), {point.images_per_second + point.band, point.predicted});
  }
  Plot plot(picture, area, Scale(0, 1.05 * most, Scale::Kind::count), Scale::around(rates),
            {fmt::format("{} scaling, images/s", name_of_scaling(kind)), replicas_name(scaling)});
  const std::array ideal = {Point{0, 0}, Point{most, first * most}};
  plot.curve(ideal, {.colour = kIdeal, .thickness = 1.5, .dashed = true});
  plot.curve(measured, {.colour = kMeasured, .thickness = 2});
  for (const ScalingPoint& point : points) {
    const auto x = static_cast<double>(point.replicas);
    const std::array band = {Point{x, point.images_per_second - point.band}, Point{x, point.images_per_second + point.band}};
    plot.curve(band, {.colour = kMeasured, .thickness = 1});
  }
  plot.curve(predicted, {.colour = kPredicted, .dashed = true});
  plot.dots(predicted, 3, {.colour = kPredicted});
  plot.dots(measured, 4, {.colour = kMeasured});
  plot.legend({{"measured", kMeasured, true}, {"predicted", kPredicted, true}, {"ideal", kIdeal}});
}

struct Part {
  const char* name;
  Colour colour;
  double (*seconds)(const ScalingPoint& point);
};
const std::array kStepParts = {
    Part{"computes", drawing::kBlue, [](const ScalingPoint& p) { return std::max(0.0, p.compute_seconds - p.hidden_seconds()); }},
    Part{"computes while sums are made", drawing::kSky, [](const ScalingPoint& p) { return p.hidden_seconds(); }},
    Part{"waits for sums", drawing::kOrange, [](const ScalingPoint& p) { return p.exposed_seconds; }},
    Part{"waits for data or threads", drawing::kOptimizer, [](const ScalingPoint& p) { return p.other_seconds(); }}};

// Bars over positions 1, 2, 3, ...
void draw_steps(Picture& picture, const Area& area, const Scaling& scaling, ScalingKind kind) {
  const std::vector<ScalingPoint> points = of_kind(scaling, kind);
  double most = 0;
  for (const ScalingPoint& point : points) most = std::max(most, 1e3 * point.step_seconds);
  const double names = 2 * drawing::line_height(kSmall);
  Plot plot(picture, {area.left, area.top, area.width, area.height - names}, Scale(0, 1, Scale::Kind::blank),
            Scale(0, 1.15 * most), {fmt::format("{} scaling, ms of a step", name_of_scaling(kind)), ""});
  const Area& inside = plot.inside();
  const double slot = inside.width / static_cast<double>(points.size()), width = std::min(64.0, 0.6 * slot);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ScalingPoint& point = points[i];
    const double middle = inside.left + slot * (static_cast<double>(i) + 0.5);
    double from = 0;
    for (const Part& part : kStepParts) {
      const double to = from + 1e3 * part.seconds(point), top = plot.at(0, to).y;
      picture.fill({middle - width / 2, top, width, plot.at(0, from).y - top}, part.colour);
      from = to;
    }
    const double line = drawing::line_height(kSmall);
    picture.text({middle, plot.at(0, from).y - line - 2}, fmt::format("{:.0f} %", 100 * point.efficiency),
                 {.size = kSmall, .bold = true, .align = drawing::Align::centre});
    picture.text({middle, inside.bottom() + 4}, replicas_text(scaling, point.replicas),
                 {.size = kSmall, .align = drawing::Align::centre});
    picture.text({middle, inside.bottom() + 4 + line}, fmt::format("batch {}", point.batch),
                 {.size = kSmall, .colour = drawing::kFaint, .align = drawing::Align::centre});
  }
}

// The legend of the parts, in a row from the left.
void draw_parts(Picture& picture, Point at) {
  constexpr double kSwatch = 12;
  for (const Part& part : kStepParts) {
    picture.fill({at.x, at.y + 2, kSwatch, kSwatch}, part.colour);
    picture.text({at.x + kSwatch + 5, at.y}, part.name, {.size = kSmall + 1});
    at.x += kSwatch + 24 + drawing::extent_of(part.name, {.size = kSmall + 1}).width;
  }
}

struct DrawnLayer {
  const LayerRow* row;
  double intensity;
};

// Labels of the costliest layers, each next to its dot unless another one is in the way.
void label_layers(Picture& picture, const Plot& plot, const std::vector<DrawnLayer>& layers) {
  constexpr std::size_t kMax = 12;
  std::vector<Area> taken;
  for (std::size_t i = 0; i < std::min(kMax, layers.size()); ++i) {
    const Point at = plot.at(layers[i].intensity, layers[i].row->operations / kGiga);
    const std::string& text = layers[i].row->name;
    const double width = drawing::extent_of(text, {.size = kSmall}).width, height = drawing::line_height(kSmall);
    for (const Point offset :
         {Point{8, -height / 2}, Point{-8 - width, -height / 2}, Point{-width / 2, 8}, Point{-width / 2, -8 - height}}) {
      const Area area = {at.x + offset.x, at.y + offset.y, width, height};
      const bool is_inside = area.left >= plot.inside().left && area.right() <= plot.inside().right();
      if (!is_inside || std::ranges::any_of(taken, [&](const Area& other) { return area.meets(other); })) continue;
      picture.text({area.left, area.top}, text, {.size = kSmall});
      taken.push_back(area);
      break;
    }
  }
}

}  // namespace

Picture throughput_picture(const Scaling& scaling, const std::string& title) {
  Picture picture(kWidth, kHeight);
  const std::array areas = halves(below_title(picture, title));
  draw_throughput(picture, areas[0], scaling, ScalingKind::strong);
  draw_throughput(picture, areas[1], scaling, ScalingKind::weak);
  return picture;
}

Picture step_picture(const Scaling& scaling, const std::string& title) {
  Picture picture(kWidth, kHeight);
  Area area = below_title(picture, title);
  draw_parts(picture, {area.left, area.top});
  const double key = drawing::line_height(kSmall + 1) + 8;
  area = {area.left, area.top + key, area.width, area.height - key};
  const std::array areas = halves(area);
  draw_steps(picture, areas[0], scaling, ScalingKind::strong);
  draw_steps(picture, areas[1], scaling, ScalingKind::weak);
  return picture;
}

Picture accuracy_picture(const Scaling& scaling, const std::string& title) {
  constexpr std::array kColours = {drawing::kBlue,   drawing::kOrange, drawing::kGreen,
                                   drawing::kPurple, drawing::kYellow, drawing::kSky};
  Picture picture(kWidth, kHeight);
  std::vector<double> seconds = {0}, shares = {scaling.question.to_accuracy};
  std::vector<std::tuple<ScalingKind, int>> runs;
  for (const AccuracyPoint& point : scaling.accuracies) {
    seconds.push_back(point.seconds);
    shares.push_back(point.accuracy);
    if (const std::tuple run(point.kind, point.replicas); runs.empty() || runs.back() != run) runs.push_back(run);
  }
  Plot plot(picture, below_title(picture, title), Scale::around(seconds), Scale::around(shares, Scale::Kind::percent),
            {"accuracy", "seconds since training began"});
  std::vector<Plot::Key> keys;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto [kind, replicas] = runs[r];
    std::vector<Point> course;
    for (const AccuracyPoint& point : scaling.accuracies) {
      if (point.kind == kind && point.replicas == replicas) course.push_back({point.seconds, point.accuracy});
    }
    const Colour colour = kColours[r % kColours.size()];
    plot.curve(course, {.colour = colour, .thickness = 2});
    plot.dots(course, 3, {.colour = colour});
    keys.push_back({fmt::format("{}, {}", replicas_text(scaling, replicas), name_of_scaling(kind)), colour});
  }
  const std::array wanted = {Point{0, scaling.question.to_accuracy},
                             Point{*std::ranges::max_element(seconds), scaling.question.to_accuracy}};
  plot.curve(wanted, {.colour = kIdeal, .dashed = true});
  plot.legend(keys);
  return picture;
}

Picture roofline_picture(const std::vector<LayerRow>& rows, const Peaks& peaks, const std::string& title) {
  std::vector<DrawnLayer> layers;
  double left_out = 0;  // fraction of the time
  std::vector<double> intensities = {peaks.operations / peaks.bytes}, rates = {peaks.operations / kGiga};
  for (const LayerRow& row : rows) {
    if (row.operations <= 0 || row.bytes <= 0) {
      left_out += row.share;
      continue;
    }
    layers.push_back({&row, row.operations / row.bytes});
    intensities.push_back(layers.back().intensity);
    rates.push_back(row.operations / kGiga);
  }
  std::ranges::sort(layers, std::greater(), [](const DrawnLayer& layer) { return layer.row->share; });
  const double lowest = *std::ranges::min_element(intensities) / 2, highest = *std::ranges::max_element(intensities) * 2;
  const auto [floor, ceiling] = std::ranges::minmax(rates);
  Picture picture(kWidth, 1.35 * kHeight);
  Area area = below_title(picture, title);
  const double line = drawing::line_height(kSmall + 1);
  picture.text(
      {area.left, area.bottom() - line},
      fmt::format("roof: {:.3g} GFLOP/s multiplying matrices, {:.3g} GB/s of memory; a dot's area is the layer's time; layers "
                  "without multiplications, {:.0f} % of the time, are left out",
                  peaks.operations / kGiga, peaks.bytes / kGiga, 100 * left_out),
      {.size = kSmall + 1, .colour = drawing::kFaint, .most = area.width});
  area.height -= line + 8;
  Plot plot(picture, area, Scale(lowest, highest, Scale::Kind::logarithmic),
            Scale(floor / 2, 2 * ceiling, Scale::Kind::logarithmic), {"GFLOP/s, forward and backward", "FLOP for a byte"});
  const double ridge = peaks.operations / peaks.bytes;
  const std::array roof = {Point{lowest, lowest * peaks.bytes / kGiga}, Point{ridge, peaks.operations / kGiga},
                           Point{highest, peaks.operations / kGiga}};
  plot.curve(roof, {.colour = kPredicted, .thickness = 2});
  for (const DrawnLayer& layer : layers) {
    const std::array dot = {Point{layer.intensity, layer.row->operations / kGiga}};
    plot.dots(dot, std::max(2.5, 28 * std::sqrt(layer.row->share)), {.colour = kMeasured, .opacity = 0.55});
  }
  label_layers(picture, plot, layers);
  return picture;
}

void write_picture(const Picture& picture, const std::string& prefix, const std::string& name) {
  const auto write = [&](const char* ending, const std::string& bytes) {
    OutputFile file(fmt::format("{}-{}.{}", prefix, name, ending), OutputFile::Sync::later);
    file.write(bytes);
    file.commit();
  };
  write("png", picture.png());
  write("svg", picture.svg());
}

}  // namespace millrace
