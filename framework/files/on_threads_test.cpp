#include "millrace/util/on_threads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "millrace/error.h"
#include "testkit/few_addresses.h"

namespace millrace {
namespace {

std::ptrdiff_t running_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(TryThreads, LeavesNoneBehindThatWouldCountForALimit) {
  const std::ptrdiff_t before = running_threads();
  for (int i = 0; i < 20; ++i) {
    try_threads(50);
    EXPECT_EQ(running_threads(), before);
  }
  try_threads(0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory knows no such limit
TEST(TryThreads, ThrowsWhereTheSystemStartsFewer) {
  std::string said;
  {
    const testkit::FewAddresses few(rlim_t{64} << 20);
    try {
      try_threads(4096);
    } catch (...) {
      said = current_error().message();
    }
  }
  EXPECT_TRUE(said.starts_with("the system cannot start another thread") || said == "out of memory") << said;
}
#endif

}  // namespace
}  // namespace millrace
