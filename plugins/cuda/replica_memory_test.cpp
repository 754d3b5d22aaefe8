// A device that is too small.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend.h"
#include "millrace/error.h"
#include "simulation/simulated_machine.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

constexpr const char* kNetwork = R"(
input = { channels = 3, height = 8, width = 8 }
layers = [
  { name = "conv", op = "conv", out = 12, kernel = 3, padding = 1 }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { name = "fc", op = "linear", out = 5 },
])";

TEST(Replica, SaysWhatIsPlannedUsedAndFreeAndWhatWouldFit) {
  const auto network = testkit::network_from_text(kNetwork);
  const auto machine = std::make_shared<SimulatedMachine>(SimulationOptions{.memory = std::size_t{1} << 20});
  CudaDevice device(machine);
  const auto message = [&](std::uint32_t batch) {
    CompileOptions options;
    options.train_batch = batch;
    const auto replica = device.compile(*network, options);
    try {
      replica->start();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string said = message(2000);
  for (const char* words : {"For batches of 2000, ", " are planned; of the 1.0 MiB there, 0.0 MiB are used and 1.0 MiB free: batches of about "}) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
  const std::string about = "batches of about ";
  const int fits = std::atoi(said.c_str() + said.find(about) + about.size());
  EXPECT_GT(fits, 5);
  EXPECT_EQ(message(static_cast<std::uint32_t>(fits * 9 / 10)), "") << "what is said to fit does not";
  EXPECT_NE(message(static_cast<std::uint32_t>(fits * 3 / 2)), "");
}

}  // namespace
}  // namespace millrace::cuda
