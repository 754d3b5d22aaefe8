// The machine as a run would find it, and what to do about its problems: pipeline-inspect --machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace millrace {

class Registry;

struct Disk {
  std::string use, folder, kind;  // "runs", "/home/ada/runs", "ext4". A folder that is missing will be made in its parent
  std::uint64_t free = 0;         // bytes
  bool is_writable = true;
};

// In all limits 0 means that there is none.
struct MachineFacts {
  std::string system;                       // distribution, kernel, C library
  std::size_t cores = 1, usable_cores = 1;  // of the machine, and of this process (affinity)
  double processors = 0;                    // limit of the control groups: 1.5 is the time of one and a half
  bool has_avx2 = true;
  std::string onednn_limit;                                         // ONEDNN_MAX_CPU_ISA or its older name
  std::size_t memory = 0, available_memory = 0;                     // bytes; `memory` includes the control groups' limit
  std::size_t address_space = 0, file_size = 0, locked_memory = 0;  // bytes
  std::size_t open_files = 0, tasks = 0;                            // tasks: threads of this user or control group
  std::size_t shared_memory = 0;                                    // size of /dev/shm in bytes; 0: there is none
  std::vector<Disk> disks;
  std::size_t gpus = 0, cuda_devices = 0;  // NVIDIA's on the PCI bus, and those that backend cuda can use
  bool has_cuda = false;                   // the plugin is loaded
};

// Reads /proc, /sys and limits of this process. `root`: root of the file system, for tests. `runs`: the folder of runs.
MachineFacts read_machine(const std::filesystem::path& root, const std::string& runs);

// A sentence for each problem, with its remedy.
std::vector<std::string> advise(const MachineFacts& facts);

std::string describe_machine(const Registry& registry);  // everything, with devices and libraries

}  // namespace millrace
