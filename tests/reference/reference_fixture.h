// Networks around one layer or loss whose inputs, and the incoming gradient, are known exactly, for comparisons with
// tests/reference/*.json.
//
// An image of sample n is black except one value of 1. A conv whose kernel is as large as the image, or a linear layer, stands
// between the image and each input: each of its weights is one element of the input, and that weight's gradient is the gradient
// of this element. Everything else that is added is 0.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/plugin.h"
#include "testkit/harness.h"

namespace millrace::reference {

using Json = nlohmann::json;

inline constexpr const char* kReferenceBackends[] = {"cpu", "simulated"};

// Every plugin of the search path, and the simulated GPU.
const Registry& with_simulation();
inline std::string by_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

Json read_reference(const std::string& file);
std::vector<float> tensor_of(const Json& recipe);  // the formula of tests/reference/README.md

// The error of values relative to a summary: the largest of the relative differences of samples, norm and sum.
double reference_error(const std::vector<float>& values, const Json& summary);
// The allowed error: three times PyTorch's own float32 error, and at least kRounding, since PyTorch may be exact by chance.
inline constexpr double kTimesPyTorch = 3, kRounding = 0x1p-24;
double reference_bound(const Json& summary);

// The layer that makes an input of this shape, (C, H, W) or (C), from images of `image`. REQUIRES: maps are no larger than the
// image.
class ExactInput {
 public:
  static constexpr std::int32_t kChannels = 3;

  ExactInput(std::string name, const Json& recipe, const ImageShape& image);
  std::string text() const;                                                     // for a network's list of layers
  void write(const Network& network, Replica& replica) const;                   // the recipe's values
  std::vector<float> gradient(const Network& network, Replica& replica) const;  // in the input's shape: (N, C, H, W) or (N, C)
  const std::string& name() const { return name_; }

 private:
  int weight(const Network& network) const { return network.find_parameter(name_ + ".weight"); }
  void each(const std::function<void(std::size_t element, std::size_t weight)>& use) const;

  const std::string name_;
  const std::vector<float> values_;
  const std::vector<std::int64_t> shape_;  // with the batch in front
  const ImageShape image_;
};

// As large as the largest maps among these shapes (which begin with the batch); without maps, one element per sample.
ImageShape exact_image(const std::vector<std::vector<std::int64_t>>& shapes);
std::string exact_network(const ImageShape& image, const std::string& layers);
Ref<Batch> exact_batch(std::uint32_t samples, const ImageShape& image);

struct CompiledNetwork {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<Device> device;
  std::unique_ptr<Replica> replica;
};
CompiledNetwork compile_exact(const char* backend, const Network& network, std::uint32_t samples,
                              const std::shared_ptr<const Loss>& loss);

}  // namespace millrace::reference
