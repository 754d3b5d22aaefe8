#include "millrace/error.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "testkit/messages.h"

namespace millrace {
namespace {

template <class Throw>
Error caught(Throw thrower) {
  try {
    thrower();
  } catch (...) {
    return current_error();
  }
  return Error(ErrorKind::run, "nothing was thrown");
}

TEST(Error, SaysItsContextFromOutsideIn) {
  Error error(ErrorKind::content, "truncated");
  error.in("sample 'a.jpg'").in("stage 'decode_image'");
  EXPECT_STREQ(error.what(), "stage 'decode_image': sample 'a.jpg': truncated");
  EXPECT_EQ(error.message(), "truncated");
  EXPECT_EQ(error.context(), (std::vector<std::string>{"sample 'a.jpg'", "stage 'decode_image'"}));
}

TEST(Error, WhateverIsThrownBecomesAnError) {
  EXPECT_EQ(caught([] { throw std::bad_alloc(); }).message(), "out of memory");
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);  // as thrown by std::thread
  EXPECT_MESSAGE(caught([&] { throw std::system_error(no_thread); }).message());
  EXPECT_EQ(caught([] { throw std::runtime_error("other"); }).message(), "other");
  EXPECT_EQ(caught([] { throw 3; }).kind(), ErrorKind::run);
  EXPECT_EQ(caught([] { throw Error(ErrorKind::device, "gone"); }).kind(), ErrorKind::device);
}

TEST(Error, KindsDecideTheExitCode) {
  EXPECT_EQ(exit_code(ErrorKind::run), 1);
  EXPECT_EQ(exit_code(ErrorKind::usage), 2);
  EXPECT_EQ(exit_code(ErrorKind::data), 3);
  EXPECT_EQ(exit_code(ErrorKind::content), 3);
  EXPECT_EQ(exit_code(ErrorKind::storage), 1) << "a full disk says nothing of the data";
  EXPECT_EQ(exit_code(ErrorKind::device), 4);
  EXPECT_EQ(exit_code(ErrorKind::peer), 138);
  EXPECT_EQ(exit_code(ErrorKind::interrupted), 130);
  EXPECT_EQ(exit_code(ErrorKind::unreachable), 75) << "another try may succeed";
}

}  // namespace
}  // namespace millrace
