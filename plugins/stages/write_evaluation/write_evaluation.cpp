#include "write_evaluation.h"

#include <bars.h>
#include <fmt/format.h>
#include <matrix.h>

#include <iterator>
#include <utility>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/plugin.h"
#include "millrace/util/finite_count.h"

namespace millrace {

namespace {

std::string calibration_csv(const Calibration& calibration) {
  std::string text = "above,up_to,count,confidence,accuracy\r\n";
  constexpr auto kBins = static_cast<double>(Calibration::kBins);
  double place = 0;
  for (const Calibration::Bin& bin : calibration.bins()) {
    fmt::format_to(std::back_inserter(text), "{:.6g},{:.6g},{},", place / kBins, (place + 1) / kBins, bin.count);
    const auto count = static_cast<double>(bin.count);
    if (bin.count > 0) {
      fmt::format_to(std::back_inserter(text), "{:.9g},{}\r\n", bin.confidence() / count, static_cast<double>(bin.right) / count);
    } else {
      text += ",\r\n";  // undefined
    }
    place += 1;
  }
  return text;
}

bool gives_map(const Network& network) { return network.output().elements() != network.output()[0]; }

// Colours for pictures of a map; vectors need none.
ClassColours colours_for(const DataContext& context) {
  if (context.network == nullptr || !gives_map(*context.network)) return {};
  return class_colours(context.colours, static_cast<std::size_t>(context.network->output()[0]));
}

}  // namespace

void ShownSamples::add(const Verdict& verdict, const Predictions& share, std::size_t sample,
                       const std::vector<std::string>& names) {
  drawing::KeptSample kept{.position = share.samples[sample].key.position, .cell = {}};
  kept.cell.images.push_back(drawing::kept_image(share, sample));
  const bool is_right = verdict.predicted == verdict.label;
  kept.cell.captions = {{names[verdict.predicted], is_right ? drawing::kInk : drawing::kRed},
                        {is_right ? fmt::format("{:.1f} %", 100 * verdict.confidence)
                                  : fmt::format("{:.1f} %, is {}", 100 * verdict.confidence, names[verdict.label]),
                         drawing::kFaint}};
  shown_.add(std::move(kept));
}

void ShownSamples::add(const PixelVerdict& verdict, const WorstImages::Maps& maps, const Predictions& share, std::size_t sample) {
  const ImageShape window = share.batch->window;
  std::vector<std::uint8_t> seen(window.bytes());
  share.copy_image(sample, seen.data());
  drawing::KeptSample kept{.position = share.samples[sample].key.position, .cell = {}, .row = {}, .classes = classes_in(maps)};
  std::erase(kept.classes, kUnknownClass);  // no overlay there
  kept.cell.images = {drawing::kept({seen.data(), window}), overlay(seen, window, maps.labels, maps.shape),
                      overlay(seen, window, maps.predicted, maps.shape)};
  kept.cell.captions = {{fmt::format("{:.1f} % right", 100 * quotient(verdict.right, verdict.pixels))}};
  shown_.add(std::move(kept));
}

// Half transparent. A map whose size differs from the image's is drawn alone.
drawing::KeptImage ShownSamples::overlay(std::vector<std::uint8_t> image, ImageShape shape, std::span<const std::uint8_t> classes,
                                         ImageShape map) const {
  const bool lies_over = shape.height == map.height && shape.width == map.width;
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<std::uint8_t> mixed;
  mixed.reserve(3 * classes.size());
  for (std::size_t place = 0; place < classes.size(); ++place) {
    const bool is_known = classes[place] != kUnknownClass;
    for (std::size_t c = 0; c < 3; ++c) {
      const int colour = colours_[3 * std::size_t{classes[place]} + c];
      const int pixel = lies_over ? image[place * channels + (channels == 3 ? c : 0)] : colour;
      mixed.push_back(static_cast<std::uint8_t>(is_known ? (pixel + colour) / 2 : pixel));
    }
  }
  map.channels = 3;
  return drawing::kept({mixed.data(), map});
}

drawing::Picture ShownSamples::sheet(const std::string& heading, const std::vector<std::string>& names) const {
  drawing::Sheet sheet = shown_.sheet();
  sheet.title = fmt::format("{} {}", sheet.cells.size(), heading);
  sheet.legend = legend_of(shown_, names, colours_);  // empty for images with one class
  const bool is_map = !sheet.cells.empty() && sheet.cells.front().images.size() > 1;
  sheet.subtitle = is_map ? "image, label, prediction" : "predicted classes; mistakes are red";
  return drawing::draw(sheet);
}

void WriteEvaluation::describe(StageDescription<Params>& d) {
  d.name("write_evaluation")
      .text(
          "Compares predicted classes of images or pixels with labels: class matrix, metrics of each class, calibration, worst "
          "images.");
  d.input(payload::kPredictions).serial().in_recipes(RecipeRole::sink).writes({"classes", "map"});
  d.params.add("folder", &Params::folder).text("folder for CSV files and pictures, in the run's folder or an absolute path");
  d.params.add("mistakes", &Params::mistakes)
      .range(0, 100)
      .unit("images")
      .text(
          "worst mistakes on a sheet, highest loss first; for maps, this many images next to labels and predictions; 0: no sheet")
      .in_recipes();
  d.params.add("predictions", &Params::predictions)
      .range(0, 100)
      .unit("images")
      .text("evenly spaced images of the pass, drawn with predictions; 0: no sheet")
      .in_recipes();
}

void WriteEvaluation::request(const Params& params, const StageSite& site, CompileRequest& request) {
  const bool of_map = site.network != nullptr && gives_map(*site.network);
  request.needs_image = request.needs_image || params.mistakes > 0 || params.predictions > 0 || of_map;
}

WriteEvaluation::WriteEvaluation(const Params& params, const DataContext& context)
    : JointSink(context),
      params_(params),
      context_(context),
      probabilities_(context.network != nullptr && context.network->layers.back().op == "softmax"),
      mistakes_(static_cast<std::size_t>(params.mistakes)),
      pixels_(context.network != nullptr ? static_cast<std::size_t>(context.network->output()[0]) : 0, probabilities_),
      worst_(static_cast<std::size_t>(params.mistakes), colours_for(context)),
      shown_(static_cast<std::size_t>(params.predictions), context.samples_per_epoch, colours_for(context)) {
  if (context.network == nullptr) fail(ErrorKind::usage, "[network] is missing: this stage compares its classes with labels");
  const Shape& output = context.network->output();
  if (gives_map(*context.network)) require_label_images(output);
  classes_ = static_cast<std::size_t>(output[0]);
  counts_ = ClassCounts(classes_);
  names_ = context.classes;
  for (std::size_t c = names_.size(); c < classes_; ++c) names_.push_back(fmt::format("{}", c));
  names_.resize(classes_);
}

void WriteEvaluation::require_label_images(const Shape& output) {
  if (output.rank() != 3 || output[0] < 2 || output[0] > kUnknownClass) {
    fail(ErrorKind::usage, "the network's output is {}: a map of classes has 2 to {} channels, height and width",
         to_string(output), kUnknownClass);
  }
  if (context_.target.kind != TargetSpec::Kind::classes) {
    fail(ErrorKind::usage, "the network's output is a map, {}. It is compared with label images, and the source of [{}] has none",
         to_string(output), context_.graph);
  }
  map_ = context_.target.shape(context_.window);
  if (map_.height == output[1] && map_.width == output[2]) return;
  fail(ErrorKind::usage, "the network's output is {}, but the label images are {} x {}: they must match", to_string(output),
       map_.height, map_.width);
}

void WriteEvaluation::open() {
  folder_ = folder_of_first(context_, "folder", params_.folder, "figures.csv");
  if (!folder_.empty()) drawing::load_fonts();
}

std::size_t WriteEvaluation::memory_bound() const {
  const auto most = static_cast<std::size_t>(params_.mistakes + params_.predictions);
  return ClassCounts::memory_bound(classes_, context_.samples_per_epoch) + drawing::confusion_memory_bound(classes_) +
         drawing::sheet_memory_bound(most, is_map() ? WorstImages::kPanels : 1, context_.window);
}

void WriteEvaluation::write(const Predictions& share) {
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (!share.samples[i].counts) continue;
    images_ += 1;
    is_map() ? count_pixels(share, i) : count(share, i);
  }
  if (share.last) finish();
}

