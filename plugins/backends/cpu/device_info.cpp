#include "device_info.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>

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

// Each set of instructions has a bit for everything that it contains.
bool contains(dnnl::cpu_isa isa, dnnl::cpu_isa other) {
  return (static_cast<unsigned>(isa) & static_cast<unsigned>(other)) == static_cast<unsigned>(other);
}

// The most that we have a name for; later versions of oneDNN know more.
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

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

bool multiplies_tiles() { return contains(dnnl::get_effective_cpu_isa(), dnnl::cpu_isa::avx512_core_amx); }

DeviceInfo describe_processor() {
  const CpuInfo cpu = read_cpuinfo();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  DeviceInfo info;
  info.backend = "cpu";
  info.name = cpu.model;
  info.memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  info.bf16 = contains(isa, dnnl::cpu_isa::avx512_core);
  info.native_bf16 = contains(isa, dnnl::cpu_isa::avx512_core_bf16);
  const auto has = [&](const char* flag) { return std::string(cpu.flags.contains(flag) ? "yes" : "no"); };
  const dnnl_version_t* version = dnnl::version();
  const std::string onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  info.details = {
      {"cores", std::to_string(allowed_cores().size())},
      {"caches", read_caches()},
      {"AVX-512", has("avx512bw")},
      {"bf16", has("avx512_bf16")},
      {"AMX", has("amx_bf16")},
      {"oneDNN", fmt::format("{}, uses {}", onednn, to_text(isa))},
  };
  info.versions = {{"oneDNN", onednn}};
  return info;
}

void make_team(const std::vector<int>& cores) {
  if (cores.empty()) {
    omp_set_num_threads(static_cast<int>(allowed_cores().size()));
    return;
  }
  const int threads = static_cast<int>(cores.size());
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads)
  {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[static_cast<std::size_t>(omp_get_thread_num())], &set);
    sched_setaffinity(0, sizeof(set), &set);  // a processor that is not there leaves the thread where it is
  }
}

}  // namespace millrace::cpu
