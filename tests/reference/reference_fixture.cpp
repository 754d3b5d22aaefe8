#include "reference_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/util/load_plugins.h"
#include "testkit/reference_value.h"

namespace millrace::reference {

const Registry& with_simulation() {
  static const Registry loaded = [] {
    Registry made;
    load_all_plugins(made);
    load_plugin(made, MILLRACE_BINARY_DIR "/tests/simulated/simulated.so");
    return made;
  }();
  return loaded;
}

Json read_reference(const std::string& file) {
  return Json::parse(std::ifstream(std::string(MILLRACE_SOURCE_DIR) + "/tests/reference/" + file));
}

std::vector<float> tensor_of(const Json& recipe) {
  std::size_t size = 1;
  for (const Json& extent : recipe["shape"]) size *= extent.get<std::size_t>();
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = testkit::reference_value(static_cast<std::uint32_t>(i), recipe["phase"], recipe["scale"], recipe["offset"]);
  }
  return values;
}

double reference_error(const std::vector<float>& values, const Json& summary) {
  double squares = 0, sum = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
    sum += static_cast<double>(value);
  }
  const double l2 = summary["l2"];
  const double of_norm = std::abs(std::sqrt(squares) - l2) / l2;
  const double of_sum = std::abs(sum - summary["sum"].get<double>()) / (l2 * std::sqrt(static_cast<double>(values.size())));
  const auto samples = summary["samples"].get<std::vector<double>>();
  const auto stride = summary["stride"].get<std::size_t>();
  double far = 0, norm = 0;
  for (std::size_t j = 0; j < samples.size(); ++j) {
    far += std::pow(static_cast<double>(values.at(j * stride)) - samples[j], 2);
    norm += std::pow(samples[j], 2);
  }
  return std::max({of_norm, of_sum, std::sqrt(far / norm)});
}

double reference_bound(const Json& summary) {
  return std::max(kTimesPyTorch * summary["float64_difference"].get<double>(), kRounding);
}

ExactInput::ExactInput(std::string name, const Json& recipe, const ImageShape& image)
    : name_(std::move(name)),
      values_(tensor_of(recipe)),
      shape_(recipe["shape"].get<std::vector<std::int64_t>>()),
      image_(image) {}

std::string ExactInput::text() const {
  if (shape_.size() == 2) {
    return fmt::format("{{ name = \"{}\", op = \"linear\", out = {}, bias = false, from = \"@input\" }},\n", name_, shape_[1]);
  }
  return fmt::format(
      "{{ name = \"{}\", op = \"conv\", out = {}, kernel = [{}, {}], padding = [{}, {}, 0, 0], bias = false, from = \"@input\" "
      "}},\n",
      name_, shape_[1], image_.height, image_.width, shape_[2] - 1, shape_[3] - 1);
}

// Sample n's only value is in channel n % kChannels of pixel n / kChannels: pixel 0 for maps, so that place (h, w) of the output
// sees it through the weight of row height - 1 - h and column width - 1 - w. The kernel is as large as the image, so that with
// this padding it can also produce a smaller map.
void ExactInput::each(const std::function<void(std::size_t element, std::size_t weight)>& use) const {
  const std::int64_t height = shape_.size() == 2 ? 1 : shape_[2], width = shape_.size() == 2 ? 1 : shape_[3];
  const std::int64_t pixels = std::int64_t{image_.height} * image_.width;
  std::size_t element = 0;
  for (std::int64_t n = 0; n < shape_[0]; ++n) {
    for (std::int64_t c = 0; c < shape_[1]; ++c) {
      for (std::int64_t place = 0; place < height * width; ++place) {
        const std::int64_t row = height - 1 - place / width, column = width - 1 - place % width;
        const std::int64_t pixel = shape_.size() == 2 ? n / kChannels : row * image_.width + column;
        use(element++, static_cast<std::size_t>((c * kChannels + n % kChannels) * pixels + pixel));
      }
    }
  }
}

void ExactInput::write(const Network& network, Replica& replica) const {
  const std::int64_t size = network.parameters[static_cast<std::size_t>(weight(network))].shape.elements();
  std::vector<float> weights(static_cast<std::size_t>(size));
  each([&](std::size_t element, std::size_t at) { weights[at] = values_[element]; });
  replica.write(kValue, weight(network), weights);
}

std::vector<float> ExactInput::gradient(const Network& network, Replica& replica) const {
  const std::vector<float> of_weights = replica.read(kGradient, weight(network));
  std::vector<float> gradient(values_.size());
  each([&](std::size_t element, std::size_t at) { gradient[element] = of_weights[at]; });
  return gradient;
}

ImageShape exact_image(const std::vector<std::vector<std::int64_t>>& shapes) {
  ImageShape image{0, 0, ExactInput::kChannels};
  for (const std::vector<std::int64_t>& shape : shapes) {
    if (shape.size() != 4) continue;
    image.height = std::max(image.height, static_cast<std::int32_t>(shape[2]));
    image.width = std::max(image.width, static_cast<std::int32_t>(shape[3]));
  }
  if (image.height > 0) return image;
  const auto samples = static_cast<std::int32_t>(shapes.front().front());
  return {2, (samples + 2 * ExactInput::kChannels - 1) / (2 * ExactInput::kChannels), ExactInput::kChannels};
}

std::string exact_network(const ImageShape& image, const std::string& layers) {
  return fmt::format(
      "input = {{ channels = {}, height = {}, width = {}, mean = [0, 0, 0], deviation = [1, 1, 1] }}\nlayers = [\n{}]\n",
      image.channels, image.height, image.width, layers);
}

Ref<Batch> exact_batch(std::uint32_t samples, const ImageShape& image) {
  Ref<Batch> batch = testkit::make_batch(samples, image);
  std::uint8_t* const pixels = batch->change_pixels();
  std::fill_n(pixels, samples * image.bytes(), std::uint8_t{0});
  for (std::uint32_t n = 0; n < samples; ++n) pixels[n * image.bytes() + n] = 255;  // (H, W, C): channel and pixel of each()
  return batch;
}

CompiledNetwork compile_exact(const char* backend, const Network& network, std::uint32_t samples,
                              const std::shared_ptr<const Loss>& loss) {
  CompiledNetwork made;
  made.backend = with_simulation().backends().find(backend)->create();
  made.device = made.backend->open(0, {});
  CompileOptions options;
  options.train_batch = options.infer_batch = samples;
  options.request.losses = {loss};
  made.replica = made.device->compile(network, options);
  made.replica->start();
  return made;
}

}  // namespace millrace::reference
