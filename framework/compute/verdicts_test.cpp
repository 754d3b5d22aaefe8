#include "millrace/backend/verdicts.h"

#include <gtest/gtest.h>

#include "testkit/files.h"

namespace millrace {
namespace {

TEST(Verdicts, OutliveTheProcessAndAreForgottenWhereDamaged) {
  const testkit::TestFolder folder;
  const std::filesystem::path file = folder / "deeper/verdicts";
  {
    Verdicts verdicts(file);
    EXPECT_FALSE(verdicts.find("a"));
    verdicts.put("a", "");
    verdicts.put("b", "3 of 7 are wrong");
    EXPECT_EQ(verdicts.find_or("c", [] { return Fault("asked"); }), "asked");
  }
  EXPECT_EQ(Verdicts(file).find("a"), "");
  EXPECT_EQ(Verdicts(file).find("b"), "3 of 7 are wrong");
  EXPECT_EQ(Verdicts(file).find_or("c", [] { return Fault("asked again"); }), "asked");

  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t i = 0; i < text.size(); ++i) {  // one damaged byte, and a truncated file
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    folder.write("damaged", damaged);
    folder.write("short", text.substr(0, i));
    for (const char* const name : {"damaged", "short"}) {
      const Verdicts verdicts(std::filesystem::path(folder / name));
      EXPECT_EQ(verdicts.find("a").value_or(""), "");
      EXPECT_EQ(verdicts.find("b").value_or("3 of 7 are wrong"), "3 of 7 are wrong");
    }
  }
}

TEST(Verdicts, AreKeptInMemoryWhereTheFileCannotBe) {
  const testkit::TestFolder folder;
  Verdicts verdicts(std::filesystem::path(folder.write("file") + "/below"));
  verdicts.put("a", "wrong");
  EXPECT_EQ(verdicts.find("a"), "wrong");
  int warned = 0;
  for (int i = 0; i < 2; ++i) verdicts.warn_once("a", "text", [&](std::string_view) { ++warned; });
  EXPECT_EQ(warned, 1);
}

}  // namespace
}  // namespace millrace
