#include "int8_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "common/text_table.h"
#include "config/plan.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/util/standard_error.h"
#include "util/json.h"
#include "validation.h"
#include "weights/weights.h"

namespace millrace {
namespace {

constexpr const char* kPrefix = "int8 ";

// How often magnitudes occur. Its range doubles as needed.
class Histogram {
 public:
  void add(std::span<const float> values) {
    for (const float value : values) {
      if (value == 0) continue;  // exact on every grid
      if (!std::isfinite(value)) fail(ErrorKind::data, "the network computes values that are not finite");
      const float magnitude = std::abs(value);
      if (magnitude >= limit_) widen(magnitude);
      is_signed_ = is_signed_ || value < 0;
      largest_ = std::max(largest_, magnitude);
      ++counts_[std::min(static_cast<std::size_t>(magnitude * by_), kBins - 1)];  // the product may be rounded up
    }
  }

  // The grid with the least squared error: values up to its end are rounded, larger ones are cut.
  QuantiseAttributes grid() const {
    const double steps = is_signed_ ? 127 : 255, width = 1.0 / by_;
    if (largest_ == 0) return {1, is_signed_};
    double inside = 0, best = std::numeric_limits<double>::infinity(), end = largest_;
    Tail tail;
    std::vector<Tail> tails(kBins + 1);
    for (std::size_t bin = kBins; bin-- > 0;) {
      const double at = (static_cast<double>(bin) + 0.5) * width, n = static_cast<double>(counts_[bin]);
      tail = {tail.n + n, tail.sum + n * at, tail.squares + n * at * at};
      tails[bin] = tail;
    }
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      inside += static_cast<double>(counts_[bin]);
      const double last = std::min((static_cast<double>(bin) + 1) * width, double{largest_}), step = last / steps;
      const Tail& cut = tails[bin + 1];
      const double error = inside * step * step / 12 + cut.squares - 2 * last * cut.sum + cut.n * last * last;
      if (error < best) {
        best = error;
        end = last;
      }
    }
    return {static_cast<float>(end / steps), is_signed_};
  }

 private:
  static constexpr std::size_t kBins = 2048;
  struct Tail {
    double n = 0, sum = 0, squares = 0;
  };

