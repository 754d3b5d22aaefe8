#include "machine.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/text_table.h"
#include "config/plan.h"
#include "inspect.h"
#include "licences.h"
#include "millrace/backend/backend.h"
#include "millrace/detail/types.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/host_cores.h"
#include "util/control_group.h"
#include "util/memory_limit.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// The value of a line "KEY=VALUE" or "KEY:  VALUE kB", without quotes; "" if there is none.
std::string value_of(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t\"", key.size());
    return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of('"') + 1 - begin);
  }
  return {};
}

std::string system_text(const fs::path& root) {
  utsname kernel{};
  ::uname(&kernel);
  std::string name = value_of(root / "etc/os-release", "PRETTY_NAME=");
  if (name.empty()) name = "unknown distribution";
  return fmt::format("{}, {} {}, glibc {}", name, kernel.sysname, kernel.release, gnu_get_libc_version());
}

// "150000 100000" (version 2), or the same numbers in two files (version 1): microseconds per period.
double processors_of_groups(const fs::path& root) {
  double least = 0;
  for (const fs::path& group : control_groups(root, "cpu")) {
    double quota = 0, period = 0;
    std::istringstream both(first_line(group / "cpu.max") + first_line(group / "cpu.cfs_quota_us") + " " +
                            first_line(group / "cpu.cfs_period_us"));
    if (!(both >> quota >> period) || quota <= 0 || period <= 0) continue;  // "max" or -1: no limit
    least = least == 0 ? quota / period : std::min(least, quota / period);
  }
  return least;
}

std::size_t limit_of(__rlimit_resource what) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return std::max<std::size_t>(limit.rlim_cur, 1);  // 0 would mean no limit
}

std::size_t tasks_of_groups(const fs::path& root) {
  std::size_t least = 0;
  for (const fs::path& group : control_groups(root, "pids"))
    least = lesser_limit(least, std::strtoull(first_line(group / "pids.max").c_str(), nullptr, 10));  // "max": 0
  return least;
}

// A path in mountinfo, where \040 stands for a space: octal numbers, also of tabs, line ends and backslashes.
std::string without_escapes(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && std::all_of(&text[i + 1], &text[i + 1] + 3, is_octal);
    path += is_escape ? static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)) : text[i];
    if (is_escape) i += 3;
  }
  return path;
}

// The type of the file system that is mounted at the longest part of the path; lines of mountinfo end "- TYPE DEVICE OPTIONS".
std::string kind_of_disk(const fs::path& root, const std::string& path) {
  std::string kind = "unknown", line;
  std::size_t longest = 0;
  for (std::ifstream mounts(root / "proc/self/mountinfo"); std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string point, type;
    for (int word = 0; word < 5; ++word) words >> point;
    point = without_escapes(point);
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || !(std::istringstream(line.substr(dash + 3)) >> type)) continue;
    const bool holds = point == "/" || path == point || path.starts_with(point + "/");
    if (holds && point.size() >= longest) longest = point.size(), kind = type;
  }
  return kind;
}

Disk disk_of(const fs::path& root, std::string use, const fs::path& folder) {
  std::error_code ignored;
  Disk disk{std::move(use), fs::absolute(folder, ignored).lexically_normal().string(), {}, 0, true};
  fs::path there = disk.folder;
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  disk.kind = kind_of_disk(root, fs::weakly_canonical(there, ignored).string());
  const fs::space_info space = fs::space(there, ignored);
  disk.free = ignored ? 0 : space.available;
  disk.is_writable = ::access(there.c_str(), W_OK) == 0;
  return disk;
}

// NVIDIA's devices of PCI class 3 (display), with or without a driver.
std::size_t count_gpus(const fs::path& root) {
  std::error_code ignored;
  std::size_t count = 0;
  for (const auto& device : fs::directory_iterator(root / "sys/bus/pci/devices", ignored))
    count += first_line(device.path() / "vendor") == "0x10de" && first_line(device.path() / "class").starts_with("0x03");
  return count;
}

std::string limit_text(std::size_t bytes) { return bytes == 0 ? "no limit" : bytes_text(bytes); }
std::string count_text(std::size_t count) { return count == 0 ? "no limit" : grouped(count); }

