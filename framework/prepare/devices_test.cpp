#include "prepare/devices.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <numeric>
#include <thread>

#include "ranks/socket_group.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Cores = std::vector<int>;
using Choice = DeviceRequest::Choice;

TEST(Devices, AreParsedFromOneText) {
  EXPECT_EQ(parse_devices("auto").backend, "auto");
  EXPECT_EQ(parse_devices("all").backend, "all");
  EXPECT_EQ(parse_devices("cuda:MIG-8f6d").choices, (std::vector<Choice>{{0, "MIG-8f6d"}}));
  EXPECT_TRUE(parse_devices("cpu").choices.empty());
  EXPECT_TRUE(parse_devices("gpu").choices.empty());
  for (const char* text : {"0,2", "gpu:0,2"}) {
    EXPECT_EQ(parse_devices(text).backend, "gpu");
    EXPECT_EQ(parse_devices(text).choices, (std::vector<Choice>{{0, ""}, {2, ""}})) << text;
  }
  EXPECT_EQ(parse_devices("cpu*2").choices, (std::vector<Choice>{{}, {}}));
  const DeviceRequest cuda = parse_devices("cuda:0,2,GPU-8f6d");
  EXPECT_EQ(cuda.backend, "cuda");
  EXPECT_EQ(cuda.choices, (std::vector<Choice>{{0, ""}, {2, ""}, {0, "GPU-8f6d"}}));
  for (const char* every : {"cuda", "cuda:all"}) EXPECT_TRUE(parse_devices(every).choices.empty()) << every;
}

TEST(Devices, RefuseWhatTheyCannotRead) {
  for (const char* text : {"",        ":0",       "cpu*",    "cpu*0",   "cpu*x",      "cpu*all",    "cuda:",
                           "cuda:0,", "cuda:0,0", "cuda:-1", "cuda:1x", "cuda:0,all", "cuda:all,0", "cuda:GPU-1,GPU-1",
                           "all:0",   "all*2",    "0,",      "0,0",     "0:1",        "1*2"}) {
    EXPECT_THROW(parse_devices(text), Error) << text;
  }
}

