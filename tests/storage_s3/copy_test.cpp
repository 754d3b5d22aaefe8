// pipeline-data copy: to a bucket and back, and continuing after a stop.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "pipelines/command.h"
#include "pipelines/running_program.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

namespace fs = std::filesystem;
using millrace::test::Outcome;
using millrace::test::read_file;
using millrace::test::run_command;
using millrace::test::tool;

// By path below the folder.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

TEST(Copy, BringsAFolderToABucketAndBackAndGoesOn) {
  if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data", root = folder.path() / "buckets";
  fs::create_directories(root / "photos");
  for (const auto& [name, size] :
       {std::pair("train/cat/1.jpg", 20'000), {"train/a dog/2 ä.jpg", 70'000}, {"labels.csv", 10}, {"none", 0}}) {
    fs::create_directories((data / name).parent_path());
    std::ofstream(data / name, std::ios::binary) << content(static_cast<std::size_t>(size), 3);
  }
  Server server(root, 2);
  const auto copy = [&](const std::string& from, const std::string& to) {
    millrace::test::Words words = {"/usr/bin/env"};
    for (const auto& [name, value] : patient(variables(server.url()))) words.push_back(name + "=" + value);
    words.insert(words.end(), {tool("pipeline-data"), "copy", from, to});
    const Outcome outcome = succeeded(run_command(words));
    return outcome.out;
  };
  EXPECT_EQ(copy(data, "s3://photos/set"), "4 objects copied, 0.1 MB; 0 there already\n");
  const std::string back = (folder.path() / "back").string();
  EXPECT_EQ(copy("s3://photos/set/", back), "4 objects copied, 0.1 MB; 0 there already\n");
  EXPECT_EQ(files_in(back), files_in(data));

  fs::remove(fs::path(back) / "labels.csv");
  std::ofstream(fs::path(back) / "none") << "of another size";
  EXPECT_EQ(copy("s3://photos/set", back), "2 objects copied, 0.0 MB; 2 there already\n");
  EXPECT_EQ(files_in(back), files_in(data));
}

TEST(Copy, NamesLinksThatLeadNowhereAndCopiesTheRest) {
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data", to = folder.path() / "to";
  fs::create_directories(data / "a");
  std::ofstream(data / "a/file") << "whole";
  fs::create_symlink("file", data / "a/link");
  fs::create_symlink("gone", data / "a/broken");
  const std::string place = "in '" + data.string() + "' and ";
  const Outcome one = run_command({tool("pipeline-data"), "copy", data, to});
  EXPECT_EQ(one.code, 3) << one.err;
  EXPECT_EQ(one.err, "warning: a link leads nowhere " + place + "is not copied: 'a/broken'\n");
  EXPECT_EQ(one.out, "2 objects copied, 0.0 MB; 0 there already\n");
  EXPECT_EQ(files_in(to), (std::map<std::string, std::string>{{"a/file", "whole"}, {"a/link", "whole"}}));

  for (int i = 0; i < 6; ++i) fs::create_symlink("gone", data / ("b" + std::to_string(i)));
  const Outcome many = run_command({tool("pipeline-data"), "copy", data, to});
  EXPECT_EQ(many.code, 3);
  EXPECT_EQ(many.err,
            "warning: 7 links lead nowhere " + place + "are not copied: 'a/broken', 'b0', 'b1', 'b2', 'b3' and 2 more\n");
}

// Two files of one size alternate under one name: the copy is one of them, or nothing.
TEST(Copy, NeverMixesTwoVersionsOfAFile) {
  const TemporaryFolder folder;
  const fs::path data = folder.path() / "data", name = data / "weights.bin", to = folder.path() / "to";
  const std::string one(std::size_t{40} << 20, '1'), other(one.size(), '2');
  fs::create_directories(data);
  std::ofstream(name) << one;
  std::atomic<bool> is_over = false;
  std::thread replacing([&] {
    for (int i = 0; !is_over; ++i) {
      std::ofstream(folder.path() / "next") << (i % 2 == 0 ? other : one);
      fs::rename(folder.path() / "next", name);
    }
  });
  for (int i = 0; i < 5; ++i) {
    fs::remove_all(to);
    const Outcome outcome = run_command({tool("pipeline-data"), "copy", data, to});
    if (outcome.code != 0) {
      EXPECT_NE(outcome.err.find("weights.bin' was replaced while it was copied: copy it again"), std::string::npos)
          << outcome.err;
      EXPECT_TRUE(!fs::exists(to) || files_in(to).empty());
      continue;
    }
    const std::string copied = read_file(to / "weights.bin");
    EXPECT_TRUE(copied == one || copied == other) << "it is mixed";
  }
  is_over = true;
  replacing.join();
}

}  // namespace
}  // namespace millrace::s3::test
