// Members that shards contain but that are not read, and paths that look like patterns.
#include "read_tar_fixture.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

using testing_tar::TarWriter;
using Texts = std::vector<std::string>;

TEST_F(ReadTarTest, ImagesThatAreNoSamplesAreCounted) {
  folder_.write("a.tar", TarWriter()
                             .file("0.jpg", "x")
                             .file("0.depth.png", "a companion")
                             .file("1.1.jpg", "lost")
                             .file("1.1.cls", "1")
                             .file("2.webp", "lost")
                             .file("._3.1.jpg", "hidden")
                             .file("photo.final.jpg", "lost, though it looks like a companion")
                             .end()
                             .bytes());
  const std::string left_out = fmt::format(
      "left out of '{}': 2 images whose names have a dot before their ending, such as '1.1.jpg'; 1 image without the extension "
      ".jpg, .jpeg or .png, '2.webp'; key_ends = \"last-dot\" reads names up to their last dot",
      folder_.path().string());
  for (int round = 0; round < 2; ++round) {  // the second one uses the index kept by the first one
    EXPECT_EQ(opened({})->size(), 1U);
    EXPECT_EQ(run_.warnings(), Texts(static_cast<std::size_t>(round) + 1, left_out));
  }
  ReadTar::Params last_dot;
  last_dot.key_ends = "last-dot";
  const auto source = opened(last_dot);
  ASSERT_EQ(source->size(), 4U);
  EXPECT_EQ(read(*source, 2).substr(0, 14), "1.1.jpg=lost:1");
  last_dot.target = "image";
  EXPECT_EQ(error_of(last_dot).kind(), ErrorKind::usage);
}

TEST_F(ReadTarTest, WithoutASampleItSaysWhatThereIs) {
  folder_.write("a.tar", TarWriter().file("1.1.jpg", "x").end().bytes());
  const std::string said = error_of({}).message();
  EXPECT_MESSAGE(said);
}

// A last dot would separate these images from their labels.
TEST_F(ReadTarTest, AnImageWhoseNameGoesOnAfterItsLabelsIsNoMatterOfDots) {
  folder_.write("a.tar",
                TarWriter().file("1.cls", "0").file("1.left.jpg", "x").file("2.cls", "1").file("2.left.jpg", "x").end().bytes());
  const auto source = opened({});
  ASSERT_EQ(run_.warnings().size(), 2U);
  EXPECT_MESSAGE(run_.warnings()[0]);
  EXPECT_EQ(run_.warnings()[0].find("last-dot"), std::string::npos) << run_.warnings()[0];
  EXPECT_MESSAGE(run_.warnings()[1]);
}

TEST_F(ReadTarTest, LabelsOfAnotherKindAreNamed) {
  folder_.write("A.TAR", TarWriter()
                             .file("1.jpg", "x")
                             .file("1.json", R"({"label": 0.0})")
                             .file("2.jpg", "x")
                             .file("2.json", R"({"label": [0]})")
                             .end()
                             .bytes());
  ReadTar::Params params;
  params.label = "label";
  EXPECT_EQ(opened(params)->label(0), 0);
  EXPECT_EQ(run_.warnings(), Texts{fmt::format("1 of the 2 samples in '{}' have no label, and are bad samples: '2.json' has a "
                                               "list where a name or a whole number from 0 on is expected",
                                               folder_.path().string())});
}

TEST_F(ReadTarTest, LabelsInMembersThatAreNotReadAreNamed) {
  folder_.write("a.tar",
                TarWriter().file("1.jpg", "x").file("1.txt", "a cat").file("1.json", R"({"id": 7, "label": 0})").end().bytes());
  opened({});
  EXPECT_EQ(run_.warnings(),
            Texts{fmt::format("no sample in '{}' has a label in a .cls member, but there is '1.json' with 'id', "
                              "'label': label = \"FIELD\" reads a field of "
                              "the .json members, with data.path --set data.label=FIELD; no key reads .txt members",
                              folder_.path().string())});
  ReadTar::Params params;
  params.label = "label";
  EXPECT_EQ(opened(params)->label(0), 0);
  params = {};
  params.labels = "none";
  opened(params);
  EXPECT_EQ(run_.warnings().size(), 1U);
  folder_.write("a.tar", TarWriter().file("1.jpg", "x").file("1.txt", "0").end().bytes());
  opened({});
  EXPECT_MESSAGE(run_.warnings().back());
}

TEST_F(ReadTarTest, AShardOfNoBytesIsADownloadThatFailed) {
  folder_.write("a.tar", TarWriter().file("a.jpg", "x").end().bytes());
  folder_.write("b.tar", "");
  const Error error = error_of({});
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.what());
}

TEST_F(ReadTarTest, ShardsThatEndTooSoonOrTooLateAreNamed) {
  folder_.write("a.tar", TarWriter().file("a.jpg", "x").bytes());
  folder_.write("b.tar", TarWriter().file("b.jpg", "x").end().raw(std::string(2 << 20, '\0')).bytes());
  folder_.write("c.tar", TarWriter().end().bytes());
  folder_.write("e.tar", std::string(20'480, '\0'));
  folder_.write("d.tar.gz", "x");
  EXPECT_EQ(opened({})->size(), 2U);
  EXPECT_EQ(run_.warnings(), (Texts{fmt::format("left out of '{}': 1 compressed shard, 'd.tar.gz'", folder_.path().string()),
                                    fmt::format("1 shard has no end (zeros), '{}'; 1 shard ends in more than a megabyte of "
                                                "zeros, '{}'; 1 shard contains only zeros, '{}': are they truncated?",
                                                folder_ / "a.tar", folder_ / "b.tar", folder_ / "e.tar")}));
}

TEST_F(ReadTarTest, APathThatExistsIsTakenAsItIsWritten) {
  const std::string shard = TarWriter().file("a.jpg", "x").end().bytes();
  for (const char* name : {"set [1]/a.tar", "set {a}/a.tar", "set {a}/b.tar", "x*/[0].tar", "set 1/c.tar"})
    folder_.write(name, shard);
  const std::pair<const char*, std::uint64_t> paths[] = {{"set [1]", 1},        {"set [1]/a.tar", 1},     {"set {a}", 2},
                                                         {"set {a}/*.tar", 2},  {"set {a}/{a,b}.tar", 2}, {"x*/[0].tar", 1},
                                                         {"set [0-9]/*.tar", 1}};
  for (const auto& [path, samples] : paths) {
    ReadTar::Params params;
    params.path = folder_ / path;
    EXPECT_EQ(opened(params)->size(), samples) << path;
  }
}

TEST_F(ReadTarTest, ClassesWithoutSamplesAndNamesThatAreNoUtf8AreToldOf) {
  folder_.write("a.tar", TarWriter().file("a.jpg", "x").file("a.cls", "1").file("b.jpg", "x").file("b.cls", "2").end().bytes());
  opened({});
  EXPECT_EQ(run_.warnings(),
            (Texts{fmt::format("class '0' has no sample in '{}', but all others have some: do its labels begin with 1?",
                               folder_.path().string())}));
  folder_.write("a.tar", TarWriter().file("a.jpg", "x").file("a.cls", "ni\xf1o").end().bytes());
  EXPECT_EQ(opened({})->classes(), Texts{"ni\\xf1o"});
  folder_.write("classes.txt", "dog\rni\xf1o\r");  // of an old Mac
  EXPECT_EQ(opened({})->label(0), 1);
}

}  // namespace
}  // namespace millrace
