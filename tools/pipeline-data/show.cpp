// pipeline-data show: a contact sheet of what the network will see.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "data_set.h"
#include "millrace/error.h"
#include "millrace/resample.h"
#include "picture.h"
#include "verbs.h"

namespace millrace {
namespace {

constexpr int kGap = 8, kLargestSide = 256, kSmallestSide = 96;
constexpr Colour kGround = {250, 250, 248}, kInk = {40, 40, 44}, kFault = {176, 32, 32};

// One sample as the network sees it, at the size it is drawn.
struct Cell {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
  ImageShape target_shape;  // of a target that is an image: it stands beside
  std::vector<std::uint8_t> target;
  std::vector<std::uint8_t> classes;  // that occur, by index
  std::string name, fault;
};

// The size an image is drawn at: small ones as multiples of themselves, large ones made to fit.
ImageShape drawn_shape(ImageShape shape) {
  const int side = std::max(shape.height, shape.width);
  if (side > kLargestSide) {
    const double scale = static_cast<double>(kLargestSide) / side;
    const auto scaled = [scale](int extent) { return std::max(1, static_cast<int>(std::lround(scale * extent))); };
    return {scaled(shape.height), scaled(shape.width), shape.channels};
  }
  const int times = std::max(1, (kSmallestSide + side - 1) / side);
  return {shape.height * times, shape.width * times, shape.channels};
}

std::vector<std::uint8_t> drawn(const Image& image, ImageShape to) {
  std::vector<std::uint8_t> out(to.bytes());
  if (to.height < image.shape.height) {
    thread_local Resampler resampler;
    resampler.resize(image, to, out.data());
    return out;
  }
  const auto channels = static_cast<std::size_t>(to.channels);
  const int times = to.height / image.shape.height;  // single pixels stay visible
  std::uint8_t* pixel = out.data();
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x, pixel += channels) {
      std::copy_n(image.data + static_cast<std::size_t>(y / times * image.shape.width + x / times) * channels, channels, pixel);
    }
  }
  return out;
}

Cell look_at(const DataSet& data, const SampleKey& key, Sample& sample) {
  data.line().load(key, DataLine::Depth::decoded, sample);
  Cell cell;
  if (sample.fault) {
    cell.fault = fmt::format("{}: {} ({})", sample.place(), sample.fault->cause, sample.fault->stage);
    return cell;
  }
  cell.name = sample.label >= 0 ? data.class_name(sample.label) : fmt::format("{}", fmt::join(sample.numbers, " "));
  const ImageShape window = data.pipeline().network ? data.pipeline().network->input : sample.image().shape;
  sample.place_window(window);
  sample.apply_pending(window);
  const Image& target = sample.target();
  const TargetSpec& spec = sample.target_spec();
  if (target.data != nullptr && spec.kind == TargetSpec::Kind::classes) {
    std::set<std::uint8_t> found(target.data, target.data + target.shape.bytes());
    found.erase(spec.ignored);
    cell.classes.assign(found.begin(), found.end());
    lay_over(sample.image(), target, spec.ignored);
  } else if (target.data != nullptr) {
    cell.target_shape = drawn_shape(target.shape);
    cell.target = drawn(target, cell.target_shape);
  }
  cell.shape = drawn_shape(sample.image().shape);
  cell.pixels = drawn(sample.image(), cell.shape);
  return cell;
}

void draw_legend(Picture& picture, int top, const std::vector<std::string>& names, const std::vector<std::uint8_t>& classes) {
  int left = kGap;
  for (const std::uint8_t index : classes) {
    const std::string name = index < names.size() ? names[index] : fmt::format("class {}", index);
    const int width = 18 + text_width(name);
    if (left + width > picture.width() - kGap && left > kGap) {
      left = kGap;
      top += 14;
    }
    picture.rectangle(top, left, 9, 12, class_colour(index));
    picture.text(top + 1, left + 16, name, kInk);
    left += width + 12;
  }
}

