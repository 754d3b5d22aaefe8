// pipeline-data show: a contact sheet of the network's inputs.
#include <fmt/format.h>
#include <sheet.h>

#include <algorithm>
#include <set>
#include <vector>

#include "batch_line.h"
#include "class_overlay.h"
#include "data_set.h"
#include "millrace/error.h"
#include "millrace/util/class_colours.h"
#include "millrace/util/output_file.h"
#include "millrace/util/resample.h"
#include "millrace/util/standard_error.h"
#include "verbs.h"

namespace millrace {
namespace {

struct ShowOptions {
  DataSetOptions data;
  std::string out;
  std::uint64_t count = 0, epoch = 0;  // the epoch from 0
};

// A sample's target as text.
std::string caption(const DataSet& data, const Sample& sample) {
  if (sample.label >= 0) return data.class_name(sample.label);
  return fmt::format("{}", fmt::join(sample.numbers, " "));
}

// The drawing of one sample.
struct Cell {
  drawing::SheetCell drawn;
  std::vector<std::uint8_t> classes;  // classes among its pixels
  std::string fault;                  // a bad sample's
};

// Repeats pixels, so that the image has its target's size.
void enlarge(Sample& sample) {
  const ImageShape& target = sample.target().shape;
  const Image to = sample.new_image({target.height, target.width, sample.image().shape.channels});
  const ImageShape& from = sample.image().shape;
  const Box all = {0, 0, static_cast<float>(from.width), static_cast<float>(from.height)};
  Resampler().resize(rows_of(sample.image()), all, ResampleFilter::nearest, to.shape, to.data);
  sample.set_image(to);
}

// The file's colours of its classes, or else distinct ones.
ClassColour colours_for(const DataSet& data) {
  const std::vector<std::string>& written = data.build().data().colours;
  if (written.empty()) return class_colour;
  return [colours = class_colours(written, written.size())](std::size_t index) {
    return drawing::Colour{colours[3 * index], colours[3 * index + 1], colours[3 * index + 2]};
  };
}

// Draws a sample as it arrives at the network. Its pixels change.
Cell cell_of(const DataSet& data, Sample& sample) {
  Cell cell;
  if (sample.fault) {
    cell.fault = fmt::format("{}: {} ({})", sample.place(), sample.fault->cause, sample.fault->stage);
    cell.drawn.captions = {{"bad sample", drawing::kRed}};
    cell.drawn.is_bad = true;
    return cell;
  }
  if (const std::string text = caption(data, sample); !text.empty()) cell.drawn.captions = {{text}};
  const ImageShape window = data.window().is_static() ? data.window() : sample.image().shape;
  place_window(sample, window);
  apply_pending(sample, window);
  const Image& target = sample.target();
  const TargetSpec& spec = sample.target_spec();
  const bool has_classes = target.data != nullptr && spec.kind == TargetSpec::Kind::classes;
  if (has_classes) {
    std::set<std::uint8_t> found(target.data, target.data + target.shape.bytes());
    found.erase(spec.ignored);
    cell.classes.assign(found.begin(), found.end());
    if (spec.scale > 1) enlarge(sample);
    lay_over(sample.change_pixels(), target, spec.ignored, colours_for(data));
  }
  cell.drawn.images.push_back(drawing::kept(sample.image()));
  if (target.data != nullptr && !has_classes) cell.drawn.images.push_back(drawing::kept(target));
  return cell;
}

std::vector<Cell> single_cells(const DataSet& data, const ShowOptions& options) {
  const unsigned threads = options.data.thread_count();
  std::vector<Cell> cells(std::min(options.count, data.line().order().size()));
  std::vector<Sample> samples(threads);
  for_each_sample(cells.size(), threads, [&](std::uint64_t i, unsigned thread) {
    data.load(data.line().key(options.epoch, i), DataLine::Depth::decoded, samples[thread]);
    cells[i] = cell_of(data, samples[thread]);
  });
  return cells;
}

// One slot of a batch with changed images; mixed ones have both labels, with their shares.
Cell cell_of(const DataSet& data, Batch& batch, std::uint32_t slot) {
  Sample& sample = batch.samples[slot];
  if (sample.fault) return cell_of(data, sample);
  sample.set_image({batch.change_pixels() + slot * batch.image.bytes(), batch.image});
  sample.record = batch.records[slot];
  sample.windowed = true;
  sample.label = batch.labels[slot];
  Cell cell = cell_of(data, sample);
  if (batch.second_labels[slot] < 0) return cell;
  cell.drawn.captions = {{fmt::format("{:.2f} {}", batch.shares[slot], data.class_name(batch.labels[slot]))},
                         {fmt::format("{:.2f} {}", 1 - batch.shares[slot], data.class_name(batch.second_labels[slot]))}};
  return cell;
}

std::vector<Cell> batch_cells(const DataSet& data, const BatchLine& batches, const ShowOptions& options) {
  std::vector<Cell> cells;
  for (std::uint64_t number = 0; number < batches.steps() && cells.size() < options.count; ++number) {
    const Ref<Batch> batch = batches.load(options.epoch, number, options.data.thread_count());
    for (std::uint32_t slot = 0; slot < batch->count && cells.size() < options.count; ++slot) {
      cells.push_back(cell_of(data, *batch, slot));
    }
  }
  return cells;
}

std::vector<Cell> cells_of(const DataSet& data, const ShowOptions& options) {
  if (!data.build().data().image.is_static()) {
    print_to_stderr("images may have any size here and do not form a batch: each is shown alone, at its own size\n");
    return single_cells(data, options);
  }
  const BatchLine batches(data);
  return batches.changes_batches() ? batch_cells(data, batches, options) : single_cells(data, options);
}

drawing::Sheet sheet_of(const std::vector<Cell>& cells, const DataSet& data) {
  const std::vector<std::string>& names = data.line().order().classes();
  const ClassColour colour_of = colours_for(data);
  drawing::Sheet sheet;
  std::set<std::uint8_t> classes;
  for (const Cell& cell : cells) {
    sheet.cells.push_back(cell.drawn);
    classes.insert(cell.classes.begin(), cell.classes.end());
  }
  for (const std::size_t index : classes) {
    sheet.legend.push_back({index < names.size() ? names[index] : fmt::format("class {}", index), colour_of(index)});
  }
  return sheet;
}

int show(const ShowOptions& options) {
  const DataSet data(options.data, DataSet::Stages::images);
  const std::vector<Cell> cells = cells_of(data, options);
  for (const Cell& cell : cells) {
    if (!cell.fault.empty()) print_to_stderr("bad sample: {}\n", cell.fault);
  }
  const drawing::Picture picture = drawing::draw(sheet_of(cells, data));
  OutputFile file(options.out);
  file.write(picture.png());
  file.commit();
  fmt::print("{}: {} samples of epoch {} of [{}], {:.0f} x {:.0f}\n", options.out, cells.size(), options.epoch + 1,
             data.graph().name, 2 * picture.width(), 2 * picture.height());
  return 0;
}

}  // namespace

int show_verb(int count, const char* const* arguments) {
  ShowOptions options;
  std::string samples_text = "36", epoch_text = "1";
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data show", "PIPELINE.toml --out FILE.png [options]",
      "Draws the first samples of an epoch as network input: decoded, augmented, through its window, with label\n"
      "names; class images overlaid in colour, other targets next to them. Images mixed in batches (mix_images) have\n"
      "both labels, with their shares. Images of any size are drawn at their own size, unmixed. Bad samples are red,\n"
      "where a run may replace them.");
  options.data.declare(reader);
  options.data.declare_threads(reader);
  reader.option("--out", "FILE.png", "the picture", options.out)
      .option("--count", "N", "number of samples (36)", samples_text)
      .option("--epoch", "E", "epoch, from 1 (1)", epoch_text);
  if (!reader.read(count, arguments, rest)) return 0;
  options.data.file = only_file(rest, "pipeline-data show");
  if (options.out.empty()) fail(ErrorKind::usage, "--out FILE.png, the picture's file, is missing");
  if (!options.out.ends_with(".png")) {
    fail(ErrorKind::usage, "--out: expected the name of a file that ends in .png, found '{}'", options.out);
  }
  options.count = static_cast<std::uint64_t>(integer("--count", samples_text, 1, 10'000));
  options.epoch = static_cast<std::uint64_t>(integer("--epoch", epoch_text, 1, std::int64_t{1} << 40) - 1);
  return show(options);
}

}  // namespace millrace
