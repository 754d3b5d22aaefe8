#include "common/arguments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

struct Parsed {
  bool check = false;
  std::string devices;
  std::vector<std::string> sets, rest;
  bool run = false;
};

Parsed parse(std::vector<const char*> arguments) {
  Parsed parsed;
  Arguments options("tool", "FILE [options]", "Does things.");
  options.flag("--check", "checks", parsed.check)
      .option("--devices", "D", "where", parsed.devices)
      .repeated("--set", "KEY=VALUE", "changes", parsed.sets);
  arguments.insert(arguments.begin(), "tool");
  parsed.run = options.read(static_cast<int>(arguments.size()), arguments.data(), parsed.rest);
  return parsed;
}

TEST(Arguments, OptionsMayStandAnywhere) {
  const Parsed parsed = parse({"--set", "a=1", "file.toml", "--check", "--set=b=2", "--devices", "cpu*2"});
  EXPECT_TRUE(parsed.run);
  EXPECT_TRUE(parsed.check);
  EXPECT_EQ(parsed.devices, "cpu*2");
  EXPECT_EQ(parsed.sets, (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(parsed.rest, std::vector<std::string>{"file.toml"});
}

TEST(Arguments, NamesTheNearestOption) {
  for (const std::string option : {"--device", "--devices-of-the-run"}) {
    const Error error = testkit::error_of(ErrorKind::usage, [&] { parse({option.c_str(), "cpu"}); });
    EXPECT_EQ(error.what(), "unknown option '" + option + "'; nearest is '--devices'; see tool --help");
  }
}

TEST(Arguments, ProposesSetForAnOptionOfAnotherProgram) {
  EXPECT_MESSAGE(testkit::error_of([&] { parse({"--weight-decay=0.1"}); }).what());
}

TEST(Arguments, NamesWhatAnOptionOfAnotherProgramIsCalledHere) {
  for (const auto& [option, meant] : {std::pair("--gpu", "--devices gpu"), std::pair("--data=x", "--set data.path=FOLDER")}) {
    const Error error = testkit::error_of([&] { parse({option}); });
    EXPECT_NE(std::string(error.what()).find(std::string(": write ") + meant), std::string::npos) << error.what();
  }
}

TEST(Arguments, RefusesAMissingAndASuperfluousValue) {
  EXPECT_THROW(parse({"--devices"}), Error);
  EXPECT_THROW(parse({"--check=yes"}), Error);
}

// From `--weights "$WEIGHTS"` in a script with an unset variable: it would silently train from nothing.
TEST(Arguments, RefusesAnEmptyValue) {
  EXPECT_THROW(parse({"--devices", ""}), Error);
  EXPECT_THROW(parse({"--devices="}), Error);
  EXPECT_THROW(parse({"--set", ""}), Error);
  EXPECT_EQ(parse({""}).rest, std::vector<std::string>{""});
}

TEST(Arguments, RefusesWhatExcludesEachOther) {
  bool json = false, check = false;
  std::string layers;
  std::vector<std::string> rest;
  Arguments options("tool", "FILE", "Does things.");
  options.flag("--json", "", json).flag("--check", "", check).option("--layers", "N", "", layers);
  options.exclude({"--json"}, {"--layers"});
  const std::vector<const char*> both = {"tool", "--layers=2", "--check", "--json"}, one = {"tool", "--json", "--check"};
  EXPECT_MESSAGE(testkit::error_of([&] { options.read(4, both.data(), rest); }).what());
  EXPECT_TRUE(options.read(3, one.data(), rest));
}

// Texts within stdio's buffer fail at the end, longer ones while they are printed.
TEST(RunTool, EndsAlikeForShortAndLongTextsThatCannotBeWritten) {
  for (const std::size_t length : {std::size_t{10}, std::size_t{1} << 20}) {
    const auto print = [&] {
      fmt::print("{}", std::string(length, 'x'));
      return 0;
    };
    const auto onto_a_full_disk = [&] {
      ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
      std::_Exit(run_tool("tool", print));
    };
    const auto without_a_reader = [&] {
      int ends[2];
      [[maybe_unused]] const int made = ::pipe(ends);
      ::close(ends[0]);
      std::signal(SIGPIPE, SIG_IGN);
      ::dup2(ends[1], STDOUT_FILENO);
      std::_Exit(run_tool("tool", print));
    };
    EXPECT_EXIT(onto_a_full_disk(), testing::ExitedWithCode(1),
                "tool: standard output cannot be written: No space left on device");
    EXPECT_EXIT(without_a_reader(), testing::ExitedWithCode(0), "");
  }
}

TEST(RunTool, RefusesAStackThatIsTooSmallBeforeItRuns) {
  const auto with_stack = [](rlim_t kilobytes) {
    rlimit limit{};
    ::getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = kilobytes << 10;
    ::setrlimit(RLIMIT_STACK, &limit);
    std::_Exit(run_tool("tool", [] { return 7; }));
  };
  EXPECT_EXIT(with_stack(255), testing::ExitedWithCode(1),
              "tool: the stack may have 255 kB, and at least 256 are needed: raise the limit \\(ulimit -s\\)");
  EXPECT_EXIT(with_stack(256), testing::ExitedWithCode(7), "");
}

TEST(RunTool, SaysWhatMemoryThereIsWhereItHasRunOut) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_tool("tool", []() -> int { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("tool: out of memory: the program holds "), 0U);
}

TEST(Arguments, PathsMayBeUrlsOfFiles) {
  const Parsed parsed = parse({"--devices", "file:///a%20b", "--set=x=file:///a%20b", "file:///c.toml", "s3://b/a%20b"});
  EXPECT_EQ(parsed.devices, "/a b");
  EXPECT_EQ(parsed.sets, std::vector<std::string>{"x=file:///a%20b"});
  EXPECT_EQ(parsed.rest, (std::vector<std::string>{"/c.toml", "s3://b/a%20b"}));
}

TEST(Arguments, EverythingAfterTwoDashesIsNoOption) {
  EXPECT_EQ(parse({"--", "--check"}).rest, std::vector<std::string>{"--check"});
}

}  // namespace
}  // namespace millrace