int legend_height(int width, const std::vector<std::string>& names, const std::vector<std::uint8_t>& classes) {
  int lines = classes.empty() ? 0 : 1, left = kGap;
  for (const std::uint8_t index : classes) {
    const int wide = 18 + text_width(index < names.size() ? names[index] : fmt::format("class {}", index));
    if (left + wide > width - kGap && left > kGap) {
      left = kGap;
      ++lines;
    }
    left += wide + 12;
  }
  return lines == 0 ? 0 : 14 * lines + kGap;
}

Picture contact_sheet(std::vector<Cell>& cells, const std::vector<std::string>& names) {
  int height = kSmallestSide, width = kSmallestSide;
  std::set<std::uint8_t> found;
  for (const Cell& cell : cells) {
    height = std::max(height, cell.shape.height);
    width = std::max(width, cell.shape.width + (cell.target.empty() ? 0 : cell.target_shape.width + 2));
    found.insert(cell.classes.begin(), cell.classes.end());
  }
  const std::vector<std::uint8_t> classes(found.begin(), found.end());
  const int count = static_cast<int>(cells.size());
  const int columns =
      std::min(count, std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count) * height / width)))));
  const int rows = (count + columns - 1) / columns;
  const int cell_height = height + kLineHeight + 2 + kGap, sheet_width = columns * (width + kGap) + kGap;
  const int grid_height = rows * cell_height + kGap;
  Picture picture(grid_height + legend_height(sheet_width, names, classes), sheet_width, kGround);
  for (int i = 0; i < count; ++i) {
    Cell& cell = cells[static_cast<std::size_t>(i)];
    const int top = kGap + i / columns * cell_height, left = kGap + i % columns * (width + kGap);
    if (!cell.fault.empty()) picture.rectangle(top, left, height, width, kFault);
    picture.image(top, left, {cell.pixels.data(), cell.shape});
    if (!cell.target.empty()) picture.image(top, left + cell.shape.width + 2, {cell.target.data(), cell.target_shape});
    const std::string& name = cell.fault.empty() ? cell.name : "bad sample";
    picture.text(top + height + 3, left, shortened(name, width), cell.fault.empty() ? kInk : kFault);
  }
  draw_legend(picture, grid_height, names, classes);
  return picture;
}

}  // namespace

int show_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::string samples_text = "36", epoch_text = "1", out;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data show", "PIPELINE.toml --out FILE.png [options]",
      "Draws the first samples of an epoch as the network will see them: decoded, augmented, through its window, with\n"
      "the names of their labels; class images lie over them in colour, other targets stand beside them. Images that\n"
      "are mixed later, as batches, are shown unmixed.");
  options.declare(reader);
  reader.option("--out", "FILE.png", "the picture", out)
      .option("--count", "N", "samples (36)", samples_text)
      .option("--epoch", "E", "from 1 (1)", epoch_text);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data show");
  if (out.empty()) fail(ErrorKind::usage, "--out: expected the name of a file, such as grid.png");
  const std::int64_t wanted = integer("--count", samples_text, 1, 10'000);
  const auto epoch = static_cast<std::uint64_t>(integer("--epoch", epoch_text, 1, std::int64_t{1} << 40) - 1);

  const DataSet data(options);
  const std::uint64_t shown = std::min(static_cast<std::uint64_t>(wanted), data.line().order().size());
  const unsigned threads = options.thread_count();
  std::vector<Cell> cells(shown);
  std::vector<Sample> samples(threads);
  for_each_sample(shown, threads, [&](std::uint64_t i, unsigned thread) {
    cells[i] = look_at(data, data.line().key(epoch, i), samples[thread]);
  });
  for (const Cell& cell : cells) {
    if (!cell.fault.empty()) fmt::print(stderr, "bad sample: {}\n", cell.fault);
  }
  const Picture picture = contact_sheet(cells, data.line().order().classes());
  picture.write_png(out);
  fmt::print("{}: {} samples of epoch {} of [{}], {} x {}\n", out, shown, epoch + 1, data.build().plan().name, picture.width(),
             picture.height());
  return 0;
}

}  // namespace millrace
