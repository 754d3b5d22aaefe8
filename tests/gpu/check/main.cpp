// gpu-check: proves and measures the GPU backend on this machine, in parts that fit a short loan of it.
#include <fmt/format.h>

#include <csignal>

#include "check.h"
#include "millrace/error.h"
#include "watcher.h"

namespace millrace::gpu {
namespace {

int check(const Setting& setting) {
  switch (setting.action) {
    case Action::watch: return watch(setting);
    case Action::stop: return stop(setting);
    case Action::machine: fmt::print("{}\n", machine(setting).dump()); return 0;
    case Action::help: fmt::print("{}", help()); return 0;
  }
  return 2;
}

}  // namespace
}  // namespace millrace::gpu

int main(int count, char** words) {
  std::signal(SIGPIPE, SIG_IGN);  // a program that measures may end early; asking it then is an error like others
  try {
    return millrace::gpu::check(millrace::gpu::read_arguments(count, words));
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return millrace::exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return 1;
  }
}
