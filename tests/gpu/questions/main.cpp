// gpu_questions NAME [SECONDS]: asks the first device one of the questions in questions.h.
// Exit status: 0 answered, 1 not or not wholly, 2 the command line is wrong, 4 there is no device.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "questions.h"

namespace millrace::gpu {

void say(const Json& finding) {
  fmt::print("{}\n", finding.dump());
  std::fflush(stdout);
}

namespace {

// What does the device have that pipeline-inspect does not say, and how long does opening it take?
void ask_device(const Asked&) {
  const Stopwatch opening;
  check(cudaSetDevice(0), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");
  const double opened = opening.ms();
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  say({{"name", p.name},
       {"l2_bytes", p.l2CacheSize},
       {"copy_engines", p.asyncEngineCount},
       {"memory_pools", p.memoryPoolsSupported},
       {"driver", driver},
       {"runtime", runtime},
       {"open_ms", opened}});
}

const std::map<std::string, void (*)(const Asked&)> kQuestions = {{"device", ask_device},
                                                                  {"events", ask_events},
                                                                  {"nccl", ask_nccl},
                                                                  {"dgrad", ask_data_gradients},
                                                                  {"genstats", ask_statistics}};

int run(int count, char** words) {
  const auto question = kQuestions.find(count > 1 ? words[1] : "");
  const Asked asked{.seconds = count > 2 ? std::atof(words[2]) : 15, .rank_id = count > 3 ? words[3] : ""};
  if (question == kQuestions.end() || asked.seconds <= 0) {
    fmt::print(stderr, "usage: gpu_questions device|events|nccl|dgrad|genstats [SECONDS]\n");
    return 2;
  }
  int devices = 0;
  // NCCL's second process must be started before the first CUDA call; that question finds out by itself.
  if (question->first != "nccl" && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    say({{"no_device", cudaGetErrorString(cudaGetLastError())}});
    return 4;
  }
  try {
    question->second(asked);
    return 0;
  } catch (const std::exception& error) {
    say({{"failed", error.what()}});
    return 1;
  }
}

}  // namespace
}  // namespace millrace::gpu

int main(int count, char** words) {
  const int status = millrace::gpu::run(count, words);
  std::fflush(nullptr);
  _exit(status);  // CUDA's own cleaning up may hang on a device that is in trouble
}