// A result that is not finite predicts no class. It counts as a mistake, as in the loss, and appears in no other table.
void WriteEvaluation::count(const Predictions& share, std::size_t sample) {
  const Verdict verdict = Verdict::of(share.result().row(sample), label_of(share.samples[sample]), probabilities_);
  if (!FiniteCount::is_finite(share.result().row(sample))) {
    not_finite_ += 1;
    mistakes_.add(verdict, share, sample, names_);
    return;
  }
  const bool right = verdict.predicted == verdict.label;
  counts_.add(verdict.label, verdict.predicted, 1);
  calibration_.add(verdict.confidence, right);
  if (!right) mistakes_.add(verdict, share, sample, names_);
  if (shown_.takes(share.samples[sample].key.position)) shown_.add(verdict, share, sample, names_);
}

void WriteEvaluation::count_pixels(const Predictions& share, std::size_t sample) {
  labels_.resize(map_.bytes());
  share.copy_target(sample, labels_.data());
  const PixelVerdict verdict = pixels_.judge(share.result().row(sample), labels_, counts_.dense(), calibration_);
  const WorstImages::Maps maps = {map_, labels_, pixels_.predicted()};
  worst_.add(verdict, maps, share, sample);
  if (shown_.takes(share.samples[sample].key.position)) shown_.add(verdict, maps, share, sample);
}

