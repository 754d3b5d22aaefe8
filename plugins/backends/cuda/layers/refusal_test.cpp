// The error for a network that cannot be computed: the layer, once, and its place in the file.
#include <gtest/gtest.h>

#include "millrace/error.h"
#include "runtime/backend.h"
#include "simulation/simulated_machine.h"
#include "testkit/messages.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

// A library without an engine for convolutions; cuDNN has none for some.
class WithoutConvolutions final : public SimulatedMachine {
 public:
  std::shared_ptr<const LibraryPlan> plan(const ConvolutionShape&, const PlanChoice&) override {
    fail(ErrorKind::usage, "there is no engine for it");
  }
};

std::string refusal(std::shared_ptr<Machine> machine, const std::string& network) {
  CompileOptions options;
  options.train_batch = 2;
  try {
    CudaDevice(std::move(machine)).compile(*testkit::network_from_text(network), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Refusal, NamesTheLayerAndItsPlace) {
  EXPECT_MESSAGE(refusal(std::make_shared<WithoutConvolutions>(), R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { op = "relu" },
  { name = "stem", op = "conv", out = 4, kernel = 3 }, { op = "linear", out = 5 } ])"));
}

}  // namespace
}  // namespace millrace::cuda
