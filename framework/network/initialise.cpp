// Initial values of parameters. Every value depends on the seed and the parameter's name alone: adding a layer to a network does
// not change the others.
//
// Rules: He et al., "Delving deep into rectifiers", 2015; Glorot and Bengio, "Understanding the difficulty of training deep
// feedforward neural networks", 2010. "fan_in_uniform" is PyTorch's default for conv and linear. "he_normal_fan_out" keeps the
// deviation of gradients rather than of activations; groups count as one, as in PyTorch. For a transposed_conv's weights, (in,
// out / groups, ...), the second extent also counts as `in`, as in PyTorch.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "millrace/backend/network.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"

namespace millrace {
namespace {

struct Fans {
  double in = 0, out = 0;
};

Fans fans(const Shape& shape) {  // (out, in, ...)
  assert(shape.rank() >= 2);
  double field = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) field *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

std::vector<float> uniform(const Parameter& parameter, Draw draw, double bound) {
  std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
  for (float& value : values) value = static_cast<float>(draw.uniform(-bound, bound));
  return values;
}

std::vector<float> normal(const Parameter& parameter, Draw draw, double deviation) {
  std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
  for (float& value : values) value = static_cast<float>(deviation * draw.normal());
  return values;
}

// Makes filter i pass channel i on, for the first filters: one at the kernel's centre, zero elsewhere.
void make_identities(const Shape& shape, std::vector<float>& values) {
  std::int64_t field = 1, centre = 0;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    centre = centre * shape[axis] + shape[axis] / 2;
    field *= shape[axis];
  }
  const std::int64_t filter = shape[1] * field;
  const std::int64_t count = std::min(shape[0], shape[1]);
  std::fill(values.begin(), values.begin() + count * filter, 0.0F);
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i * filter + i * field + centre)] = 1;
}

}  // namespace

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed) {
  const auto& [rule, value] = parameter.initialiser;
  if (rule == "constant") {
    return std::vector<float>(static_cast<std::size_t>(parameter.shape.elements()), static_cast<float>(value));
  }
  const Draw draw(seed, SampleKey{}, hash_text(parameter.name));
  if (rule == "uniform") return uniform(parameter, draw, value);
  if (rule == "normal") return normal(parameter, draw, value);

  const Fans fan = fans(parameter.shape);
  if (rule == "he_normal") return normal(parameter, draw, std::sqrt(2 / fan.in));
  if (rule == "he_normal_fan_out") return normal(parameter, draw, std::sqrt(2 / fan.out));
  if (rule == "he_uniform") return uniform(parameter, draw, std::sqrt(6 / fan.in));
  if (rule == "glorot_normal") return normal(parameter, draw, std::sqrt(2 / (fan.in + fan.out)));
  if (rule == "glorot_uniform") return uniform(parameter, draw, std::sqrt(6 / (fan.in + fan.out)));
  if (rule == "fan_in_uniform") return uniform(parameter, draw, std::sqrt(1 / fan.in));
  if (rule == "dirac") {
    std::vector<float> values = uniform(parameter, draw, std::sqrt(1 / fan.in));
    make_identities(parameter.shape, values);
    return values;
  }
  fail(ErrorKind::usage, "parameter '{}' has the initialiser '{}', which makes no values by itself", parameter.name, rule);
}

int Network::find_parameter(std::string_view parameter_name) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == parameter_name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace millrace