std::size_t WriteEvaluation::label_of(const Predictions::Sample& sample) const {
  const auto label = static_cast<std::size_t>(sample.label);
  if (sample.label >= 0 && label < classes_) return label;
  std::string place;
  sample.append_place(place);
  fail(ErrorKind::data, "sample '{}' has {}: the network has {} classes, 0 to {}", place,
       sample.label < 0 ? "no label" : fmt::format("label {}", label), classes_, classes_ - 1);
}

void WriteEvaluation::finish() {
  join();
  const std::vector<ClassMatrix::Cell> cells = counts_.cells();
  const ClassMatrix matrix(classes_, cells);
  warn_of_one_class(matrix);
  report_figures(context_, figures(matrix));
  if (!folder_.empty()) {
    OutputFiles files(context_);
    add_tables(files, matrix);
    add_pictures(files, matrix);
    files.commit();
  }
  forget();
}

// During training the run checks each pass itself.
void WriteEvaluation::warn_of_one_class(const ClassMatrix& matrix) {
  constexpr double kLeast = 3;
  const std::size_t only = matrix.only_predicted();
  if (context_.is_during_training || !is_first() || is_map() || matrix.total() < kLeast || only == classes_) return;
  if (std::exchange(warned_, true)) return;
  std::size_t occurring = 0;
  for (std::size_t c = 0; c < classes_; ++c) occurring += matrix.occurring(c) > 0 ? 1 : 0;
  context_.run->warn(
      fmt::format("{}: all {} images are predicted as '{}', and they are of {} classes: the network does not distinguish them. "
                  "Check the learning rate (--find-rate), the mean and deviation that normalise images, and the labels",
                  context_.place(), matrix.total(), names_[only], occurring));
}

// Gathers the counts of all processes on the first one.
void WriteEvaluation::join() {
  gather(WireWriter().put(images_).put(not_finite_).put(calibration_.bins()).put(counts_.cells()), [this](WireReader& other) {
    images_ += other.get<double>();
    not_finite_ += other.get<double>();
    calibration_.add(other.get<Calibration::Bins>());
    for (const ClassMatrix::Cell& cell : other.list<ClassMatrix::Cell>()) counts_.add(cell.of, cell.as, cell.count);
  });
  shown_.join(*this);
  is_map() ? worst_.join(*this) : mistakes_.join(*this);
}

