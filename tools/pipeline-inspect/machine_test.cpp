#include "machine.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "licences.h"
#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kGiB = std::size_t{1} << 30;

MachineFacts good() {
  MachineFacts facts;
  facts.cores = facts.usable_cores = 8;
  facts.memory = facts.available_memory = 16 * kGiB;
  facts.shared_memory = 8 * kGiB;
  facts.open_files = 4096;
  facts.disks = {{"runs", "/home/ada/runs", "ext4", 100 * kGiB, true},
                 {"cache", "/home/ada/.cache/millrace", "ext4", 100 * kGiB, true}};
  return facts;
}

// The sentences joined, so that none is overlooked.
std::string advice(const MachineFacts& facts) { return fmt::format("{}", fmt::join(advise(facts), "\n")); }

TEST(Machine, NeedsNothingIfAllIsWell) { EXPECT_EQ(advice(good()), ""); }

TEST(Machine, NamesARemedyForEachProblem) {
  const auto expect = [](const char* words, const auto& change) {
    MachineFacts facts = good();
    change(facts);
    const std::vector<std::string> lines = advise(facts);
    ASSERT_EQ(lines.size(), 1U) << words << "\n" << advice(facts);
    EXPECT_NE(lines[0].find(words), std::string::npos) << lines[0];
  };
  expect("taskset -c 0-1", [](MachineFacts& facts) { facts.processors = 2.5; });
  expect("taskset -c 0-0", [](MachineFacts& facts) { facts.processors = 0.5; });
  expect("-cpu host", [](MachineFacts& facts) { facts.has_avx2 = false; });
  expect("unset it", [](MachineFacts& facts) { facts.onednn_limit = "ONEDNN_MAX_CPU_ISA=AVX2"; });
  expect("--memory", [](MachineFacts& facts) { facts.available_memory = kGiB; });
  expect("ulimit -v", [](MachineFacts& facts) { facts.address_space = 4 * kGiB; });
  expect("ulimit -f", [](MachineFacts& facts) { facts.file_size = kGiB; });
  expect("ulimit -n", [](MachineFacts& facts) { facts.open_files = 64; });
  expect("pids.max", [](MachineFacts& facts) { facts.tasks = 20; });
  expect("millrace-cuda", [](MachineFacts& facts) { facts.gpus = 1; });
  expect("raise the limit (docker: --cpus", [](MachineFacts& facts) { facts.processors = 2.5, facts.usable_cores = 4; });
  expect("0 of 1 NVIDIA GPUs can be used: see `cuda` above", [](MachineFacts& facts) { facts.gpus = 1, facts.has_cuda = true; });
  expect("1 of 4 NVIDIA GPUs can be used: the others are hidden",
         [](MachineFacts& facts) { facts.gpus = 4, facts.cuda_devices = 1, facts.has_cuda = true; });
  expect("--shm-size", [](MachineFacts& facts) {
    facts.gpus = facts.cuda_devices = 2, facts.has_cuda = true, facts.shared_memory = kGiB / 16;
  });
  expect("memlock",
         [](MachineFacts& facts) { facts.gpus = facts.cuda_devices = 1, facts.has_cuda = true, facts.locked_memory = 1 << 16; });
  expect("set run.folder", [](MachineFacts& facts) { facts.disks[0].is_writable = false; });
  expect("delete old runs", [](MachineFacts& facts) { facts.disks[0].free = kGiB; });
  expect("mount a volume", [](MachineFacts& facts) { facts.disks[0].kind = "overlay"; });
  expect("lost at a restart", [](MachineFacts& facts) { facts.disks[0].kind = "tmpfs"; });
  expect("set MILLRACE_CACHE", [](MachineFacts& facts) { facts.disks[1].kind = "nfs4"; });
}

class MachineFiles : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) { folder_.write(path, text); }
  testkit::TestFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(MachineFiles, GiveTheLeastShareOfProcessorsInEitherVersion) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(read_machine(root_, "runs").processors, 0);
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(read_machine(root_, "runs").processors, 1.5);
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/3f\n3:pids:/docker\n");
  write("sys/fs/cgroup/cpu/docker/3f/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/docker/3f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_machine(root_, "runs").processors, 0);
  write("sys/fs/cgroup/cpu/docker/3f/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/pids/docker/pids.max", "17\n");
  EXPECT_EQ(read_machine(root_, "runs").processors, 2);
  EXPECT_EQ(read_machine(root_, "runs").tasks, 17U);
}

TEST_F(MachineFiles, GiveTheKindOfTheInnermostFileSystem) {
  const std::string runs = root_ / "a/runs";
  write("proc/self/mountinfo", "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n21 20 0:40 / " + (root_ / "a").string() +
                                   " rw - nfs4 server:/a rw\n22 20 0:41 / " + (root_ / "ab").string() + " rw - tmpfs tmpfs rw\n");
  fs::create_directories(root_ / "a");
  const Disk disk = read_machine(root_, runs).disks.front();
  EXPECT_EQ(disk.folder, runs);
  EXPECT_EQ(disk.kind, "nfs4");
  EXPECT_GT(disk.free, 0U);
}

TEST_F(MachineFiles, GiveTheKindOfAFileSystemWithASpaceInItsName) {
  write("proc/self/mountinfo", "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n21 20 0:40 / " + (root_ / "my\\040disk").string() +
                                   " rw - nfs4 server:/a rw\n");
  fs::create_directories(root_ / "my disk");
  EXPECT_EQ(read_machine(root_, root_ / "my disk/runs").disks.front().kind, "nfs4");
}

TEST(Machine, NamesTasksetOnlyForAllCores) {
  MachineFacts facts = good();
  facts.processors = 2.5, facts.usable_cores = 4;
  EXPECT_EQ(advice(facts).find("taskset"), std::string::npos) << advice(facts);
}

TEST_F(MachineFiles, CountGpusWithoutADriver) {
  write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  write("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");  // its sound
  EXPECT_EQ(read_machine(root_, "runs").gpus, 1U);
}

TEST(Licences, AreFoundNextToThePipelines) {
  EXPECT_NE(licence_table().find("oneTBB"), std::string::npos);
  const std::vector<LinkedWork> works = linked_works();
  const auto is_fmt = [](const LinkedWork& work) { return work.name == "fmt" && work.file == "libfmt.so"; };
  EXPECT_TRUE(std::any_of(works.begin(), works.end(), is_fmt));
}

}  // namespace
}  // namespace millrace
