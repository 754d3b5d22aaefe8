#include "replay_log.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace millrace::test {

std::vector<LoggedCall> read_log(const std::string& file) {
  std::ifstream log(file, std::ios::binary);
  std::vector<LoggedCall> calls;
  for (LoggedCall call; log >> call.number;) {
    log >> call.call >> call.error >> call.descriptor >> call.offset >> call.bytes >> call.flags;
    log.ignore(1);
    std::getline(log, call.path, '\t');
    std::getline(log, call.second, '\n');
    call.data.resize(call.bytes);
    if (call.bytes > 0) {
      log.read(call.data.data(), static_cast<std::streamsize>(call.bytes));
      log.ignore(1);
    }
    if (!log) throw std::runtime_error(fmt::format("record {} of the log is not whole", calls.size() + 1));
    calls.push_back(call);
  }
  return calls;
}

}  // namespace millrace::test