class DevicesOf : public testing::Test {
 protected:
  DevicesOf() {
    for (const auto& [index, uuid] : {std::pair(0, "GPU-8f6d11"), std::pair(1, "GPU-8f6d22"), std::pair(3, "GPU-ab0333")}) {
      DeviceInfo info;
      info.backend = "cuda";
      info.index = index;
      info.uuid = uuid;
      present_.push_back(info);
    }
  }
  std::vector<int> resolve(std::string_view text) { return resolve_devices(parse_devices(text), present_, text); }
  std::string refusal(std::string_view text) {
    try {
      resolve(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  }
  std::vector<DeviceInfo> present_;
};

TEST_F(DevicesOf, AMachineAreChosenByNumberByTheBeginningOfAUuidOrAll) {
  EXPECT_EQ(resolve("cuda:3,0"), (std::vector<int>{3, 0}));
  EXPECT_EQ(resolve("cuda:all"), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(resolve("cuda"), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(resolve("cuda*2"), (std::vector<int>{0, 0}));
  EXPECT_EQ(resolve("cuda:GPU-a,0,GPU-8f6d2"), (std::vector<int>{3, 0, 1}));
  EXPECT_EQ(resolve("cuda:GPU-8f6d11"), (std::vector<int>{0}));
}

TEST_F(DevicesOf, AMachineThatAreNotThereAreNamed) {
  EXPECT_EQ(refusal("cuda:2"), "devices = \"cuda:2\": cuda:2 does not exist; this machine has 3 of them, numbered from 0");
  EXPECT_EQ(refusal("cuda:GPU-7"),
            "devices = \"cuda:GPU-7\": no device of backend 'cuda' has a UUID that begins with 'GPU-7'; "
            "there are cuda:0 GPU-8f6d11, cuda:1 GPU-8f6d22, cuda:3 GPU-ab0333");
  for (DeviceInfo& device : present_) device.uuid.clear();
  EXPECT_EQ(refusal("cuda:GPU-7"),
            "devices = \"cuda:GPU-7\": no device of backend 'cuda' has a UUID that begins with 'GPU-7'; "
            "they have none, choose by number");
}

TEST_F(DevicesOf, AMachineCannotBeMeantByHalfAUuidOfTwo) {
  EXPECT_EQ(refusal("cuda:GPU-8f"),
            "devices = \"cuda:GPU-8f\": 'GPU-8f' is the beginning of several UUIDs: cuda:0 GPU-8f6d11, cuda:1 GPU-8f6d22; "
            "write more of it");
}

TEST_F(DevicesOf, AMachineAreNotTakenTwice) {
  EXPECT_EQ(refusal("cuda:0,GPU-8f6d1"), "devices = \"cuda:0,GPU-8f6d1\" names cuda:0 twice");
  EXPECT_EQ(refusal("cuda:GPU-8f6d1,0"), "devices = \"cuda:GPU-8f6d1,0\" names cuda:0 twice");
  EXPECT_EQ(refusal("cuda:GPU-ab,GPU-ab03"), "devices = \"cuda:GPU-ab,GPU-ab03\" names cuda:3 twice");
}

class NoDevices : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices() override { return {}; }
  std::string unavailable_reason() override { return "no NVIDIA driver was found"; }
  std::unique_ptr<Device> open(int, const DeviceOptions&) override { return nullptr; }
};

ErrorKind kind_of_refusal(std::string_view text, const Registry& registry, std::string& what) {
  try {
    open_devices(text, {}, registry);
  } catch (const Error& error) {
    what = error.what();
    return error.kind();
  }
  return ErrorKind::run;
}

TEST(OpenDevices, SaysWhyABackendHasNoDevice) {
  Registry registry;
  registry.add(BackendType{{"cuda"}, [] { return std::make_shared<NoDevices>(); }});
  std::string what;
  for (const std::string text : {"cuda", "cuda:1", "cuda:GPU-8f"}) {
    EXPECT_EQ(kind_of_refusal(text, registry, what), ErrorKind::device) << text;
    EXPECT_EQ(what, "devices = \"" + text + "\": backend 'cuda' has no usable device: no NVIDIA driver was found");
  }
  // Independent of this machine's devices: no plugin has the requested backend.
  EXPECT_EQ(kind_of_refusal("cudda", registry, what), ErrorKind::usage);
  EXPECT_MESSAGE(what);
  EXPECT_EQ(kind_of_refusal("auto", registry, what), ErrorKind::usage) << "only a CPU could stand in";
}

class SomeDevice : public Device {
 public:
  explicit SomeDevice(DeviceInfo info) : info_(std::move(info)) {}
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string&) override { return nullptr; }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t) override { return nullptr; }
  std::shared_ptr<std::byte> memory(std::size_t, const std::string&) override { return nullptr; }
  std::unique_ptr<Replica> compile(const Network&, const CompileOptions&) override { return nullptr; }

 private:
  DeviceInfo info_;
};

class TwoDevices : public Backend {
 public:
  explicit TwoDevices(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<DeviceInfo> devices() override { return {info(0), info(1)}; }
  std::unique_ptr<Device> open(int index, const DeviceOptions&) override { return std::make_unique<SomeDevice>(info(index)); }

 private:
  DeviceInfo info(int index) const {
    DeviceInfo made;
    made.backend = name_;
    made.index = index;
    return made;
  }
  std::string name_;
};

void add_backend(Registry& registry, const std::string& name) {
  registry.add(BackendType{{name}, [name] { return std::make_shared<TwoDevices>(name); }});
}

TEST(OpenDevices, AllAndGpuMeanEveryGpuAndNumbersMeanSome) {
  Registry registry;
  std::string what;
  for (const std::string text : {"all", "gpu", "0,1"}) {
    EXPECT_EQ(kind_of_refusal(text, registry, what), ErrorKind::device);
    EXPECT_EQ(what.find("devices = \"" + text +
                        "\": no GPU found: no plugin with a backend for GPUs was found; "
                        "backend 'cuda' is built where "),
              0U)
        << what;
  }
  registry.add(BackendType{{"cuda"}, [] { return std::make_shared<NoDevices>(); }});
  add_backend(registry, "cpu");
  EXPECT_EQ(kind_of_refusal("gpu", registry, what), ErrorKind::device);
  EXPECT_EQ(what, "devices = \"gpu\": no GPU found: backend 'cuda': no NVIDIA driver was found");
  add_backend(registry, "rocm");
  for (const char* text : {"all", "gpu", "0,1"}) {
    const OpenDevices open = open_devices(text, {}, registry);
    ASSERT_EQ(open.devices.size(), 2U) << text;
    EXPECT_EQ(open.devices[1]->info().backend, "rocm");
    EXPECT_EQ(open.devices[1]->info().index, 1);
  }
  EXPECT_EQ(open_devices("1", {}, registry).devices.size(), 1U);
  EXPECT_EQ(kind_of_refusal("2", registry, what), ErrorKind::usage);
  add_backend(registry, "sycl");
  EXPECT_EQ(kind_of_refusal("all", registry, what), ErrorKind::usage);
  EXPECT_EQ(what, "devices = \"all\": a run uses devices of one backend, and there are rocm and sycl; write one of these names");
}

TEST(OpenDevices, SaysHowToGetABackendThatWasNotBuilt) {
  Registry registry;
  add_backend(registry, "cpu");
  std::string what;
  EXPECT_EQ(kind_of_refusal("cuda", registry, what), ErrorKind::usage);
  EXPECT_MESSAGE(what);
}

// Slurm may put each task into a control group, where its one device is number 0.
TEST(HostShare, IsOfTasksThatSeeTheSameDevicesWhateverTheyCallThem) {
  for (const bool same : {true, false}) {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    std::array<HostShare, 2> shares;
    const auto join = [&](std::size_t rank) {
      SocketGroup group({.rank = static_cast<int>(rank),
                         .sockets = rank == 0 ? std::vector{-1, pair[0]} : std::vector{pair[1], -1},
                         .hosts = {"a", "a"}});
      DeviceInfo device;
      device.uuid = same || rank == 0 ? "GPU-1" : "GPU-2";
      shares[rank] = share_of_host(&group, {device});
      group.barrier(Group::kRun);
    };
    std::thread other(join, 1);
    join(0);
    other.join();
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
      EXPECT_EQ(shares[rank].ranks, same ? (std::vector<std::size_t>{0, 1}) : std::vector<std::size_t>{rank});
      EXPECT_EQ(shares[rank].place, same ? rank : 0);
      EXPECT_EQ(shares[rank].processes, 2U) << "they share the memory";
    }
  }
}

TEST(Cores, AreSharedWithTheDataStagesWhereTheyAreFew) {
  const CoreShares one = share_cores({0, 1}, 1, {}, true);
  EXPECT_EQ(one.replicas[0], (Cores{0, 1}));
  EXPECT_TRUE(one.data.empty());
  const CoreShares two = share_cores({0, 1}, 2, {}, true);
  EXPECT_EQ(two.replicas[0], Cores{0});
  EXPECT_EQ(two.replicas[1], Cores{1});
}

TEST(Cores, AreDisjointAndLeaveAnEighthToTheDataStages) {
  Cores all(16);
  for (int i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
  const CoreShares shares = share_cores(all, 3, {1, 1, 0.5}, true);
  EXPECT_EQ(shares.data, (Cores{14, 15}));
  EXPECT_EQ(shares.replicas[0].size() + shares.replicas[1].size() + shares.replicas[2].size(), 14U);
  EXPECT_EQ(shares.replicas[0].front(), 0);
  EXPECT_EQ(shares.replicas[2].back(), 13);
  EXPECT_LT(shares.replicas[2].size(), shares.replicas[0].size());
  EXPECT_EQ(cores_of_data(shares, 2), (Cores{14, 15}));
  EXPECT_EQ(cores_of_data(shares, 3), Cores{}) << "more threads than cores that are kept run anywhere";
}

TEST(Cores, AreAllLeftToTheDataStagesByDevicesOfTheirOwn) {
  Cores all(16);
  std::iota(all.begin(), all.end(), 0);
  const CoreShares shares = share_cores(all, 2, {}, false);
  EXPECT_EQ(shares.data, Cores{});
  EXPECT_EQ(shares.replicas[0].size() + shares.replicas[1].size(), 16U);
}

TEST(Cores, OfDataStagesAreDividedAmongTheProcessesOfAMachine) {
  const HostShare alone, second{.place = 1, .ranks = {4, 5, 6}, .has_own_cores = false, .processes = 3};
  EXPECT_EQ(share_of_data({14, 15}, 16, alone, true).cores, (Cores{14, 15}));
  EXPECT_EQ(share_of_data({14, 15}, 16, alone, true).threads, 2U);
  EXPECT_EQ(share_of_data({10, 11, 12, 13, 14, 15}, 48, second, true).cores, (Cores{12, 13}));
  EXPECT_EQ(share_of_data({14, 15}, 16, second, true).cores, Cores{14}) << "fewer cores than processes";
  EXPECT_EQ(share_of_data({}, 4, second, true).threads, 4U);
  EXPECT_EQ(share_of_data({}, 16, alone, false).threads, 16U) << "a GPU leaves all to them";
  EXPECT_EQ(share_of_data({}, 16, second, false).threads, 5U);
  EXPECT_EQ(share_of_data({}, 2, second, false).threads, 1U);
  const HostShare bound{.place = 1, .ranks = {4, 5, 6}, .has_own_cores = true, .processes = 3};
  EXPECT_EQ(share_of_data({}, 16, bound, false).threads, 16U) << "they were divided before";
}

TEST(Cores, EveryReplicaHasOneEvenWhenTheyAreTooFew) {
  const CoreShares shares = share_cores({4, 5}, 3, {}, true);
  EXPECT_EQ(shares.replicas[2], Cores{4});
  const CoreShares idle = share_cores({0, 1, 2}, 3, {1, 0, 1}, true);
  EXPECT_EQ(idle.replicas[0].size() + idle.replicas[2].size(), 3U) << "one without a share takes none from the others";
  EXPECT_EQ(idle.replicas[1].size(), 1U);
  const CoreShares uneven = share_cores({0, 1, 2}, 2, {1, 0.001}, true);
  EXPECT_EQ(uneven.replicas[0], (Cores{0, 1}));
  EXPECT_EQ(uneven.replicas[1], Cores{2});
}

}  // namespace
}  // namespace millrace
