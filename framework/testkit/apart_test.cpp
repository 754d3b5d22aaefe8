// The fate of separate work is reported to this process.
#include "testkit/apart.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "testkit/messages.h"

namespace millrace::testkit {
namespace {

constexpr double kLimit = 30;  // seconds

TEST(Apart, WorkGivesItsResult) {
  const std::string large(300'000, 'x');  // more than a pipe holds
  const Ended ended = run_apart([&] { return large; }, kLimit);
  EXPECT_EQ(ended.fate, "");
  EXPECT_TRUE(ended.in_time);
  EXPECT_TRUE(ended.result == large) << ended.result.size();
}

TEST(Apart, WorkChangesNothingHere) {
  int here = 1;
  EXPECT_EQ(run_apart([&] { return fmt::format("{}", ++here); }, kLimit).result, "2");
  EXPECT_EQ(here, 1);
}

TEST(Apart, WorkThatEndsTheProcessIsFoundOut) {
  const auto leave = [](int code) -> std::string { ::_exit(code); };
  EXPECT_MESSAGE(run_apart([&] { return leave(0); }, kLimit).fate);
  EXPECT_MESSAGE(run_apart([&] { return leave(3); }, kLimit).fate);
}

TEST(Apart, WorkThatCrashesIsFoundOutWithItsLastLine) {
  const auto crash = [] {
    std::fputs("one\ntwo\n", stderr);
    std::signal(SIGSEGV, SIG_DFL);  // sanitizers install another action
    std::raise(SIGSEGV);
    return std::string();
  };
  EXPECT_MESSAGE(run_apart(crash, kLimit).fate);
}

TEST(Apart, WorkThatHangsIsEnded) {
  const Ended ended = run_apart(
      [] {
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
        return std::string();
      },
      0.3);
  EXPECT_FALSE(ended.in_time);
  EXPECT_MESSAGE(ended.fate);
}

TEST(Apart, WhatGoesWrongBehindTheResultIsFoundOutInOrder) {
  const auto work = [] {
    std::atexit([] { ::_exit(5); });
    return std::string("done");
  };
  EXPECT_EQ(run_apart(work, kLimit).fate, "");
  EXPECT_MESSAGE(run_apart(work, kLimit, Leave::in_order).fate);
}

}  // namespace
}  // namespace millrace::testkit
