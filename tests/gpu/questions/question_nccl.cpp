// Can two processes that share the one device add up, by the class that runs use, and can a sum that waits be ended?
//
// NCCL refuses two ranks on one device of one host. With a host's name of its own for each rank (NCCL_HOSTID) it takes them for
// two hosts, and they talk through sockets: slow, but it proves the communicator across processes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "millrace/error.h"
#include "nccl/group.h"
#include "questions.h"

namespace millrace::gpu {
namespace {

constexpr std::size_t kElements = 1 << 20;

void set_environment(int rank) {  // NCCL reads it when it is opened
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("NCCL_HOSTID", "millrace-rank-" + std::to_string(rank));
  set("NCCL_SOCKET_IFNAME", "lo");
  for (const char* name : {"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) set(name, "1");
  set("NCCL_NET", "Socket");
  set("NCCL_DEBUG", "WARN");
  cuda::set_nccl_environment();
}

int wrong_elements(const Buffer& data, float wanted) {
  std::vector<float> values(kElements);
  check(cudaMemcpy(values.data(), data.get(), kElements * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return static_cast<int>(std::count_if(values.begin(), values.end(), [&](float value) { return value != wanted; }));
}

// Each rank gives rank + 1 everywhere. Then rank 0 alone asks for one more sum, in which no other rank joins, and ends it.
void add_up(const cuda::NcclApi& api, const ncclUniqueId& id, int ranks, int rank) {
  const Stopwatch connecting;
  cuda::NcclGroup group(api, {.id = id, .ranks = ranks, .first = rank}, {{0, "rank " + std::to_string(rank)}},
                        std::chrono::seconds(10));
  const double connect_ms = connecting.ms();
  const Stream stream = make_stream();
  const Buffer data = make_buffer(kElements * sizeof(float));
  void* const pointers[] = {data.get()};
  const cudaStream_t streams[] = {stream.get()};
  const std::vector<float> mine(kElements, static_cast<float>(rank + 1));
  check(cudaMemcpy(data.get(), mine.data(), kElements * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  const Stopwatch first;
  group.all_reduce(pointers, kElements, ncclFloat32, streams);
  finish(stream);
  const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  Json finding = {{"ranks", ranks}, {"rank", rank}, {"connect_ms", connect_ms}, {"first_ms", first.ms()}};
  finding["wrong_elements"] = wrong_elements(data, sum);
  if (ranks == 2 && rank == 0) {
    const Stopwatch ending;
    group.all_reduce(pointers, kElements, ncclFloat32, streams);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    finding["waits"] = cudaStreamQuery(stream.get()) == cudaErrorNotReady;
    cudaGetLastError();
    group.give_up();
    finding["device_after_giving_up"] = cudaGetErrorString(cudaDeviceSynchronize());
    finding["given_up_ms"] = ending.ms();
  } else {
    if (ranks == 2) std::this_thread::sleep_for(std::chrono::seconds(1));  // while rank 0 waits
    group.give_up();
  }
  say(finding);
}

void be_second_rank(const Asked& asked) {
  set_environment(1);
  const Stopwatch watch;
  while (!std::filesystem::exists(asked.rank_id)) {
    if (watch.ms() > 1000 * asked.seconds) fail(ErrorKind::run, "the first rank did not say where it is");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ncclUniqueId id{};
  std::ifstream(asked.rank_id, std::ios::binary).read(id.internal, sizeof id.internal);
  check(cudaSetDevice(0), "cudaSetDevice");
  add_up(cuda::load_nccl(), id, 2, 1);
}

}  // namespace

void ask_nccl(const Asked& asked) {
  if (!asked.rank_id.empty()) return be_second_rank(asked);
  const std::string id_file = "/tmp/millrace-nccl-" + std::to_string(getpid());
  const pid_t second = fork();  // before the first CUDA call
  if (second == 0) {
    execl("/proc/self/exe", "gpu_questions", "nccl", std::to_string(asked.seconds).c_str(), id_file.c_str(), nullptr);
    _exit(127);
  }
  set_environment(0);
  check(cudaSetDevice(0), "cudaSetDevice");
  const cuda::NcclApi api = cuda::load_nccl();
  add_up(api, cuda::NcclGroup::make_id(api), 1, 0);
  const ncclUniqueId id = cuda::NcclGroup::make_id(api);
  std::ofstream(id_file + ".part", std::ios::binary).write(id.internal, sizeof id.internal);
  std::filesystem::rename(id_file + ".part", id_file);
  add_up(api, id, 2, 0);
  int status = 0;
  waitpid(second, &status, 0);  // this process's own limit ends both
  std::filesystem::remove(id_file);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(ErrorKind::run, "the second rank ended with status {}", status);
}

}  // namespace millrace::gpu
