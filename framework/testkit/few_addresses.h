// A machine that has no more room, as a program sees one: the system gives no more addresses, and so starts no more threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace millrace::testkit {

// While it lives, the process gets no more than so many bytes of addresses. Not under sanitizers, whose own memory knows no such
// limit.
class FewAddresses {
 public:
  explicit FewAddresses(rlim_t more) {
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
  rlimit before_{};
};

}  // namespace millrace::testkit
