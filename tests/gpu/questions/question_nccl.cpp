// Does NCCL work here: alone, and between two processes that share the one device?
//
// NCCL refuses two ranks on one device of one host. With a host's name of its own for each rank (NCCL_HOSTID) it takes them for
// two hosts, and they talk through sockets: slow, but it proves the communicator across processes.
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "device.h"
#include "kernels.h"
#include "millrace/error.h"
#include "nccl/api.h"
#include "process.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 25 << 20;    // 100 MiB of float32
constexpr std::int64_t kFewElements = 1 << 20;  // through sockets
constexpr int kTimes = 5;
constexpr int kRanks = 2;
constexpr auto kLook = std::chrono::milliseconds(5);

class Communicator {
 public:
  Communicator(int rank, int ranks, const ncclUniqueId& id, const cuda::NcclApi& api) : api_(api) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    require(api_.comm_init(&comm_, ranks, id, rank, &config), "ncclCommInitRankConfig");
  }
  // Left to the process's end: ending it may wait for the other rank.
  void all_reduce(const float* from, float* to, std::int64_t elements, cudaStream_t stream) const {
    require(api_.all_reduce(from, to, static_cast<std::size_t>(elements), ncclFloat32, ncclSum, comm_, stream), "ncclAllReduce");
  }

 private:
  void require(ncclResult_t status, const char* call) const {
    if (status == ncclSuccess) return;
    const char* more = api_.last_error(comm_);
    fail(ErrorKind::device, "{} failed: {}{}", call, api_.error_string(status),
         more == nullptr || *more == '\0' ? "" : fmt::format(" ({})", more));
  }

  const cuda::NcclApi& api_;
  ncclComm_t comm_ = nullptr;
};

// Every rank's buffer is filled with the numbers of its own seed; the host knows the sum.
double sum_at(int ranks, std::int64_t at) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += number_at(static_cast<std::uint32_t>(rank + 1), at);
  return sum;
}

int wrong_elements(const Buffer& found, int ranks, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  check(cudaMemcpy(values.data(), found.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  int wrong = 0;
  for (std::int64_t i = 0; i < elements; ++i) wrong += values[static_cast<std::size_t>(i)] == sum_at(ranks, i) ? 0 : 1;
  return wrong;
}

void add_up(int rank, int ranks, const ncclUniqueId& id, const cuda::NcclApi& api, std::int64_t elements, Findings& findings) {
  findings.doing("connecting");
  std::unique_ptr<Communicator> communicator;
  findings.answer["connect_ms"] =
      rounded(host_milliseconds([&] { communicator = std::make_unique<Communicator>(rank, ranks, id, api); }));
  const Stream stream = make_stream();
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  const Buffer from(bytes), to(bytes);
  check(fill(from.data(), Numbers::f32, elements, static_cast<std::uint32_t>(rank + 1), stream.get()), "fill");
  const auto sum = [&] { communicator->all_reduce(from.as<float>(), to.as<float>(), elements, stream.get()); };
  findings.doing("adding up");
  findings.answer["bytes"] = bytes;
  findings.answer["first_ms"] = rounded(device_milliseconds(stream.get(), sum));
  findings.answer["wrong_elements"] = wrong_elements(to, ranks, elements);
  findings.answer["ms"] = rounded(best_milliseconds(stream.get(), kTimes, sum));
}

// What both ranks need before NCCL is opened.
void set_up(int rank, bool own_host) {
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  if (own_host) set("NCCL_HOSTID", fmt::format("millrace-rank-{}", rank));
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_NET", "Socket");
  set("NCCL_IB_DISABLE", "1");
  set("NCCL_P2P_DISABLE", "1");
  set("NCCL_SHM_DISABLE", "1");
  set("NCCL_DEBUG", "WARN");
}

// Beside the findings, so that it goes with them.
fs::path beside(const fs::path& file, const char* ending) { return file.string() + ending; }

void write_id(const fs::path& file, const ncclUniqueId& id) {
  const fs::path part = beside(file, ".part");
  std::ofstream(part, std::ios::binary).write(id.internal, sizeof id.internal);
  fs::rename(part, file);
}

ncclUniqueId read_id(const fs::path& file, const Findings& findings) {
  while (!fs::exists(file)) {
    if (findings.left() <= 0) fail(ErrorKind::run, "the first rank did not say where it is");
    std::this_thread::sleep_for(kLook);
  }
  ncclUniqueId id{};
  std::ifstream(file, std::ios::binary).read(id.internal, sizeof id.internal);
  return id;
}

// This process is rank 0; rank 1 is started before the first CUDA call, and dies with this one.
void ask_two(const Setting& setting, Findings& findings, bool own_hosts) {
  const fs::path id_file = beside(findings.file(), ".id"), answer = beside(findings.file(), ".second");
  set_up(1, own_hosts);  // which the second inherits
  Process second({.words = {setting.program, "--second-rank", id_file.string(), "--answer", answer.string()},
                  .log = "/proc/self/fd/2",  // this one's
                  .own_group = false});
  set_up(0, own_hosts);
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("opening NCCL");
  const cuda::NcclApi api = cuda::load_nccl();
  ncclUniqueId id;
  if (api.get_unique_id(&id) != ncclSuccess) fail(ErrorKind::device, "ncclGetUniqueId failed: {}", api.last_error(nullptr));
  write_id(id_file, id);
  try {
    add_up(0, kRanks, id, api, kFewElements, findings);
  } catch (const Error& error) {
    findings.answer["refused"] = error.what();
  }
  findings.doing("waiting for the second rank");
  const std::optional<int> status = second.wait(std::max(findings.left(), 2.0));
  findings.answer["second"] = Json::parse(std::ifstream(answer), nullptr, false);
  findings.answer["second_ended"] = status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

}  // namespace

void be_second_rank(const std::string& id_file, Findings& findings) {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("opening NCCL");
  const cuda::NcclApi api = cuda::load_nccl();
  findings.doing("waiting for the first rank");
  add_up(1, kRanks, read_id(id_file, findings), api, kFewElements, findings);
}

void ask_nccl_one(const Setting&, Findings& findings) {
  setenv("NCCL_DEBUG", "WARN", 1);
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  findings.doing("opening NCCL");
  const cuda::NcclApi api = cuda::load_nccl();
  ncclUniqueId id;
  if (api.get_unique_id(&id) != ncclSuccess) fail(ErrorKind::device, "ncclGetUniqueId failed: {}", api.last_error(nullptr));
  add_up(0, 1, id, api, kElements, findings);
}

void ask_nccl_two(const Setting& setting, Findings& findings) { ask_two(setting, findings, true); }
void ask_nccl_same_host(const Setting& setting, Findings& findings) { ask_two(setting, findings, false); }

}  // namespace millrace::gpu
