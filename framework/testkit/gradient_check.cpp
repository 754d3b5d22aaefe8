#include "testkit/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "millrace/detail/random.h"
#include "millrace/loss.h"
#include "testkit/losses.h"

namespace millrace::testkit {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

double loss_of(const Network& network, Replica& replica, const Ref<Batch>& batch, const GradientCheckOptions& options) {
  std::vector<CheckedLoss> losses = options.auxiliary;
  losses.insert(losses.begin(), {options.loss, network.result()});
  std::vector<StepSums> sums(losses.size());
  std::vector<LossTerm> terms;
  for (const CheckedLoss& each : losses) {
    const Shape& output = network.shape_of(each.output);
    const double weight = each.loss->weight(*batch, {0, batch->count}, output.elements() / output[0]);
    terms.push_back({each.loss, (options.add_up ? 1 : weight) / each.weight, &sums[terms.size()], each.output});
  }
  replica.ingest(batch, 0, batch->count);
  replica.forward(options.step);
  const Ref<Event> known = replica.losses(terms);
  if (known) known->wait();
  double all = 0;
  for (const LossTerm& term : terms) all += term.sums->loss() / term.divisor;
  return all;
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

std::vector<std::size_t> choose(const std::vector<float>& gradient, int wanted, Draw& draw) {
  std::vector<std::size_t> all(gradient.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::size_t count = std::min(all.size(), static_cast<std::size_t>(wanted));
  const auto larger = [&](std::size_t a, std::size_t b) { return std::abs(gradient[a]) > std::abs(gradient[b]); };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), larger);
  for (std::size_t i = count / 2; i < count; ++i) {
    const auto other = draw.integer(static_cast<std::int64_t>(i), static_cast<std::int64_t>(all.size()) - 1);
    std::swap(all[i], all[static_cast<std::size_t>(other)]);
  }
  all.resize(count);
  return all;
}

double step_size(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::cbrt(kEpsilon) * std::max(0.25, std::sqrt(squares / static_cast<double>(values.size())));
}

}  // namespace

double GradientReport::Entry::error() const { return std::max(0.0, difference - noise) / std::max(norm, noise); }

double GradientReport::worst() const {
  double worst = 0;
  for (const Entry& entry : entries) {
    if (!(entry.error() <= worst)) worst = entry.error();  // NaN counts as worst
  }
  return worst;
}

std::string GradientReport::text() const {
  std::vector<Entry> sorted = entries;
  std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.error() > b.error(); });
  constexpr std::size_t kMaxLines = 10;
  const std::size_t shown = sorted.size() <= kMaxLines ? sorted.size() : kMaxLines - 1;
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const Entry& entry = sorted[i];
    text += fmt::format("{}: relative error {:.2e} (difference {:.2e}, gradient {:.2e}, noise {:.1e})\n", entry.parameter,
                        entry.error(), entry.difference, entry.norm, entry.noise);
  }
  if (shown < sorted.size()) text += fmt::format("and {} parameters more, with smaller errors\n", sorted.size() - shown);
  return text;
}

GradientReport check_gradients(const Network& network, Replica& replica, const Ref<Batch>& batch,
                               const GradientCheckOptions& given) {
  GradientCheckOptions options = given;
  if (!options.loss) options.loss = cross_entropy();
  const double loss = loss_of(network, replica, batch, options);
  replica.backward([](int, Ref<Event>) {});
  replica.finish();
  std::vector<std::vector<float>> gradients(network.parameters.size());
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    if (network.parameters[p].trainable) gradients[p] = replica.read(kGradient, static_cast<int>(p));
  }
  GradientReport report;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    if (!network.parameters[p].trainable) continue;
    std::vector<float> values = replica.read(kValue, static_cast<int>(p));
    const double h = options.scale * step_size(values);
    Draw draw(options.seed, {0, p, 0, 0}, hash_text("gradient check"));
    std::vector<double> ours, theirs, differences;
    for (const std::size_t i : choose(gradients[p], options.elements, draw)) {
      const float original = values[i];
      const auto high = static_cast<float>(static_cast<double>(original) + h);
      const auto low = static_cast<float>(static_cast<double>(original) - h);
      values[i] = high;
      replica.write(kValue, static_cast<int>(p), values);
      const double above = loss_of(network, replica, batch, options);
      values[i] = low;
      replica.write(kValue, static_cast<int>(p), values);
      const double below = loss_of(network, replica, batch, options);
      values[i] = original;
      ours.push_back((above - below) / (static_cast<double>(high) - static_cast<double>(low)));
      theirs.push_back(static_cast<double>(gradients[p][i]));
      differences.push_back(ours.back() - theirs.back());
    }
    replica.write(kValue, static_cast<int>(p), values);
    const double noise = 4 * kEpsilon * std::abs(loss) / h * std::sqrt(static_cast<double>(ours.size()));
    report.entries.push_back({network.parameters[p].name, norm(differences), std::max(norm(ours), norm(theirs)), noise});
  }
  return report;
}

void randomise(const Network& network, Replica& replica, std::uint64_t seed) {
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    const Parameter& parameter = network.parameters[p];
    Parameter known = parameter;
    if (known.initialiser.rule == "whiten") known.initialiser.rule = "he_normal";  // no data to whiten here
    std::vector<float> values = initial_values(known, seed);
    Draw draw(seed, {0, p, 0, 0}, hash_text("randomise"));
    if (parameter.trainable && known.initialiser.rule == "constant") {
      for (float& value : values) value += static_cast<float>(0.1 * draw.normal());
    }
    replica.write(kValue, static_cast<int>(p), values);
  }
}

void fill_at_random(Batch& batch, std::int32_t classes, std::uint64_t seed) {
  Draw draw(seed, {}, hash_text("fill at random"));
  std::uint8_t* const pixels = batch.change_pixels();
  for (std::size_t i = 0; i < batch.count * batch.image.bytes(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(draw.integer(0, 255));
  }
  for (std::uint32_t slot = 0; slot < batch.count; ++slot) {
    batch.labels[slot] = batch.samples[slot].label = static_cast<std::int32_t>(draw.integer(0, classes - 1));
    batch.weights[slot] = 1;
  }
  batch.weight = batch.count;
}

}  // namespace millrace::testkit
