// Simulates a machine without free memory: the system grants no more addresses, and so starts no more threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <vector>

namespace millrace::testkit {

// While it lives, limits the process's additional address space. Not under sanitizers, whose own memory ignores the limit.
class FewAddresses {
 public:
  explicit FewAddresses(rlim_t more) {
    constexpr std::size_t kRoom = 64 << 10;  // of the heap, for messages
    std::vector<char>(kRoom).swap(room_);
    std::vector<char>().swap(room_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit few{static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &few);
  }
  ~FewAddresses() { ::setrlimit(RLIMIT_AS, &before_); }
  FewAddresses(const FewAddresses&) = delete;
  FewAddresses& operator=(const FewAddresses&) = delete;

 private:
  std::vector<char> room_;
  rlimit before_{};
};

}  // namespace millrace::testkit
