#include "graph/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "millrace/error.h"
#include "testkit/few_addresses.h"

namespace millrace {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own memory ignores this limit
TEST(IoPool, OfMoreThreadsThanTheSystemStartsIsAnErrorAndNoCrash) {
  std::string said;
  {
    const testkit::FewAddresses few(rlim_t{64} << 20);
    try {
      const IoPool pool(4096, {});
    } catch (...) {
      said = current_error().message();
    }
  }
  EXPECT_TRUE(said.starts_with("the system cannot start another thread") || said == "out of memory") << said;
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
