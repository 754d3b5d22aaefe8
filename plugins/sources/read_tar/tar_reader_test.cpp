#include "tar_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "tar_files_fixture.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testing_tar::MemoryWindow;
using testing_tar::pax_record;
using testing_tar::TarWriter;

// "name@offset+bytes" of each file in the archive; then the error, if there was one.
std::vector<std::string> files(const std::string& archive) {
  MemoryWindow window(archive);
  TarReader reader(window);
  TarMember member;
  std::vector<std::string> found;
  try {
    while (reader.next(member)) {
      if (member.kind == TarMember::Kind::file)
        found.push_back(fmt::format("{}@{}+{}", shown(member.name), member.offset, member.bytes));
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    found.push_back(error.message());
  }
  return found;
}

using Names = std::vector<std::string>;

TEST(TarReader, FindsFilesAndWhereTheirBytesLie) {
  EXPECT_EQ(
      files(TarWriter().file("a.jpg", "abc").file("b/c.cls", std::string(512, 'x')).file("d", "").file("e", "1").end().bytes()),
      (Names{"a.jpg@512+3", "b/c.cls@1536+512", "d@2560+0", "e@3072+1"}));
}

TEST(TarReader, AnEmptyArchiveHasNoMembers) {
  EXPECT_TRUE(files("").empty());
  EXPECT_TRUE(files(TarWriter().end().bytes()).empty());
}

TEST(TarReader, FoldersLinksAndDevicesAreNoFiles) {
  TarWriter tar;
  tar.member("folder/", "", '5').member("hard", "", '1').member("soft", "", '2').member("tty", "", '3').file("a", "1").end();
  EXPECT_EQ(files(tar.bytes()), (Names{"a@2560+1"}));
}

// POSIX.1-2017, pax, "ustar Interchange Format", `typeflag`. A folder's size is its limit, a link's that of its file.
TEST(TarReader, NothingFollowsAFolderOrALinkWhateverItsSizeSays) {
  for (const char type : {'1', '2', '3', '4', '5', '6'}) {
    TarWriter tar;
    tar.file("a", "1").member("b", "", type);
    std::memcpy(tar.header() + 124, "00000002000", 11);  // as long as the next member and its header
    tar.seal().file("c", "3").file("d", "4").end();
    EXPECT_EQ(files(tar.bytes()), (Names{"a@512+1", "c@2048+1", "d@3072+1"})) << type;
  }
}

TEST(TarReader, JoinsThePrefixOfUstar) {
  TarWriter tar;
  tar.file("name.jpg", "1");
  std::memcpy(tar.header() + 345, "far/away", 8);
  EXPECT_EQ(files(tar.seal().end().bytes()), (Names{"far/away/name.jpg@512+1"}));
}

TEST(TarReader, DoesNotTakeTheTimesOfGnuForAPrefix) {
  TarWriter tar;
  tar.file("name.jpg", "1");
  std::memcpy(tar.header() + 257, "ustar  ", 8);
  std::memcpy(tar.header() + 345, "14000000000", 11);
  EXPECT_EQ(files(tar.seal().end().bytes()), (Names{"name.jpg@512+1"}));
}

TEST(TarReader, ReadsTheFormatOfTheSeventhEdition) {
  TarWriter tar;
  tar.file("old", "1");
  std::memset(tar.header() + 257, 0, 8);
  tar.header()[156] = '\0';
  EXPECT_EQ(files(tar.seal().end().bytes()), (Names{"old@512+1"}));
}

TEST(TarReader, ReadsGnuLongNamesAndOnlyForTheNextMember) {
  const std::string name(300, 'n');
  EXPECT_EQ(files(TarWriter().gnu_long(name, "1").file("b", "2").end().bytes()),
            (Names{std::string(200, 'n') + "...@1536+1", "b@2560+1"}));
}

TEST(TarReader, PassesOverLongNamesOfLinks) {
  EXPECT_EQ(files(TarWriter().member("x", std::string(200, 'k'), 'K').file("b", "2").end().bytes()), (Names{"b@1536+1"}));
}

TEST(TarReader, ReadsPaxNamesAndSizes) {
  TarWriter tar;
  tar.pax(pax_record("mtime", "1.5") + pax_record("path", "dir/\xc3\xa4.jpg")).file("short", "12").file("next", "3");
  tar.pax(pax_record("size", "2")).file("a", "12345").end();
  EXPECT_EQ(files(tar.bytes())[0], "dir/\xc3\xa4.jpg@1536+2");
  EXPECT_EQ(files(tar.bytes())[1], "next@2560+1");
  EXPECT_EQ(files(tar.bytes())[2], "a@4608+2");
}

TEST(TarReader, AGlobalPaxHeaderHoldsUntilItIsTakenBack) {
  TarWriter tar;
  tar.pax(pax_record("size", "1"), 'g').file("a", "12").pax(pax_record("size", "2")).file("b", "12").file("c", "12");
  tar.pax(pax_record("size", ""), 'g').file("d", "12").end();
  EXPECT_EQ(files(tar.bytes()), (Names{"a@1536+1", "b@3584+2", "c@4608+1", "d@6656+2"}));
}

TEST(TarReader, ReadsSizesInBase256) {
  TarWriter tar;
  tar.file("a", "123");
  std::memcpy(tar.header() + 124, "\x80\0\0\0\0\0\0\0\0\0\0\3", 12);
  EXPECT_EQ(files(tar.seal().end().bytes()), (Names{"a@512+3"}));
}

TEST(TarReader, RefusesSizesThatAreNone) {
  for (const std::string_view size : {std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
                                      std::string_view("\x80\1\0\0\0\0\0\0\0\0\0\0", 12), std::string_view("0000000001x", 12),
                                      std::string_view("           9", 12)}) {
    TarWriter tar;
    tar.file("first", "1").file("a", "123");
    std::memcpy(tar.header() + 124, size.data(), 12);
    EXPECT_EQ(files(tar.seal().end().bytes()), (Names{"first@512+1", "the size of member 'a' at byte 1024 is not a number"}));
  }
}

TEST(TarReader, RefusesSparseMembersAndVolumes) {
  EXPECT_EQ(files(TarWriter().member("s", "", 'S').bytes()), (Names{"member 's' at byte 0 is sparse: pack it without --sparse"}));
  EXPECT_EQ(files(TarWriter().member("s", "", 'M').bytes()), (Names{"member 's' at byte 0 continues from another volume"}));
  EXPECT_EQ(files(TarWriter().pax(pax_record("GNU.sparse.major", "1")).file("s", "").bytes()),
            (Names{"the member at byte 1024 is sparse: pack it without --sparse"}));
}

TEST(TarReader, NamesTheByteOfAWrongChecksum) {
  TarWriter tar;
  tar.file("a", "1").file("b", "2").end();
  tar.header()[5] = 'x';
  EXPECT_EQ(files(tar.bytes()), (Names{"a@512+1", "expected a tar header at byte 1024, but its checksum is wrong"}));
  EXPECT_MESSAGE(files("this is a text file, not an archive" + std::string(600, '.'))[0]);
  EXPECT_MESSAGE(files("\x1f\x8b" + std::string(1000, 'x'))[0]);
}

TEST(TarReader, AcceptsChecksumsOfSignedBytes) {
  TarWriter tar;
  tar.file("\xe4\xf6\xfc", "1").end();
  std::memset(tar.header() + 148, ' ', 8);
  int sum = 0;
  for (int i = 0; i < 512; ++i) sum += static_cast<signed char>(tar.header()[i]);
  std::memcpy(tar.header() + 148, fmt::format("{:06o}", sum).c_str(), 7);
  EXPECT_EQ(files(tar.bytes()).size(), 1U);
}

TEST(TarReader, NamesTruncatedArchivesWithTheirLastByte) {
  const std::string whole = TarWriter().file("a", "1").file("b", std::string(2000, 'x')).end().bytes();
  EXPECT_MESSAGE(files(whole.substr(0, 3000))[1]);
  EXPECT_MESSAGE(files(whole.substr(0, 1100))[1]);
  const std::string named = TarWriter().gnu_long(std::string(600, 'n'), "1").bytes();
  EXPECT_MESSAGE(files(named.substr(0, 700))[0]);
  EXPECT_MESSAGE(files(named.substr(0, 1536))[0]);
}

TEST(TarReader, DoesWithoutTheZerosAtTheEnd) {
  EXPECT_EQ(files(TarWriter().file("a", "1").bytes()).size(), 1U);
  EXPECT_EQ(files(TarWriter().file("a", "1").bytes().substr(0, 513)), (Names{"a@512+1"}));
}

TEST(TarReader, GoesOnBehindTheZerosOfAnArchive) {
  EXPECT_EQ(files(TarWriter().file("a", "1").end().bytes() + TarWriter().file("b", "2").end().bytes()),
            (Names{"a@512+1", "b@2560+1"}));
}

TEST(TarReader, RefusesDamagedPaxHeaders) {
  for (const std::string records :
       {"12 path=a", "8 path=a\n", "x", "99 path=a\n", "6 path\n", "4 =\n", "11 size=1x\n", "-1 path=a\n", "22 path=a\n"}) {
    const Names found = files(TarWriter().pax(records).file("a", "1").end().bytes());
    EXPECT_EQ(found[0], "the pax header before byte 1024 is damaged") << records;
  }
}

TEST(TarReader, LimitsExtendedHeadersAndNames) {
  TarWriter tar;
  tar.member("x", "", 'L');
  std::memcpy(tar.header() + 124, "77777777777", 11);
  EXPECT_MESSAGE(files(tar.seal().bytes())[0]);
  EXPECT_MESSAGE(files(TarWriter().gnu_long(std::string(5000, 'n'), "1").bytes())[0]);
}

TEST(TarWindow, SmallMembersCostFewFetches) {
  TarWriter tar;
  for (int i = 0; i < 4000; ++i) tar.file(std::to_string(i), "x");
  MemoryWindow window(tar.end().bytes());
  TarReader reader(window);
  TarMember member;
  while (reader.next(member)) {
  }
  EXPECT_LE(window.fetches(), 6U);
}

TEST(TarWindow, OfLargeMembersLittleMoreThanTheHeadersIsFetched) {
  TarWriter tar;
  for (int i = 0; i < 8; ++i) tar.file(std::to_string(i), std::string(8 << 20, 'x'));
  MemoryWindow window(tar.end().bytes());
  TarReader reader(window);
  TarMember member;
  int members = 0;
  while (reader.next(member)) ++members;
  EXPECT_EQ(members, 8);
  EXPECT_LE(window.fetched(), std::size_t{3} << 20);
}

// Archives from Debian's tar, in each of its formats, including long names.
class RealTar : public testing::TestWithParam<const char*> {};

TEST_P(RealTar, IsReadInFull) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no tar";
  const testing_tar::Folder folder;
  const bool ustar = std::string_view(GetParam()) == "ustar";
  const std::string deep = std::string(ustar ? 60 : 150, 'd') + "/" + std::string(ustar ? 60 : 180, 'n') + ".jpg";
  for (const std::string& name : {std::string("a.jpg"), std::string("a.cls"), std::string("\xc3\xa4.jpg"), deep})
    folder.write("in/" + name, "of " + name);
  const std::string command =
      fmt::format("tar --format={} --sort=name -C '{}' -cf '{}' .", GetParam(), folder / "in", folder / "out.tar");
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(folder / "out.tar", std::ios::binary);
  const std::string archive{std::istreambuf_iterator<char>(file), {}};
  MemoryWindow window(archive);
  TarReader reader(window);
  TarMember member;
  std::size_t found = 0;
  while (reader.next(member)) {
    if (member.kind != TarMember::Kind::file) continue;
    ++found;
    EXPECT_EQ("of " + member.name.substr(2), archive.substr(member.offset, member.bytes));  // "./a.jpg"
  }
  EXPECT_EQ(found, 4U);
}

INSTANTIATE_TEST_SUITE_P(Format, RealTar, testing::Values("ustar", "gnu", "pax"),
                         [](const auto& format) { return std::string(format.param); });

}  // namespace
}  // namespace millrace
