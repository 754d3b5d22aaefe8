#include "millrace/backend/backend.h"

#include "millrace/error.h"
#include "millrace/util/standard_error.h"

namespace millrace {

void print_warning(std::string_view message) { print_to_stderr("warning: {}\n", message); }

void Stream::call(std::function<void()>) {
  fail(ErrorKind::usage, "this device has memory of its own: it cannot take part in a run of several processes");
}

void StepSums::add(const StepSums& others) {
  if (values.size() < others.values.size()) values.resize(others.values.size(), 0.0);
  for (std::size_t i = 0; i < others.values.size(); ++i) values[i] += others.values[i];
}

std::vector<LayerPort> CompileRequest::loss_outputs(const Network& network) const {
  std::vector<LayerPort> values;
  for (const LossAt& measured : losses) {
    const LayerPort value = measured.output.value_or(network.result());
    if (value != network.result() && std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

void check_views(const Network& network, std::span<const View> views) {
  const bool vector = network.output().elements() == network.output()[0];
  if (vector || std::ranges::all_of(views, [](const View& view) { return view.dx == 0 && view.dy == 0; })) return;
  fail(ErrorKind::usage,
       "the network's output is a map: it is summed over the image and its mirror image, not over shifted ones");
}

void check_gradients(const Network& network, const CompileRequest& request) {
  const Shape& result = network.output();
  for (const auto& [by, of] : request.gradients) {
    if (by.layer < 0)
      fail(ErrorKind::usage, "the gradient of a score with respect to the network's input was requested: name a layer's output");
    if (result.elements() != result[0]) {
      fail(ErrorKind::usage, "the network's output is a map, {}, so it has no score with a gradient", to_string(result));
    }
    if (of < ScoreGradient::kLabel || of >= result[0]) {
      fail(ErrorKind::usage, "the gradient of number {} of the network's result was requested, but it has {}", of, result[0]);
    }
  }
}

std::vector<std::int64_t> scored_numbers(const ScoreGradient& gradient, std::span<const float> results,
                                         std::span<const std::int32_t> labels) {
  const std::size_t each = labels.empty() ? 0 : results.size() / labels.size();
  std::vector<std::int64_t> numbers(labels.size(), gradient.of);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (gradient.of == ScoreGradient::kPredicted) {
      const auto row = results.subspan(n * each, each);
      numbers[n] = std::max_element(row.begin(), row.end()) - row.begin();
    } else if (gradient.of == ScoreGradient::kLabel) {
      numbers[n] = labels[n] >= 0 && labels[n] < static_cast<std::int64_t>(each) ? labels[n] : -1;
    }
  }
  return numbers;
}

namespace {

class ReadAtOnce final : public Snapshot {
 public:
  ReadAtOnce(Replica& replica, std::span<const StateOf> states) {
    for (const StateOf& each : states) values_.push_back(replica.read(each.state, each.parameter));
  }
  std::vector<float> take(std::size_t index) override { return std::move(values_.at(index)); }

 private:
  std::vector<std::vector<float>> values_;
};

}  // namespace

std::unique_ptr<Snapshot> Replica::capture(std::span<const StateOf> states) {
  return std::make_unique<ReadAtOnce>(*this, states);
}

Ref<Event> Replica::read_gradients(Ref<Batch>, std::uint32_t, std::uint32_t, std::span<const GradientCopy>) {
  fail(ErrorKind::usage, "this backend computes no gradients of scores in inference");
}

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::tf32: return "tf32";
    case Precision::bf16: return "bf16";
  }
  return "unknown";
}

const char* to_string(Tune tune) {
  switch (tune) {
    case Tune::heuristic: return "heuristic";
    case Tune::measure: return "measure";
  }
  return "unknown";
}

std::size_t MemoryPlan::total() const {
  std::size_t bytes = 0;
  for (const Item& item : items) bytes += item.bytes;
  return bytes;
}

}  // namespace millrace
