#include "sheet.h"

#include <algorithm>
#include <cmath>

#include "millrace/util/resample.h"

namespace millrace::drawing {
namespace {

constexpr double kMargin = 20, kBlock = 16, kBeside = 4, kCaption = 10.5, kHeading = 15, kSmall = 11, kSwatch = 12;
constexpr double kSmallest = 96;    // minimum longer side of an enlarged small image, in units
constexpr double kWidest = 1240;    // width of a sheet, unless one cell needs more
constexpr double kShape = 4.0 / 3;  // width over height of a sheet

// Whole half units, which are pixels at the usual scale: so all pixels of an image look equal.
Area drawn_area(const ImageShape& shape, double largest) {
  const double side = std::max(shape.height, shape.width);
  double scale = std::min(largest / side, 1.0);
  if (side < kSmallest) scale = std::max(1.0, std::floor(std::min(largest, kSmallest * 1.34) / side * 2) / 2);
  return {0, 0, scale * shape.width, scale * shape.height};
}

struct Grid {
  double width = 0, height = 0;  // size of a cell
  double images = 0;             // height of its images
  int columns = 1, rows = 0;
};

Grid grid_of(const Sheet& sheet) {
  Grid grid{.width = sheet.smallest_cell};
  std::size_t lines = 0;
  for (const SheetCell& cell : sheet.cells) {
    double width = -kBeside;
    for (const KeptImage& image : cell.images) {
      const Area area = drawn_area(image.shape, sheet.largest);
      width += area.width + kBeside;
      grid.images = std::max(grid.images, area.height);
    }
    grid.width = std::max(grid.width, width);
    if (cell.is_bad) grid.images = std::max(grid.images, kSmallest);
    lines = std::max(lines, cell.captions.size());
  }
  // Whole units, so that image pixels are whole pixels of the picture.
  grid.height = std::ceil(grid.images + (lines > 0 ? kBeside : 0) + static_cast<double>(lines) * line_height(kCaption));
  grid.width = std::ceil(grid.width);
  const double count = static_cast<double>(sheet.cells.size());
  const double columns = std::ceil(std::sqrt(count * kShape * (grid.height + sheet.apart) / (grid.width + sheet.apart)));
  const double most = std::max(1.0, std::floor((kWidest + sheet.apart) / (grid.width + sheet.apart)));
  grid.columns = static_cast<int>(std::max(1.0, std::min({columns, count, most})));
  grid.rows = (static_cast<int>(sheet.cells.size()) + grid.columns - 1) / grid.columns;
  return grid;
}

void draw_cell(Picture& picture, Point at, const Grid& grid, const SheetCell& cell, double largest) {
  if (cell.is_bad) picture.fill({at.x, at.y, grid.width, grid.images}, kRed, 0.15);
  double left = at.x;
  for (const KeptImage& image : cell.images) {
    Area area = drawn_area(image.shape, largest);
    area.left = left;
    area.top = at.y;
    picture.image(area, {image.pixels.data(), image.shape});
    left += area.width + kBeside;
  }
  double top = at.y + grid.images + kBeside;
  for (const Caption& line : cell.captions) {
    picture.text({at.x, top}, line.text, {.size = kCaption, .colour = line.colour, .most = grid.width});
    top += line_height(kCaption);
  }
}

struct LegendItem {
  Point at;
  double width = 0;
};

// Places the names, in as many lines as needed.
std::vector<LegendItem> placed_legend(const std::vector<Caption>& legend, double width) {
  std::vector<LegendItem> items;
  Point at = {0, 0};
  for (const Caption& name : legend) {
    const double wide = kSwatch + kBeside + extent_of(name.text, {.size = kSmall, .most = width - 2 * kSwatch}).width;
    if (at.x > 0 && at.x + wide > width) at = {0, at.y + line_height(kSmall) + kBeside};
    items.push_back({at, wide});
    at.x += wide + kBlock;
  }
  return items;
}

}  // namespace

KeptImage kept(const ImageView& image) {
  KeptImage made{image.shape, {}};
  const int side = std::max(image.shape.height, image.shape.width);
  if (side <= kLargestKept) {
    made.pixels.assign(image.data, image.data + image.shape.bytes());
    return made;
  }
  const auto fitting = [side](int extent) { return std::max(1, extent * kLargestKept / side); };
  made.shape = {fitting(image.shape.height), fitting(image.shape.width), image.shape.channels};
  made.pixels.resize(made.shape.bytes());
  thread_local Resampler resampler;
  resampler.resize(image, made.shape, made.pixels.data());
  return made;
}

Picture draw(const Sheet& sheet) {
  const Grid grid = grid_of(sheet);
  const TextStyle title = {.size = kHeading, .bold = true}, subtitle = {.size = kSmall, .colour = kFaint};
  const double cells = grid.columns * (grid.width + sheet.apart) - sheet.apart;
  const double inner = std::max({cells, std::min(extent_of(sheet.title, title).width, kWidest),
                                 std::min(extent_of(sheet.subtitle, subtitle).width, kWidest)});
  double heading = sheet.title.empty() ? 0 : line_height(kHeading) + kBeside;
  if (!sheet.subtitle.empty()) heading += line_height(kSmall) + kBeside;
  if (heading > 0) heading = std::ceil(heading + kBlock / 2);
  const std::vector<LegendItem> legend = placed_legend(sheet.legend, inner);
  const double below = legend.empty() ? 0 : legend.back().at.y + line_height(kSmall) + kBlock;
  const double rows = std::max(0.0, grid.rows * (grid.height + sheet.apart) - sheet.apart);

  Picture picture(inner + 2 * kMargin, heading + rows + below + 2 * kMargin);
  TextStyle fitting = title;
  fitting.most = inner;
  picture.text({kMargin, kMargin}, sheet.title, fitting);
  fitting = subtitle;
  fitting.most = inner;
  picture.text({kMargin, kMargin + (sheet.title.empty() ? 0 : line_height(kHeading) + kBeside)}, sheet.subtitle, fitting);
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    const int row = static_cast<int>(i) / grid.columns, column = static_cast<int>(i) % grid.columns;
    draw_cell(picture, {kMargin + column * (grid.width + sheet.apart), kMargin + heading + row * (grid.height + sheet.apart)},
              grid, sheet.cells[i], sheet.largest);
  }
  const Point corner = {kMargin, kMargin + heading + rows + kBlock};
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const Point at = {corner.x + legend[i].at.x, corner.y + legend[i].at.y};
    picture.fill({at.x, at.y + (line_height(kSmall) - kSwatch) / 2, kSwatch, kSwatch}, sheet.legend[i].colour);
    picture.text({at.x + kSwatch + kBeside, at.y}, sheet.legend[i].text, {.size = kSmall, .most = inner - 2 * kSwatch});
  }
  return picture;
}

std::size_t sheet_memory_bound(std::size_t cells, std::size_t images, ImageShape shape) {
  if (shape.height <= 0 || shape.width <= 0) shape = {kLargestKept, kLargestKept, 3};
  constexpr std::size_t kKept = 3 + 4, kDrawn = 4 + 3 + 3;  // bytes per pixel: RGB, cairo's format, and the file
  constexpr double kScale = 2, kCaptions = 80;
  const Sheet usual;
  const Area area = drawn_area(shape, usual.largest);
  const auto side = [](int extent) { return static_cast<std::size_t>(std::min(extent, kLargestKept)); };
  const double width = std::max(usual.smallest_cell, static_cast<double>(images) * (area.width + kBeside)) + usual.apart;
  const double pixels = kScale * width * kScale * (area.height + kCaptions);
  return cells * (images * side(shape.height) * side(shape.width) * kKept + static_cast<std::size_t>(pixels) * kDrawn);
}

}  // namespace millrace::drawing
