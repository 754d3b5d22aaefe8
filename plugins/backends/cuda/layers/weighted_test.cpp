// The library plans that layers request.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "runtime/backend.h"
#include "simulation/simulated_machine.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

class Listener final : public SimulatedMachine {
 public:
  using SimulatedMachine::plan;
  std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape& shape, const PlanChoice& how) override {
    shapes.push_back(shape);
    return SimulatedMachine::plan(shape, how);
  }
  std::vector<ConvolutionShape> shapes;
};

// From 12 channels of 8 x 8 to 5 channels of 17 x 17: the library computes the convolution from the latter to the former.
TEST(TransposedConvolution, IsTheDataGradientOfItsMirror) {
  const auto machine = std::make_shared<Listener>();
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { op = "conv", out = 12, kernel = 1 }, { op = "transposed_conv", out = 5, kernel = [2, 3], stride = 2, output_padding = [1, 0] },
  { op = "relu" }, { op = "linear", out = 5 } ])");
  CompileOptions options;
  options.train_batch = 2;
  CudaDevice(machine).compile(*network, options);
  std::set<Kind> kinds;
  for (const ConvolutionShape& shape : machine->shapes) {
    if (shape.kernel_w != 3) continue;
    kinds.insert(shape.kind);
    EXPECT_EQ((std::vector{shape.c, shape.h, shape.w}), (std::vector<std::int64_t>{5, 17, 17}));
    EXPECT_EQ((std::vector{shape.k, shape.out_h, shape.out_w}), (std::vector<std::int64_t>{12, 8, 8}));
    EXPECT_FALSE(shape.bias);
    EXPECT_EQ(shape.activation, Activation::none);
  }
  EXPECT_EQ(kinds, (std::set{Kind::forward, Kind::data_gradient, Kind::weight_gradient}));
  EXPECT_EQ(machine->shapes.at(1).kind, Kind::data_gradient) << "forward is planned first";
}

}  // namespace
}  // namespace millrace::cuda
