#include "testkit/messages.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "testkit/files.h"

namespace millrace::testkit {
namespace {

namespace fs = std::filesystem;

std::string written(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(MessagesFile, KeepsTheMessagesOfOtherTests) {
  const TestFolder folder;
  const std::string file = folder / "messages.txt";
  write_messages(file, "Crop.B", {"one", "two\n\n  lines"});
  write_messages(file, "Crop.A", {"[table]: a key"});
  EXPECT_EQ(written(file), "[Crop.A]\n- [table]: a key\n\n[Crop.B]\n- one\n- two\n\n    lines\n");
  EXPECT_EQ(read_messages(file), (Messages{{"Crop.A", {"[table]: a key"}}, {"Crop.B", {"one", "two\n\n  lines"}}}));
  write_messages(file, "Crop.A", {});
  EXPECT_EQ(read_messages(file), (Messages{{"Crop.B", {"one", "two\n\n  lines"}}}));
}

TEST(MessagesFile, NamesWhatVaries) {
  const TestFolder folder;
  EXPECT_EQ(normalised("'" + folder / "a.png" + "', '" MILLRACE_SOURCE_DIR "/b', " MILLRACE_BINARY_DIR "/c on 1234\n",
                       {{"1234", "PORT"}}),
            "'TMP/a.png', 'SOURCE/b', BUILD/c on PORT");
  EXPECT_EQ(normalised("runs/2026-11-29T12-58-50/latest.new-1234: 2026-11-29T12-59-00, 2026-11-29T12-58-50"),
            "runs/RUN/latest.new-PID: RUN2, RUN");
}

TEST(ExpectMessage, ComparesInOrder) {
  for (const std::string message : {"first", "second\nline"}) EXPECT_MESSAGE(message);
}

TEST(ExpectMessage, FailsIfAMessageDiffersOrIsMissing) {
  if (std::getenv("MILLRACE_UPDATE_MESSAGES")) GTEST_SKIP() << "nothing differs now";  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NONFATAL_FAILURE(EXPECT_MESSAGE("another"), "is\nanother\nbut ");
  EXPECT_NONFATAL_FAILURE(EXPECT_MESSAGE("second"), " lacks message 2 of [ExpectMessage.FailsIfAMessageDiffersOrIsMissing]");
}

// Runs itself again in a process that compares only the first message.
TEST(ExpectMessage, FailsIfTheFileListsMore) {
  EXPECT_MESSAGE("compared by both processes");
  if (std::getenv("ENDS_EARLY")) return;  // NOLINT(concurrency-mt-unsafe)
  EXPECT_MESSAGE("compared by one");
  const TestFolder folder;
  const std::string command = "env -u MILLRACE_UPDATE_MESSAGES ENDS_EARLY=1 " + fs::read_symlink("/proc/self/exe").string() +
                              " --gtest_filter=ExpectMessage.FailsIfTheFileListsMore > " + folder / "out";
  EXPECT_NE(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  const std::string out = written(folder / "out");
  EXPECT_NE(out.find("lists more messages of [ExpectMessage.FailsIfTheFileListsMore]"), std::string::npos) << out;
}

}  // namespace
}  // namespace millrace::testkit
