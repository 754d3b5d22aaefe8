// The independent reference of the tests: each op by its definition, in double, on (N, C, H, W).
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_fixture.h"
#include "millrace/backend/int8.h"

namespace millrace::cpu::test {
namespace {

struct Tensor {
  std::int64_t n = 0, c = 0, h = 1, w = 1;
  Values values;

  static Tensor of(std::int64_t n, const Shape& shape) {
    Tensor tensor{n, shape[0], shape.rank() == 3 ? shape[1] : 1, shape.rank() == 3 ? shape[2] : 1, {}};
    tensor.values.assign(static_cast<std::size_t>(n * tensor.c * tensor.h * tensor.w), 0.0);
    return tensor;
  }
  double& at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) {
    return values[static_cast<std::size_t>(((in * c + ic) * h + ih) * w + iw)];
  }
  double at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
    return values[static_cast<std::size_t>(((in * c + ic) * h + ih) * w + iw)];
  }
  bool inside(std::int64_t ih, std::int64_t iw) const { return ih >= 0 && iw >= 0 && ih < h && iw < w; }

  // call(n, c, h, w, element)
  template <class Call>
  void each(const Call& call) {
    for (std::int64_t in = 0; in < n; ++in)
      for (std::int64_t ic = 0; ic < c; ++ic)
        for (std::int64_t ih = 0; ih < h; ++ih)
          for (std::int64_t iw = 0; iw < w; ++iw) call(in, ic, ih, iw, at(in, ic, ih, iw));
  }

  // call(element)
  template <class Call>
  void each_of_channel(std::int64_t ic, const Call& call) const {
    for (std::int64_t in = 0; in < n; ++in)
      for (std::int64_t ih = 0; ih < h; ++ih)
        for (std::int64_t iw = 0; iw < w; ++iw) call(at(in, ic, ih, iw));
  }
};

struct Context {
  const Network& network;
  const std::vector<Values>& parameters;
  bool training;
  const Values& of(const Layer& layer, std::size_t i) const { return parameters[static_cast<std::size_t>(layer.parameters[i])]; }
};

void conv(const Context& context, const Layer& layer, const Tensor& x, Tensor& y) {
  const auto& a = layer.as<ConvAttributes>();
  const Values& weights = context.of(layer, 0);
  const std::int64_t in = x.c / a.groups, out = a.out / a.groups;
  y.each([&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w, double& sum) {
    sum = a.bias ? context.of(layer, 1)[static_cast<std::size_t>(o)] : 0.0;
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t kh = 0; kh < a.kernel.height; ++kh)
        for (std::int64_t kw = 0; kw < a.kernel.width; ++kw) {
          const std::int64_t row = h * a.stride.height - a.padding.top + kh * a.dilation.height;
          const std::int64_t column = w * a.stride.width - a.padding.left + kw * a.dilation.width;
          if (!x.inside(row, column)) continue;
          const std::int64_t at = ((o * in + i) * a.kernel.height + kh) * a.kernel.width + kw;
          sum += weights[static_cast<std::size_t>(at)] * x.at(n, o / out * in + i, row, column);
        }
  });
}

// Each output value sums the contributions of the inputs whose window, at the stride, covers it.
void transposed_conv(const Context& context, const Layer& layer, const Tensor& x, Tensor& y) {
  const auto& a = layer.as<ConvAttributes>();
  const Values& weights = context.of(layer, 0);
  const std::int64_t in = x.c / a.groups, out = a.out / a.groups;
  y.each([&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w, double& sum) {
    sum = a.bias ? context.of(layer, 1)[static_cast<std::size_t>(o)] : 0.0;
    for (std::int64_t i = o / out * in; i < (o / out + 1) * in; ++i)
      for (std::int64_t kh = 0; kh < a.kernel.height; ++kh)
        for (std::int64_t kw = 0; kw < a.kernel.width; ++kw) {
          const std::int64_t row = h + a.padding.top - kh * a.dilation.height;
          const std::int64_t column = w + a.padding.left - kw * a.dilation.width;
          if (row % a.stride.height != 0 || column % a.stride.width != 0) continue;
          if (!x.inside(row / a.stride.height, column / a.stride.width)) continue;
          const std::int64_t at = ((i * out + o % out) * a.kernel.height + kh) * a.kernel.width + kw;
          sum += weights[static_cast<std::size_t>(at)] * x.at(n, i, row / a.stride.height, column / a.stride.width);
        }
  });
}

void batch_norm(const Context& context, const Layer& layer, const Tensor& x, Tensor& y) {
  const auto& a = layer.as<BatchNormAttributes>();
  const std::size_t statistics = (a.scale ? 1U : 0U) + (a.shift ? 1U : 0U);
  const auto count = static_cast<double>(x.n * x.h * x.w);
  for (std::int64_t c = 0; c < x.c; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    double mean = context.of(layer, statistics)[channel], variance = context.of(layer, statistics + 1)[channel];
    if (context.training) {
      double sum = 0, squares = 0;
      x.each_of_channel(c, [&](double v) { sum += v; });
      mean = sum / count;
      x.each_of_channel(c, [&](double v) { squares += (v - mean) * (v - mean); });
      variance = squares / count;
    }
    const double scale = a.scale ? context.of(layer, 0)[channel] : 1.0;
    const double shift = a.shift ? context.of(layer, a.scale ? 1 : 0)[channel] : 0.0;
    for (std::int64_t n = 0; n < x.n; ++n)
      for (std::int64_t h = 0; h < x.h; ++h)
        for (std::int64_t w = 0; w < x.w; ++w)
          y.at(n, c, h, w) = (x.at(n, c, h, w) - mean) / std::sqrt(variance + a.epsilon) * scale + shift;
  }
}

