// Devices that make_nccl_communicator() refuses before it loads NCCL, and the library that it loads.
#include <gtest/gtest.h>

#include <cstdlib>

#include "communicator.h"
#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

class NamedDevice final : public Device {
 public:
  NamedDevice(std::string backend, int index) {
    info_.backend = std::move(backend);
    info_.index = index;
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string&) override { return nullptr; }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t) override { return nullptr; }
  std::shared_ptr<std::byte> memory(std::size_t, const std::string&) override { return nullptr; }
  std::unique_ptr<Replica> compile(const Network&, const CompileOptions&) override { return nullptr; }

 private:
  DeviceInfo info_;
};

std::string refusal(std::vector<NamedDevice> devices, NcclWire wire = NcclWire::fp32) {
  std::vector<Device*> pointers;
  for (NamedDevice& device : devices) pointers.push_back(&device);
  try {
    make_nccl_communicator({.devices = pointers}, wire);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(MakeNcclCommunicator, RefusesTwoReplicasOnOneDevice) { EXPECT_MESSAGE(refusal({{"cuda", 0}, {"cuda", 1}, {"cuda", 0}})); }

TEST(MakeNcclCommunicator, RefusesOtherDevices) {
  EXPECT_MESSAGE(refusal({{"cuda", 0}, {"cpu", 0}}));
  EXPECT_MESSAGE(refusal({{"cpu", 0}, {"cpu", 0}}, NcclWire::bf16));
}

TEST(MakeNcclCommunicator, HasNothingToDoForOneDevice) {
  NamedDevice device("cuda", 0);
  Device* pointer = &device;
  const auto communicator = make_nccl_communicator({.devices = {&pointer, 1}}, NcclWire::fp32);
  const Ref<GradientBucket> bucket = make_ref<GradientBucket>();
  communicator->all_reduce({&bucket, 1});
  EXPECT_FALSE(bucket->ready);
}

TEST(LoadNccl, FindsEveryFunction) {
  NcclApi api;
  try {
    api = load_nccl();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_STREQ(api.error_string(ncclSuccess), "no error");
}

TEST(NcclEnvironment, ExcludesSumsInTheSwitchesWhereTheUserHasNotChosen) {
  const char* const before = std::getenv("NCCL_ALGO");
  const std::string restored = before == nullptr ? "" : before;
  unsetenv("NCCL_ALGO");
  set_nccl_environment();
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "^NVLS,NVLSTree");
  setenv("NCCL_ALGO", "Ring", 1);
  set_nccl_environment();
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
  restored.empty() ? unsetenv("NCCL_ALGO") : setenv("NCCL_ALGO", restored.c_str(), 1);
}

}  // namespace
}  // namespace millrace::cuda
