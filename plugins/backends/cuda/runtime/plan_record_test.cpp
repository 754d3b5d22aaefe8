#include "plan_record.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend.h"
#include "simulation/simulated_machine.h"
#include "testkit/gradient_check.h"
#include "testkit/harness.h"
#include "testkit/losses.h"
#include "testkit/messages.h"
#include "testkit/networks.h"

namespace millrace::cuda {
namespace {

class PlanRecordTest : public testing::Test {
 protected:
  std::unique_ptr<PlanRecord> record(const std::string& saved, const std::string& device = "H100",
                                     const std::string& cudnn = "91900") {
    auto made = std::make_unique<PlanRecord>(saved, [this](std::string_view text) { warnings_.emplace_back(text); });
    made->here("device", device);
    made->library("cuDNN", cudnn);
    made->library("cuBLASLt", "13");
    return made;
  }
  std::string saved() {
    const auto made = record("");
    made->put("cuDNN", "conv 3x3", "engine 62\n{}");
    made->put("cuBLASLt", "10 x 20", "bare 1f");
    return made->text();
  }

  std::vector<std::string> warnings_;
};

TEST_F(PlanRecordTest, GivesBackWhatWasSaved) {
  const auto again = record(saved());
  EXPECT_EQ(again->find("cuDNN", "conv 3x3"), "engine 62\n{}");
  EXPECT_EQ(again->find("cuBLASLt", "10 x 20"), "bare 1f");
  EXPECT_EQ(again->find("cuDNN", "10 x 20"), std::nullopt);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(again->text(), "") << "nothing was used yet";
}

TEST_F(PlanRecordTest, AnotherDeviceChoosesAnew) {
  const auto other = record(saved(), "A100");
  EXPECT_EQ(other->find("cuDNN", "conv 3x3"), std::nullopt);
  EXPECT_EQ(other->find("cuBLASLt", "10 x 20"), std::nullopt);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_MESSAGE(warnings_[0]);
}

TEST_F(PlanRecordTest, AnotherVersionChoosesAnewForItsLibraryAlone) {
  const auto other = record(saved(), "H100", "92000");
  EXPECT_EQ(other->find("cuDNN", "conv 3x3"), std::nullopt);
  EXPECT_EQ(other->find("cuBLASLt", "10 x 20"), "bare 1f");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_MESSAGE(warnings_[0]);
}

TEST_F(PlanRecordTest, DamageAndRefusalsAreNamed) {
  EXPECT_EQ(record(saved().substr(3))->find("cuDNN", "conv 3x3"), std::nullopt);
  record(saved())->refused("cuDNN", "conv 3x3");
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_MESSAGE(warnings_[0]);
  EXPECT_MESSAGE(warnings_[1]);
}

TEST_F(PlanRecordTest, NoDamageIsRead) {
  const std::string whole = saved();
  for (std::size_t end = 0; end < whole.size(); ++end) {  // cut at an entry's end it is a smaller valid record
    EXPECT_EQ(record(whole.substr(0, end))->find("cuDNN", "conv 3x3").value_or("engine 62\n{}"), "engine 62\n{}") << end;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(record(changed)->find("cuDNN", "conv 3x3"), std::nullopt) << i;
  }
}

// Weights files contain it.
TEST_F(PlanRecordTest, KeepsTheFormatOfSavedWeights) {
  EXPECT_EQ(saved(),
            "millrace plans 1\n"
            "17 7 eeebd59ce193052d\ncuBLASLt: 10 x 20bare 1f\n"
            "15 12 951e79f40ec8c087\ncuDNN: conv 3x3engine 62\n{}\n"
            "14 2 f19cc713be6da28f\nhere: cuBLASLt13\n"
            "11 5 6e4d26c33c203088\nhere: cuDNN91900\n"
            "12 4 7a6e23d742ee6a74\nhere: deviceH100\n");
}

TEST_F(PlanRecordTest, LeavesOutWhatIsNoText) {
  const auto made = record("");
  made->put("cuDNN", "conv", "\xff");
  EXPECT_EQ(made->text(), "");
}

// A replica that starts from another's choices makes the same ones, and saves them again.
TEST(SavedPlans, AReplicaComputesAsTheOneThatSavedThem) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 6, width = 6 }
layers = [ { op = "conv", out = 8, kernel = 3 }, { op = "relu" }, { op = "linear", out = 5 } ])");
  const auto plans = [&](const std::string& engine, const std::string& name, const std::string& saved) {
    const auto machine = std::make_shared<SimulatedMachine>(SimulationOptions{.name = name, .engine = engine});
    CompileOptions options;
    options.train_batch = 2;
    options.plans = saved;
    std::string text = CudaDevice(machine).compile(*network, options)->plans();
    return std::pair(text, machine->warnings());
  };
  const auto first = plans("left to right", "A", ""), other = plans("right to left", "A", "");
  EXPECT_NE(first.first, "");
  EXPECT_NE(first.first, other.first);
  const auto resumed = plans("right to left", "A", first.first);
  EXPECT_EQ(resumed.first, first.first);
  EXPECT_TRUE(resumed.second.empty());
  const auto moved = plans("right to left", "B", first.first);
  EXPECT_NE(moved.first, first.first);
  EXPECT_EQ(moved.second.size(), 1U);
}

// Later choices of a replica, such as for a partial batch, use its own options, even if another replica was compiled since.
TEST(SavedPlans, TwoReplicasOnOneMachineChooseByTheirOwnOptions) {
  const auto network = testkit::network_from_text(R"(
input = { channels = 3, height = 6, width = 6 }
layers = [ { op = "conv", out = 8, kernel = 3 }, { op = "relu" }, { op = "linear", out = 5 } ])");
  CudaDevice device(std::make_shared<SimulatedMachine>());
  CompileOptions options;
  options.infer_batch = 4;
  const auto first = device.compile(*network, options);
  options.deterministic = false;
  const auto second = device.compile(*network, options);
  first->start();
  StepSums sums;
  const Ref<Batch> batch = testkit::make_batch(2, network->input);
  testkit::fill_at_random(*batch, 5, 1);
  first->infer(batch, 0, 2, {}, testkit::cross_entropy(), sums);
  first->finish();
  EXPECT_NE(first->plans().find("(2 3 6 6)"), std::string::npos) << first->plans();
  EXPECT_EQ(second->plans().find("(2 3 6 6)"), std::string::npos) << second->plans();
}

}  // namespace
}  // namespace millrace::cuda