// "oneTBB  /usr/lib/x86_64-linux-gnu/libtbb.so.12.8": links are resolved, because the names of files hold versions.
std::string loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        std::error_code ignored;
        static_cast<std::vector<std::string>*>(found)->push_back(fs::weakly_canonical(info->dlpi_name, ignored).string());
        return 0;
      },
      &paths);
  TextTable table({"", ""});
  for (const LinkedWork& work : linked_works()) {
    for (const std::string& path : paths) {
      if (fs::path(path).filename().string().starts_with(work.file)) table.row({work.name, path});
    }
  }
  return table.text();
}

}  // namespace

MachineFacts read_machine(const fs::path& root, const std::string& runs) {
  MachineFacts facts;
  facts.system = system_text(root);
  facts.cores = static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  facts.usable_cores = available_cores().size();
  facts.processors = processors_of_groups(root);
#ifdef __x86_64__
  facts.has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* value = std::getenv(name)) facts.onednn_limit = fmt::format("{}={}", name, value);
  }
  facts.memory = host_memory(root.string());
  facts.available_memory = std::strtoull(value_of(root / "proc/meminfo", "MemAvailable:").c_str(), nullptr, 10) * 1024;
  if (facts.memory > 0) facts.available_memory = std::min(facts.available_memory, facts.memory);  // of a control group
  facts.address_space = address_limit();
  facts.file_size = limit_of(RLIMIT_FSIZE);
  facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.tasks = lesser_limit(limit_of(RLIMIT_NPROC), tasks_of_groups(root));
  if (struct statvfs shm{}; ::statvfs((root / "dev/shm").c_str(), &shm) == 0) facts.shared_memory = shm.f_blocks * shm.f_frsize;
  facts.gpus = count_gpus(root);
  std::error_code ignored;
  facts.disks.push_back(disk_of(root, "runs", runs));
  if (const fs::path cache = cache_folder("checks").parent_path(); !cache.empty()) facts.disks.push_back(disk_of(root, "cache", cache));
  if (const char* s3 = std::getenv("MILLRACE_S3_CACHE"); s3 != nullptr && *s3 != '\0')
    facts.disks.push_back(disk_of(root, "S3 cache", s3));
  facts.disks.push_back(disk_of(root, "temporary files", fs::temp_directory_path(ignored)));
  return facts;
}