void WriteEvaluation::forget() {
  counts_.clear();
  calibration_ = {};
  mistakes_.clear();
  worst_.clear();
  shown_.clear();
  images_ = not_finite_ = 0;
}

std::vector<std::string> WriteEvaluation::reported_figures() const {
  std::vector<std::string> names;
  for (const Figure& figure : figures(ClassMatrix(classes_, {}))) names.push_back(figure.name);
  return names;
}

std::vector<Figure> WriteEvaluation::figures(const ClassMatrix& matrix) const {
  const double counted = matrix.total();
  std::vector<Figure> figures;
  const auto add = [&](const char* name, double value, bool is_detail = false) {
    figures.push_back({.name = name, .value = value, .percent = true, .higher_is_better = true, .is_detail = is_detail});
  };
  add("accuracy", not_finite_ > 0 ? matrix.accuracy() * counted / (counted + not_finite_) : matrix.accuracy());
  add("mean_accuracy", matrix.mean_accuracy());
  add("mean_precision", matrix.mean_precision(), true);
  add("mean_f1", matrix.mean_f1(), true);
  if (is_map()) add("mean_iou", matrix.mean_iou());
  if (is_map()) add("weighted_iou", matrix.weighted_iou());
  add("calibration_error", calibration_.expected_error(), true);
  figures.back().higher_is_better = false;
  return figures;
}

std::string WriteEvaluation::figures_csv(const ClassMatrix& matrix) const {
  std::string text = fmt::format("figure,value\r\nimages,{}\r\n", images_);
  if (is_map()) text += fmt::format("pixels,{}\r\n", matrix.total());
  if (not_finite_ > 0) text += fmt::format("not_finite,{}\r\n", not_finite_);
  for (const Figure& figure : figures(matrix)) text += fmt::format("{},{}\r\n", figure.name, figure.value);
  return text;
}

void WriteEvaluation::add_tables(OutputFiles& files, const ClassMatrix& matrix) const {
  files.add(path("figures.csv"), figures_csv(matrix));
  std::string classes = fmt::format("{}\r\n", kClassColumns);
  append_classes(classes, "", matrix, names_);
  files.add(path("classes.csv"), classes);
  files.add(path("confusion.csv"), [&](OutputFile& file) {
    file.write(fmt::format("{}\r\n", kConfusionColumns));
    append_confusion("", matrix, names_, [&](std::string_view rows) { file.write(rows); });
  });
  files.add(path("calibration.csv"), calibration_csv(calibration_));
}

void WriteEvaluation::add_pictures(OutputFiles& files, const ClassMatrix& matrix) const {
  if (params_.mistakes > 0) files.add(path(is_map() ? "worst.csv" : "mistakes.csv"), is_map() ? worst_.csv() : mistakes_.csv());
  if (!drawing::can_draw()) return;
  const std::string heading = fmt::format("of {} images of {}", images_, context_.graph);
  if (params_.predictions > 0) files.add(path("predictions.png"), shown_.sheet(heading, names_).png());
  if (classes_ <= drawing::kMaxDrawnClasses) {
    const drawing::Picture confusion = drawing::confusion(matrix, names_, is_map());
    files.add(path("confusion.png"), confusion.png());
    files.add(path("confusion.svg"), confusion.svg());
  }
  files.add(path("classes.png"), drawing::class_scores(matrix, names_, is_map(), context_.graph).png());
  if (params_.mistakes > 0)
    files.add(path(is_map() ? "worst.png" : "mistakes.png"), (is_map() ? worst_.sheet(names_) : mistakes_.sheet()).png());
}

}  // namespace millrace

MILLRACE_PLUGIN("write_evaluation", "1.0", "Predicted classes compared with labels, as CSV and pictures.") {
  registry.add_stage<millrace::WriteEvaluation>();
}
