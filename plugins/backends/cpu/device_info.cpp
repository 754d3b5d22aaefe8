#include "device_info.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/host_cores.h"
#include "millrace/util/host_memory.h"
#include "millrace/util/on_threads.h"

namespace millrace::cpu {
namespace {

struct CpuInfo {
  std::string model = "CPU";
  std::set<std::string> flags;
};

CpuInfo read_cpuinfo() {
  CpuInfo info;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) info.model = value;
    if (line.starts_with("flags")) {
      std::istringstream words(value);
      for (std::string word; words >> word;) info.flags.insert(word);
      break;
    }
  }
  return info;
}

std::string read_caches() {
  std::string text;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::string level, type, size;
    if (!(std::ifstream(folder + "level") >> level)) break;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> size;
    if (type == "Instruction") continue;
    text += (text.empty() ? "L" : ", L") + level + " " + size;
  }
  return text.empty() ? "unknown" : text;
}

// Each instruction set's bits include those of the sets that it contains.
bool contains(dnnl::cpu_isa isa, dnnl::cpu_isa other) {
  return (static_cast<unsigned>(isa) & static_cast<unsigned>(other)) == static_cast<unsigned>(other);
}

// The highest set with a name here; later versions of oneDNN have more.
const char* to_text(dnnl::cpu_isa isa) {
  using Isa = dnnl::cpu_isa;
  static constexpr std::pair<Isa, const char*> kNames[] = {
      {Isa::avx512_core_amx, "AVX-512 with AMX"},
      {Isa::avx512_core_bf16, "AVX-512 with bf16"},
      {Isa::avx512_core_vnni, "AVX-512 with VNNI"},
      {Isa::avx512_core, "AVX-512"},
      {Isa::avx2_vnni, "AVX2 with VNNI"},
      {Isa::avx2, "AVX2"},
      {Isa::avx, "AVX"},
      {Isa::sse41, "SSE4.1"},
  };
  for (const auto& [known, name] : kNames) {
    if (contains(isa, known)) return name;
  }
  return "other";
}

}  // namespace

bool multiplies_tiles() { return contains(dnnl::get_effective_cpu_isa(), dnnl::cpu_isa::avx512_core_amx); }

DeviceInfo describe_processor() {
  const CpuInfo cpu = read_cpuinfo();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  DeviceInfo info;
  info.backend = "cpu";
  info.name = cpu.model;
  info.memory = host_memory();
  info.bf16 = contains(isa, dnnl::cpu_isa::avx512_core);
  info.native_bf16 = contains(isa, dnnl::cpu_isa::avx512_core_bf16);
  const auto has = [&](const char* flag) { return std::string(cpu.flags.contains(flag) ? "yes" : "no"); };
  const dnnl_version_t* version = dnnl::version();
  const std::string onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  info.details = {
      {"cores", std::to_string(available_cores().size())},
      {"caches", read_caches()},
      {"AVX-512", has("avx512bw")},
      {"bf16", has("avx512_bf16")},
      {"AMX", has("amx_bf16")},
      {"oneDNN", fmt::format("{}, uses {}", onednn, to_text(isa))},
  };
  info.versions = {{"oneDNN", onednn}, {"instructions", to_text(isa)}};
  return info;
}

namespace {

// libgomp ends the process if the system cannot start a thread, so this tries to start as many first.
void require_threads(int count) {
  try {
    try_threads(static_cast<std::size_t>(std::max(count, 0)));
  } catch (...) {
    throw current_error().in(fmt::format("backend 'cpu' wants {} threads", count + 1));
  }
}

// Size of the team in a parallel region with this many threads: smaller if OMP_THREAD_LIMIT or OMP_MAX_ACTIVE_LEVELS limits it.
int size_of_team(int threads) {
  int size = 1;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    size = omp_get_num_threads();
  }
  return size;
}

}  // namespace

int threads_for(const std::vector<int>& cores) {
  const auto wanted = static_cast<int>(cores.empty() ? available_cores().size() : cores.size());
  return omp_get_max_active_levels() > 0 ? std::min(wanted, omp_get_thread_limit()) : 1;
}

// oneDNN divides its work by the configured number of threads and waits for each of them: it hangs if OpenMP provides fewer,
// whether always or, with OMP_DYNAMIC, while the machine is busy.
void make_team(const std::vector<int>& cores, const std::function<void(std::string_view)>& warn) {
  const int wanted = static_cast<int>(cores.empty() ? available_cores().size() : cores.size());
  require_threads(wanted - 1);
  omp_set_dynamic(0);
  const int threads = size_of_team(wanted);
  omp_set_num_threads(threads);
  if (threads < wanted) {
    warn(
        fmt::format("OpenMP allows a replica {} of its {} threads, so steps take longer: look at OMP_THREAD_LIMIT and "
                    "OMP_MAX_ACTIVE_LEVELS",
                    threads, wanted));
  }
  if (cores.empty()) return;
#pragma omp parallel num_threads(threads)
  {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int core = cores[static_cast<std::size_t>(omp_get_thread_num())];
    if (core >= 0) {  // else the thread may run anywhere
      CPU_SET(core, &set);
      sched_setaffinity(0, sizeof(set), &set);  // a missing processor leaves the thread where it is
    }
  }
}

}  // namespace millrace::cpu