void pool(const Layer& layer, const Tensor& x, Tensor& y) {
  const bool max = layer.op == "max_pool";
  const PoolAttributes whole{{x.h, x.w}, {1, 1}, {}, false};
  const PoolAttributes& a = layer.op == "global_average_pool" ? whole : layer.as<PoolAttributes>();
  y.each([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, double& result) {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    std::int64_t inside = 0;
    for (std::int64_t kh = 0; kh < a.kernel.height; ++kh)
      for (std::int64_t kw = 0; kw < a.kernel.width; ++kw) {
        const std::int64_t row = h * a.stride.height - a.padding.top + kh, column = w * a.stride.width - a.padding.left + kw;
        if (!x.inside(row, column)) continue;
        ++inside;
        sum += x.at(n, c, row, column);
        largest = std::max(largest, x.at(n, c, row, column));
      }
    result = max ? largest : sum / static_cast<double>(a.count_padding ? a.kernel.height * a.kernel.width : inside);
  });
}

void linear(const Context& context, const Layer& layer, const Tensor& x, Tensor& y) {
  const std::int64_t features = x.c * x.h * x.w;
  y.each([&](std::int64_t n, std::int64_t o, std::int64_t, std::int64_t, double& sum) {
    sum = layer.parameters.size() > 1 ? context.of(layer, 1)[static_cast<std::size_t>(o)] : 0.0;
    for (std::int64_t i = 0; i < features; ++i) {
      sum +=
          context.of(layer, 0)[static_cast<std::size_t>(o * features + i)] * x.values[static_cast<std::size_t>(n * features + i)];
    }
  });
}

void lrn(const Layer& layer, const Tensor& x, Tensor& y) {
  const auto& a = layer.as<LrnAttributes>();
  y.each([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, double& result) {
    double squares = 0;
    for (std::int64_t i = c - (a.size - 1) / 2; i <= c + a.size / 2; ++i) {
      if (i >= 0 && i < x.c) squares += x.at(n, i, h, w) * x.at(n, i, h, w);
    }
    result = x.at(n, c, h, w) / std::pow(a.k + a.alpha / static_cast<double>(a.size) * squares, a.beta);
  });
}

void concat(const std::vector<const Tensor*>& inputs, Tensor& y) {
  std::int64_t first = 0;
  for (const Tensor* x : inputs) {
    y.each([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, double& result) {
      if (c >= first && c < first + x->c) result = x->at(n, c - first, h, w);
    });
    first += x->c;
  }
}

void elementwise(const Layer& layer, const std::vector<const Tensor*>& inputs, Tensor& y) {
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const double x = inputs[0]->values[i];
    if (layer.op == "relu")
      y.values[i] = std::max(x, 0.0);
    else if (layer.op == "gelu")
      y.values[i] = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    else if (layer.op == "scale")
      y.values[i] = x * layer.as<ScaleAttributes>().factor;
    else if (layer.op == kQuantise)
      y.values[i] = double{layer.as<QuantiseAttributes>().scale} *
                    double{layer.as<QuantiseAttributes>().integer(static_cast<float>(x))};
    else
      y.values[i] = x;  // flatten, dropout outside training
    if (layer.op != "add") continue;
    for (std::size_t other = 1; other < inputs.size(); ++other) y.values[i] += inputs[other]->values[i];
  }
}

void compute(const Context& context, const Layer& layer, const std::vector<const Tensor*>& inputs, Tensor& y) {
  const Tensor& x = *inputs[0];
  if (layer.op == "conv")
    conv(context, layer, x, y);
  else if (layer.op == "transposed_conv")
    transposed_conv(context, layer, x, y);
  else if (layer.op == "batch_norm")
    batch_norm(context, layer, x, y);
  else if (layer.op.ends_with("_pool"))
    pool(layer, x, y);
  else if (layer.op == "linear")
    linear(context, layer, x, y);
  else if (layer.op == "lrn")
    lrn(layer, x, y);
  else if (layer.op == "concat")
    concat(inputs, y);
  else
    elementwise(layer, inputs, y);
}

}  // namespace

Values reference_logits(const Network& network, const std::vector<Values>& parameters, const Values& input, std::int64_t samples,
                        bool training) {
  const Context context{network, parameters, training};
  Tensor image = Tensor::of(samples, {network.input.channels, network.input.height, network.input.width});
  image.values = input;
  std::vector<Tensor> results;
  results.reserve(network.layers.size());
  for (const Layer& layer : network.layers) {
    std::vector<const Tensor*> inputs;
    for (const LayerPort from : layer.inputs) {
      inputs.push_back(from == Network::kInput ? &image : &results[static_cast<std::size_t>(from.layer)]);
    }
    Tensor y = Tensor::of(samples, layer.output);
    compute(context, layer, inputs, y);
    results.push_back(std::move(y));
  }
  return results.back().values;
}

double reference_loss(const Values& logits, const std::vector<std::int32_t>& labels, double smoothing) {
  const std::size_t classes = logits.size() / labels.size();
  double loss = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[n * classes + c]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double target =
          (static_cast<std::size_t>(labels[n]) == c ? 1 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
      loss -= target * (logits[n * classes + c] - std::log(sum));
    }
  }
  return loss / static_cast<double>(labels.size());
}

}  // namespace millrace::cpu::test
