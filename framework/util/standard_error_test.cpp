#include "millrace/util/standard_error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace millrace {
namespace {

TEST(StandardError, TakesATextAsItIs) {
  testing::internal::CaptureStderr();
  print_to_stderr("{} %d {{}}\n", 3);
  write_to_stderr("{}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "3 %d {}\n{}");
}

TEST(StandardError, IndentsWhatBelongsToTheLineBefore) { EXPECT_EQ(with_indented_lines("a\n  b\nc"), "a\n    b\n  c"); }

// Runs `work` while standard error is the file at `path`, or closed.
template <class Work>
void with_stderr(const char* path, const Work& work) {
  const int kept = ::dup(STDERR_FILENO);
  const int other = path != nullptr ? ::open(path, O_WRONLY | O_CLOEXEC) : -1;
  if (path != nullptr) ::dup2(other, STDERR_FILENO);
  if (path == nullptr) ::close(STDERR_FILENO);
  work();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  if (other >= 0) ::close(other);
}

TEST(StandardError, MayBeFullOrClosed) {
  for (const char* path : {"/dev/full", static_cast<const char*>(nullptr)}) {
    with_stderr(path, [] { EXPECT_NO_THROW(print_to_stderr("{}\n", "lost")); });
    EXPECT_EQ(std::ferror(stderr), 0) << "what comes later is written";
  }
}

}  // namespace
}  // namespace millrace
