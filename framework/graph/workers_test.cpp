#include "graph/workers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "millrace/error.h"

namespace millrace {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory knows no such limit
// While it lives, the process gets no more than so many bytes of addresses.
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

TEST(IoPool, OfMoreThreadsThanTheSystemStartsIsAnErrorAndNoCrash) {
  std::string said;
  {
    const FewAddresses few(rlim_t{64} << 20);
    try {
      const IoPool pool(4096, {});
    } catch (...) {
      said = current_error().message();
    }
  }
  EXPECT_TRUE(said.starts_with("the system starts no more threads") || said == "out of memory") << said;
}
#endif

TEST(IoPool, DoesWhatWasPostedBeforeItEnds) {
  std::atomic<int> done{0};
  {
    IoPool pool(2, {});
    for (int i = 0; i < 100; ++i) pool.post([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace millrace
