// Sums of gradients over two devices, by every communicator that supports them.
#include <algorithm>

#include "agreement.h"
#include "millrace/communicator.h"
#include "testkit/filled_buckets.h"
#include "testkit/losses.h"
#include "testkit/networks.h"

namespace millrace::gpu {
namespace {

constexpr std::uint32_t kBatch = 24;

// One of two replicas: the same weights, another batch.
class Side {
 public:
  Side(Device& device, const std::shared_ptr<const Network>& network, int number)
      : number_(number),
        trainee_(device, network, {.train_batch = kBatch, .bucket_bytes = 4096}, random_values(*network, 4)),
        batch_(random_batch(device, *network, kBatch, static_cast<std::uint64_t>(number))) {}

  std::size_t buckets() { return trainee_.replica().buckets().size(); }
  // Submits a step up to its gradients, without waiting for them.
  void backward() {
    trainee_.replica().ingest(batch_, 0, kBatch);
    trainee_.replica().forward(0);
    trainee_.replica().loss(testkit::cross_entropy(), 2 * kBatch, sums_);
    trainee_.replica().backward(filled_.callback());
  }
  Ref<GradientBucket> bucket(int index) {
    const Bucket& bucket = trainee_.replica().buckets()[static_cast<std::size_t>(index)];
    auto made = make_ref<GradientBucket>();
    made->replica = number_;
    made->bucket = index;
    made->buckets = static_cast<int>(buckets());
    made->data = bucket.gradients;
    made->elements = bucket.elements;
    made->ready = filled_.wait_for(index);
    return made;
  }
  Arrays gradients() {
    trainee_.replica().finish();
    return trainee_.gradients();
  }

 private:
  int number_;
  StepSums sums_;
  Trainee trainee_;
  Ref<Batch> batch_;
  FilledBuckets filled_{trainee_.replica().buckets().size()};
};

class GpuCommunicator : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    type_ = registry().communicators().find(GetParam());
    if (type_ == nullptr) GTEST_SKIP() << "no plugin brings communicator \"" << GetParam() << "\"";
    if (std::string_view(GetParam()).starts_with("nccl") && backend().name() != "cuda") {
      GTEST_SKIP() << "communicator \"" << GetParam() << "\" is for devices of backend 'cuda'";
    }
    const std::vector<DeviceInfo> present = backend().devices();
    if (present.size() < 2) GTEST_SKIP() << "two devices are needed, and there is " << present.size();
    for (int i = 0; i < 2; ++i) devices_.push_back(backend().open(present[static_cast<std::size_t>(i)].index, {}));
  }

  const CommunicatorType* type_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_P(GpuCommunicator, GivesBothDevicesTheSumAsBackwardGoesOn) {
  const auto network = testkit::network_from_file(pipelines_folder() + "/networks/quickstart.toml");
  Side first(*devices_[0], network, 0), second(*devices_[1], network, 1);
  Arrays expected[2];
  for (Side* side : {&first, &second}) {
    side->backward();
    expected[side == &second] = side->gradients();
  }
  for (std::size_t p = 0; p < expected[0].size(); ++p) {
    std::transform(expected[0][p].begin(), expected[0][p].end(), expected[1][p].begin(), expected[0][p].begin(), std::plus<>());
  }
  Device* const devices[] = {devices_[0].get(), devices_[1].get()};
  const auto communicator = type_->create({.devices = devices});
  std::vector<Ref<Event>> summed;
  Side again_first(*devices_[0], network, 0), again_second(*devices_[1], network, 1);
  again_first.backward();
  again_second.backward();
  ASSERT_GT(again_first.buckets(), 1U);
  for (int b = 0; b < static_cast<int>(again_first.buckets()); ++b) {
    const Ref<GradientBucket> both[] = {again_first.bucket(b), again_second.bucket(b)};
    communicator->all_reduce(both);
    for (const Ref<GradientBucket>& bucket : both) summed.push_back(bucket->ready);
  }
  for (const Ref<Event>& event : summed) event->wait();
  communicator->check();
  const Arrays found = again_first.gradients();
  EXPECT_EQ(found, again_second.gradients()) << "the same bits on both";
  const bool rounds = std::string_view(GetParam()) == "nccl_bf16";  // gradients, and their sum: by 2^-9 each
  EXPECT_LT(relative_difference(found, expected[0]), rounds ? 0x1p-7 : 1e-6);
}

INSTANTIATE_TEST_SUITE_P(By, GpuCommunicator, testing::Values("nccl", "nccl_bf16", "local"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace millrace::gpu