  void widen(float magnitude) {
    if (limit_ == 0) limit_ = magnitude;
    while (magnitude >= limit_) {
      for (std::size_t bin = 0; bin < kBins; ++bin)
        counts_[bin] = 2 * bin + 1 < kBins ? counts_[2 * bin] + counts_[2 * bin + 1] : 0;
      limit_ *= 2;
    }
    by_ = kBins / limit_;
  }

  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(kBins);
  float limit_ = 0, by_ = 0, largest_ = 0;
  bool is_signed_ = false;
};

// Values that int8 may round, without the network's input, each once.
std::vector<LayerPort> rounded_values(const Network& network) {
  std::vector<LayerPort> values;
  for (const Int8Layer& each : int8_layers(network)) {
    for (const LayerPort value : {each.input, each.output}) {
      if (value.layer >= 0 && std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

class CalibrateInt8 : public Stage {
 public:
  struct Params {
    std::int64_t samples = 500;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("calibrate_int8").text("Measures the range of activations.").input(payload::kPredictions).serial();
    d.params.add("samples", &Params::samples).range(1).text("images, evenly spread over the validation");
  }
  static void request(const Params&, const StageSite& site, CompileRequest& request) {
    for (const LayerPort value : rounded_values(*site.network)) request.read(value);
  }
  CalibrateInt8(const Params& params, const DataContext& context) : params_(params), context_(context) {}

  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }

 private:
  void write(const Predictions& share) {
    if (context_.run->is_dry_run()) return;
    const auto all = std::max<std::uint64_t>(context_.samples_per_epoch, 1);
    const auto wanted = std::min(static_cast<std::uint64_t>(params_.samples), all);
    for (std::size_t i = 0; i < share.count; ++i) {
      const std::uint64_t at = seen_++;
      if (!share.samples[i].counts || at * wanted / all == (at + 1) * wanted / all) continue;
      for (const LayerPort value : rounded_values(*context_.network)) histograms_[value].add(share.output(value).row(i));
    }
    if (!share.last) return;
    for (const auto& [value, histogram] : histograms_) {
      const QuantiseAttributes grid = histogram.grid();
      const std::string name = kPrefix + value_name(*context_.network, value);
      context_.run->figure(context_.graph, {.name = name, .value = grid.is_signed ? -grid.scale : grid.scale});
    }
  }

  const Params params_;
  const DataContext context_;
  std::uint64_t seen_ = 0;
  std::map<LayerPort, Histogram> histograms_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

void register_calibration(Registry& registry) { registry.add_stage<CalibrateInt8>(); }

namespace {

// Normalised pixels are all known.
QuantiseAttributes grid_of_input(const Network& network) {
  double largest = 0;
  for (std::size_t c = 0; c < network.mean.size(); ++c)
    largest = std::max({largest, network.mean[c] / network.deviation[c], (1 - network.mean[c]) / network.deviation[c]});
  return {static_cast<float>(largest / 127), true};
}

bool keeps_values(const std::string& op) {
  return op == "max_pool" || op == "flatten" || op == "dropout" || op == "stochastic_depth";
}

// So that runtimes leave integers as they are: a value that its layer only moves is on that layer's grid.
void share_grids(const Network& network, Int8Table& table) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    if (!keeps_values(network.layers[i].op)) continue;
    const auto from = table.values.find(value_name(network, network.layers[i].inputs[0]));
    const auto to = table.values.find(value_name(network, static_cast<int>(i)));
    if (from != table.values.end() && to != table.values.end()) to->second = from->second;
  }
}

const Figure& main_figure(const std::vector<Figure>& figures) {
  for (const char* name : {"mean_iou", "psnr", "accuracy"}) {
    const auto found = std::ranges::find(figures, name, &Figure::name);
    if (found != figures.end()) return *found;
  }
  const auto loss = std::ranges::find(figures, "loss", &Figure::name);
  if (loss == figures.end())
    fail(ErrorKind::usage, "--int8: the run's validation measures nothing: it needs the stage 'metrics'");
  return *loss;
}

class Choice {
 public:
  Choice(const Model& model, const Int8Request& request, const Registry& registry)
      : model_(model), request_(request), registry_(registry) {
    for (const Int8Layer& each : int8_layers(*model.network))
      names_.push_back(model.network->layers[static_cast<std::size_t>(each.layer)].name);
    if (names_.empty()) fail(ErrorKind::usage, "--int8: the network '{}' has no layer that int8 is for", model.network->name);
  }

  std::optional<Int8Choice> run() {
    const bool done = calibrate() && measure_all();
    if (!done) return std::nullopt;
    // By sensitivity, largest first: by the metric, and then by the loss, which shows smaller differences.
    std::vector<std::size_t> order(names_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return std::pair(alone_[a].drop, alone_[a].loss) > std::pair(alone_[b].drop, alone_[b].loss);
    });
    // The fewest in float: accuracy grows with their number, apart from chance.
    Measured kept = all_, best = all_;
    std::vector<std::string> layers = names_;
    bool keeps = all_.drop <= request_.max_drop;
    for (std::size_t least = 1, most = keeps ? 0 : names_.size() - 1; least <= most;) {
      const std::size_t count = (least + most) / 2;
      const std::vector<std::string> rest = without(std::span(order).first(count));
      const std::optional<Measured> measured = measure(rest);
      if (!measured) return std::nullopt;
      if (measured->drop < best.drop) best = *measured;
      if (!(measured->drop <= request_.max_drop)) {  // NaN, too
        least = count + 1;
        continue;
      }
      keeps = true;
      kept = *measured;
      layers = rest;
      most = count - 1;
    }
    if (!keeps) {
      fail(ErrorKind::data,
           "--int8: no choice of layers keeps to the bound of {}: {} is {} in float32, and at best {} in int8.\n{}",
           request_.max_drop, float_.name, text_of(float_), text_of({float_.name, best.value, float_.percent}), table_text({}));
    }
    table_.layers = layers;
    Json report = {{"metric", float_.name},         {"float32", float_.value},        {"int8", kept.value},
                   {"max_drop", request_.max_drop}, {"calibrated", request_.samples}, {"sensitivity", Json::array()}};
    for (std::size_t i = 0; i < names_.size(); ++i)
      report["sensitivity"].push_back({{"layer", names_[i]}, {float_.name, alone_[i].value}, {"loss", alone_[i].loss}});
    table_.report = report.dump();
    const std::string last = fmt::format("{} in float32: {}; in int8: {}, with {} of {} layers", float_.name, text_of(float_),
                                         text_of({float_.name, kept.value, float_.percent}), layers.size(), names_.size());
    return Int8Choice{table_, table_text(layers) + last};
  }

 private:
  struct Measured {
    double value = 0, drop = 0, loss = 0;
  };

  static std::string text_of(const Figure& figure) {
    return figure.percent ? fmt::format("{:.2f} %", 100 * figure.value) : fmt::format("{:.4f}", figure.value);
  }

  std::vector<std::string> without(std::span<const std::size_t> in_float) const {
    std::vector<std::string> rest;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (std::ranges::find(in_float, i) == in_float.end()) rest.push_back(names_[i]);
    }
    return rest;
  }

  double drop_of(const Figure& figure) const {
    if (!float_.higher_is_better) return 100 * (figure.value - float_.value) / std::max(std::abs(float_.value), 1e-12);
    return (float_.value - figure.value) * (float_.percent ? 100 : 1);
  }

  // The run's network as it is, with all values that may be rounded.
  bool calibrate() {
    constexpr double kMostBytes = 256 << 20;  // of a batch's values
    double bytes = 0;
    for (const LayerPort value : rounded_values(*model_.network))
      bytes += sizeof(float) * static_cast<double>(model_.network->shape_of(value).elements());
    ValidationRequest request{.overrides = request_.overrides,
                              .sink = "calibrate_int8",
                              .parameters = {fmt::format("samples={}", request_.samples)},
                              .network = model_.network,
                              .stop_signal = request_.stop_signal};
    request.most_in_batch = static_cast<std::int64_t>(std::clamp(kMostBytes / bytes, 1.0, 64.0));
    const auto figures = validate(model_, request, registry_);
    if (!figures) return false;
    float_ = main_figure(*figures);
    table_.values[""] = grid_of_input(*model_.network);
    for (const Figure& figure : *figures) {
      if (figure.name.starts_with(kPrefix))
        table_.values[figure.name.substr(std::string_view(kPrefix).size())] = {static_cast<float>(std::abs(figure.value)),
                                                                               figure.value < 0};
    }
    share_grids(*model_.network, table_);
    return true;
  }

  bool measure_all() {
    const std::optional<Measured> all = measure(names_);
    if (!all) return false;
    all_ = *all;
    for (const std::string& name : names_) {
      const std::optional<Measured> one = measure({name});
      if (!one) return false;
      alone_.push_back(*one);
    }
    return true;
  }

  std::optional<Measured> measure(const std::vector<std::string>& layers) {
    table_.layers = layers;
    const Model model = in_int8(model_, table_);
    save_weights_file(request_.weights.string(), *model.network, model.weights);
    const auto figures = validate(model_,
                                  {.overrides = request_.overrides,
                                   .network = model.network,
                                   .weights = request_.weights.string(),
                                   .stop_signal = request_.stop_signal},
                                  registry_);
    if (!figures) return std::nullopt;
    const Figure& figure = main_figure(*figures);
    const auto loss = std::ranges::find(*figures, "loss", &Figure::name);
    return Measured{figure.value, drop_of(figure), loss != figures->end() ? loss->value : 0};
  }

  std::string table_text(const std::vector<std::string>& layers) const {
    TextTable table({"layer alone in int8", ">" + float_.name, ">drop", ">loss", "file"});
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool is_in = std::ranges::find(layers, names_[i]) != layers.end();
      table.row({names_[i], text_of({float_.name, alone_[i].value, float_.percent}), fmt::format("{:.2f}", alone_[i].drop),
                 fmt::format("{:.4f}", alone_[i].loss), is_in ? "int8" : "float32"});
    }
    table.row({"all layers", text_of({float_.name, all_.value, float_.percent}), fmt::format("{:.2f}", all_.drop),
               fmt::format("{:.4f}", all_.loss), ""});
    return table.text();
  }

  const Model& model_;
  const Int8Request& request_;
  const Registry& registry_;
  std::vector<std::string> names_;
  Int8Table table_;
  Figure float_;
  Measured all_;
  std::vector<Measured> alone_;  // by layer
};

}  // namespace

std::optional<Int8Choice> choose_int8(const Model& model, const Int8Request& request, const Registry& registry) {
  return Choice(model, request, registry).run();
}

}  // namespace millrace
