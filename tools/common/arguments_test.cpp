#include "common/arguments.h"

#include <gtest/gtest.h>

#include <new>

#include "millrace/error.h"

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
    try {
      parse({option.c_str(), "cpu"});
      FAIL() << "an unknown option was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "there is no option '" + option + "'; nearest is '--devices'; see tool --help");
      EXPECT_EQ(error.kind(), ErrorKind::usage);
    }
  }
}

TEST(Arguments, ProposesSetForAnOptionOfAnotherProgram) {
  try {
    parse({"--weight-decay=0.1"});
    FAIL() << "an unknown option was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "there is no option '--weight-decay'; a key of the file is changed by --set, as --set "
                 "TABLE.weight_decay=VALUE; see tool --help");
  }
}

TEST(Arguments, NamesWhatAnOptionOfAnotherProgramIsCalledHere) {
  for (const auto& [option, meant] : {std::pair("--gpu", "--devices gpu"), std::pair("--data=x", "--set data.path=FOLDER")}) {
    try {
      parse({option});
      FAIL() << option << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(": write ") + meant), std::string::npos) << error.what();
    }
  }
}

TEST(Arguments, RefusesAMissingAndASuperfluousValue) {
  EXPECT_THROW(parse({"--devices"}), Error);
  EXPECT_THROW(parse({"--check=yes"}), Error);
}

TEST(RunTool, SaysWhatMemoryThereIsWhereItHasRunOut) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_tool("tool", []() -> int { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("tool: out of memory: the program holds "), 0U);
}

TEST(Arguments, EverythingAfterTwoDashesIsNoOption) {
  EXPECT_EQ(parse({"--", "--check"}).rest, std::vector<std::string>{"--check"});
}

}  // namespace
}  // namespace millrace
