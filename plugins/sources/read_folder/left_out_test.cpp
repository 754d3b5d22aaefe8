// Files that a folder contains but that are not read, and folders that are not classes.
#include "read_folder_fixture.h"

#include "testkit/messages.h"

#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

TEST_F(ReadFolderTest, WhatSeemsToBeAnImageAndIsLeftOutIsCounted) {
  write("cat/b.WEBP");
  auto given = params();
  EXPECT_MESSAGE(error_of(given).message());
  for (const char* name : {"cat/a.jpg", "cat/c.tif", "cat/d.jpg.1", "cat/IMG_0001", "cat/e\x1b.png~"}) write(name);
  fs::create_symlink("gone", root_ / "cow");
  EXPECT_EQ(opened(given)->size(), 1U);
  EXPECT_EQ(warnings_.warnings(),
            (std::vector<std::string>{fmt::format("left out of '{}': 5 files without the extension .jpg, .jpeg, .png, such as "
                                                  "'cat/IMG_0001'; 1 broken link, 'cow'",
                                                  given.path)}));
  given.extensions = {"jpg", "webp", "tif", "1", "png~"};
  EXPECT_EQ(opened(given)->size(), 5U);
}

// The layout of an unpacked macOS archive, next to an empty folder.
TEST_F(ReadFolderTest, AFolderThatHoldsHiddenFilesAloneIsNoClass) {
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "__MACOSX/cat/._1.jpg", "lost+found/1.jpg", "new/.keep"}) write(name);
  EXPECT_EQ(opened(params())->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(warnings_.warnings(), (std::vector<std::string>{fmt::format(
                                      "left out of '{}': 1 folder with only hidden files, 'new/'", root_.path().string())}));
}

TEST_F(ReadFolderTest, FoldersAndFilesCanBeLeftOut) {
  for (const char* name : {"cat/1.jpg", "cat/thumbs/1.jpg", "cat/2.jpg", "drafts/a/1.jpg", "dog/1.jpg"}) write(name);
  auto given = params();
  given.leave_out = {"drafts", "*/thumbs", "cat/2.*"};
  const auto source = opened(given);
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(source->size(), 2U);
  EXPECT_TRUE(warnings_.warnings().empty());
}

TEST_F(ReadFolderTest, ClassFoldersThatHoldFoldersAloneAreWarnedAbout) {
  for (const char* name : {"train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg"}) write(name);
  opened(params());
  const std::string folder = root_.path().string();
  EXPECT_MESSAGE(warnings_.warnings().back());
  write("mixed/1.jpg");
  opened(params());
  EXPECT_MESSAGE(warnings_.warnings().back());
  EXPECT_EQ(opened(labelled("^([^/]+)/"))->classes().size(), 3U);
  EXPECT_EQ(warnings_.warnings().size(), 2U);
}

// The layout of BUSI: masks would be learned as photographs.
TEST_F(ReadFolderTest, MasksBesideTheirPhotographsAreWarnedAbout) {
  for (const char* name : {"benign/1 (1).png", "benign/1 (10).png", "benign/1 (1)_mask.png", "benign/1 (1)_mask_1.png"})
    write(name);
  for (const char* name : {"ill/2.jpg", "ill/2_Mask.png", "ill/3_mask.png", "ill/a_mask/4.png"}) write(name);
  auto given = params();
  EXPECT_EQ(opened(given)->size(), 8U);
  const std::string names = R"(["*_Mask.*", "*_mask.*", "*_mask_?.*"])";
  EXPECT_EQ(warnings_.warnings(),
            std::vector<std::string>{
                fmt::format("'{0}' has 3 files named like masks of other photographs, such as 'benign/1 (1)_mask.png', which are "
                            "read as photographs: leave_out = {1} skips them; with data.path, --set 'data.leave_out={1}' does",
                            given.path, names)});
  given.leave_out = {"*_Mask.*", "*_mask.*", "*_mask_?.*"};
  EXPECT_EQ(opened(given)->size(), 4U) << "a folder of such a name stays";
  EXPECT_EQ(warnings_.warnings().size(), 1U);
  given = params();
  given.labels = "none";
  opened(given);
  EXPECT_EQ(warnings_.warnings().size(), 1U);
}

// A Latin-1 name from an old archive: it is stored in files that only contain UTF-8, and must be found again from them.
TEST_F(ReadFolderTest, AClassWhoseNameIsNoUtf8HasOneThatCanBeGiven) {
  write("ni\xf1o/1.jpg");
  write("a/1.jpg");
  auto given = params();
  EXPECT_EQ(opened(given)->classes(), (std::vector<std::string>{"a", "ni\\xf1o"}));
  given.classes = {"ni\\xf1o", "a"};
  EXPECT_EQ(opened(given)->label(1), 0);
  write("ni\\xf1o/1.jpg");  // another folder whose name equals the first one's as text
  const Error error = testkit::error_of([&] { opened(params()); });
  EXPECT_NE(error.message().find("two folders of '"), std::string::npos) << error.message();
}

TEST_F(ReadFolderTest, PassesOverOtherFilesAndHiddenOnes) {
  write("cat/a.jpg");
  write("cat/a.txt");
  write("cat/jpg");
  write("cat/._a.jpg");
  write(".git/x/a.jpg");
  write("readme.txt");
  EXPECT_EQ(opened(params())->size(), 1U);
  EXPECT_TRUE(warnings_.warnings().empty());
}

TEST_F(ReadFolderTest, AClassWithoutImagesKeepsItsLabelAndIsWarnedAbout) {
  write("a/1.jpg");
  fs::create_directories(root_ / "b");
  write("c/1.jpg");
  const auto source = opened(params());
  EXPECT_EQ(source->classes().size(), 3U);
  EXPECT_EQ(path_of(*source, 1), "c/1.jpg:2");
  ASSERT_EQ(warnings_.warnings().size(), 1U);
  EXPECT_MESSAGE(warnings_.warnings()[0]);
  fs::create_directories(root_ / "d");
  opened(params());
  EXPECT_MESSAGE(warnings_.warnings().back());
}

TEST_F(ReadFolderTest, APatternThatLeavesNothingOutIsWarnedOf) {
  write("a/1.jpg");
  write("drafts/1.jpg");
  auto mistyped = params();
  mistyped.leave_out = {"draft"};
  EXPECT_EQ(opened(mistyped)->classes().size(), 2U);
  ASSERT_EQ(warnings_.warnings().size(), 1U);
  EXPECT_MESSAGE(warnings_.warnings()[0]);
}

}  // namespace
}  // namespace millrace