std::vector<std::string> advise(const MachineFacts& facts) {
  std::vector<std::string> out;
  const auto say = [&](fmt::string_view text, const auto&... values) {
    out.push_back(fmt::format(fmt::runtime(text), values...));
  };

  if (facts.processors > 0 && facts.processors + 0.5 <= static_cast<double>(facts.usable_cores)) {
    const int last = std::max(1, static_cast<int>(facts.processors)) - 1;
    const std::string taskset = facts.usable_cores == facts.cores  // else this process may not use core 0
                                    ? fmt::format("start with `taskset -c 0-{}`, or ", last)
                                    : "";
    say("cores: the control group grants the time of {:.1f} of {} cores, so threads are halted in the middle of a step: {}raise "
        "the limit (docker: --cpus; systemd: CPUQuota)",
        facts.processors, facts.usable_cores, taskset);
  }
  if (!facts.has_avx2)
    say("instruction sets: there is no AVX2, so backend cpu and resizing are several times slower: give a virtual machine the "
        "processor of its host (QEMU: -cpu host), or use a newer processor");
  if (!facts.onednn_limit.empty()) say("instruction sets: {} restricts oneDNN: unset it", facts.onednn_limit);

  const std::size_t memory = lesser_limit(facts.memory, facts.available_memory);
  if (memory > 0 && memory < 2 * kGiB)
    say("memory: {} of {} is available: close other programs, raise the limit of the control group (docker: --memory), or use "
        "smaller batches; `pipeline-run FILE --check` prints what a run needs",
        bytes_text(memory), bytes_text(facts.memory));
  if (facts.address_space > 0)
    say("limits: address space is limited to {}: `ulimit -v unlimited`", bytes_text(facts.address_space));
  if (facts.file_size > 0) say("limits: files are limited to {}: `ulimit -f unlimited`", bytes_text(facts.file_size));
  if (facts.open_files > 0 && facts.open_files < 1024)
    say("limits: a process may open {} files: `ulimit -n 1024`", facts.open_files);
  if (facts.tasks > 0 && facts.tasks < 64 + 4 * facts.usable_cores)
    say("limits: at most {} processes and threads are allowed, too few for {} cores: `ulimit -u`, or the control group's pids.max "
        "(docker: --pids-limit)",
        facts.tasks, facts.usable_cores);
  if (facts.cuda_devices > 0 && facts.locked_memory > 0 && facts.locked_memory < 64 * kMiB)
    say("limits: {} of locked memory is too little for NCCL over InfiniBand: `ulimit -l unlimited` (docker: --ulimit memlock=-1)",
        bytes_text(facts.locked_memory));
  if (facts.cuda_devices > 1 && facts.shared_memory < kGiB)
    say("limits: /dev/shm holds {}, and NCCL needs about 1 GiB for several GPUs: docker --shm-size=1g",
        bytes_text(facts.shared_memory));

  for (const Disk& disk : facts.disks) {
    const std::string what = fmt::format("{} ({})", disk.use, disk.folder);
    const char* const other = disk.use == "runs"       ? "set run.folder"
                              : disk.use == "cache"    ? "set MILLRACE_CACHE"
                              : disk.use == "S3 cache" ? "set MILLRACE_S3_CACHE"
                                                       : "set TMPDIR";
    const bool is_network =
        disk.kind.starts_with("nfs") || disk.kind == "cifs" || disk.kind == "smb3" || disk.kind.starts_with("fuse");
    if (!disk.is_writable) say("{}: it is not writable: {} to a folder of yours", what, other);
    if (disk.free < 2 * kGiB) say("{}: only {} free: delete old runs, or {} to another disk", what, bytes_text(disk.free), other);
    if (disk.use == "runs" && disk.kind == "tmpfs")
      say("{}: this is in memory and will be lost at a restart: {} to a disk", what, other);
    if (disk.use == "runs" && disk.kind == "overlay")
      say("{}: this will be lost with the container: mount a volume there, or {} to one", what, other);
    if (disk.use != "runs" && is_network) say("{}: {} is slow for many small files: {} to a local disk", what, disk.kind, other);
  }

  if (facts.gpus > 0 && !facts.has_cuda)
    say("GPU: backend cuda is not installed: install the package millrace-cuda, or build with a CUDA toolkit");
  else if (facts.gpus > 0 && facts.cuda_devices == 0)
    say("GPU: 0 of {} NVIDIA GPUs can be used: see `cuda` above for the reason, and `nvidia-smi` for the driver's view",
        facts.gpus);
  else if (facts.gpus > facts.cuda_devices)
    say("GPU: {} of {} NVIDIA GPUs can be used: the others are hidden (CUDA_VISIBLE_DEVICES, the share of this container or job) "
        "or too old; `nvidia-smi -L` lists those of the driver",
        facts.cuda_devices, facts.gpus);
  return out;
}

std::string describe_machine(const Registry& registry) {
  MachineFacts facts = read_machine("/", RunParams().folder);
  if (const BackendType* cuda = registry.backends().find("cuda")) {
    facts.has_cuda = true;
    facts.cuda_devices = cuda->create()->devices().size();
  }
  TextTable machine({"", ""});
  machine.row({"system", facts.system});
  machine.row(
      {"cores",
       fmt::format("{} of {} for this process{}", facts.usable_cores, facts.cores,
                   facts.processors > 0 ? fmt::format(", with the time of {:.1f} (control group)", facts.processors) : "")});
  machine.row({"memory", fmt::format("{}, {} available", limit_text(facts.memory), bytes_text(facts.available_memory))});
  machine.row({"NVIDIA GPUs", std::to_string(std::max(facts.gpus, facts.cuda_devices))});  // not all containers show PCI

  TextTable limits({"", ""});
  limits.row({"open files", count_text(facts.open_files)});
  limits.row({"processes and threads", count_text(facts.tasks)});
  limits.row({"address space", limit_text(facts.address_space)});
  limits.row({"size of a file", limit_text(facts.file_size)});
  limits.row({"locked memory", limit_text(facts.locked_memory)});
  limits.row({"/dev/shm", facts.shared_memory == 0 ? "missing" : bytes_text(facts.shared_memory)});

  TextTable disks({"", "", ">", ""});
  for (const Disk& disk : facts.disks)
    disks.row({disk.use, disk.kind, bytes_text(disk.free) + " free", disk.folder + (disk.is_writable ? "" : ", not writable")});

  std::string todo;
  for (const std::string& line : advise(facts)) todo += "  " + line + "\n";
  return "machine\n" + machine.text() + "\ndevices\n" + describe_devices(registry) + "\nlimits\n" + limits.text() +
         "\nfolders\n" + disks.text() + "\nlibraries\n" + loaded_libraries() + "\nwhat to do\n" +
         (todo.empty() ? "  nothing: no problem was found\n" : todo);
}

}  // namespace millrace
