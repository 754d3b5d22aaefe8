#include "millrace/util/data_names.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(DataNames, PartsAreKnownWithWordsAndDigitsAroundThem) {
  const auto shown = [](std::string_view name) {
    const auto found = part_name(name);
    if (!found) return std::string("none");
    return std::string(found->part == DataPart::train      ? "train"
                       : found->part == DataPart::validate ? "validate"
                                                           : "other") +
           ":" + found->rest;
  };
  for (const char* name : {"train", "Training", "train2017", "train_images", "training_set", "trainset", "train-data", "TRAIN1"})
    EXPECT_EQ(shown(name), "train:") << name;
  for (const char* name : {"val", "val2017", "test_images", "Testing", "valid_set", "eval", "dev", "testset", "val-000000"})
    EXPECT_EQ(shown(name), "validate:") << name;
  EXPECT_EQ(shown("seg_train"), "train:seg");
  EXPECT_EQ(shown("seg_test"), "validate:seg");
  EXPECT_EQ(shown("fold3"), "other:");
  for (const char* name : {"trainer", "valley", "cat", "1", "", "contest", "train_test"}) EXPECT_EQ(shown(name), "none") << name;
  EXPECT_LT(part_name("val")->rank, part_name("test")->rank);
}

TEST(DataNames, FoldersOfTheSystemAreKnown) {
  for (const char* name : {"#recycle", "@Recycle", "#snapshot", "RECYCLER", "$RECYCLE.BIN", "lost+found", "@eaDir", "__MACOSX"})
    EXPECT_TRUE(is_system_folder(name)) << name;
  for (const char* name : {"recycled", "snapshot", "cat", ""}) EXPECT_FALSE(is_system_folder(name)) << name;
}

TEST(DataNames, FilesOfOtherProgramsHaveARemedy) {
  EXPECT_MESSAGE(remedy_for("a/b.ZIP"));
  EXPECT_MESSAGE(remedy_for("list.csv.gz"));
  EXPECT_NE(remedy_for("train-images-idx3-ubyte.gz").find("gunzip"), std::string::npos);
  EXPECT_NE(remedy_for("data_batch_1").find("the binary version"), std::string::npos);
  EXPECT_NE(remedy_for("IMG_1.HEIC").find("convert it"), std::string::npos);
  EXPECT_EQ(remedy_for("a.jpg"), "");
}

TEST(DataNames, TextsThatLookEqualAreToldApart) {
  EXPECT_TRUE(looks_equal("caf\xc3\xa9", "cafe\xcc\x81"));
  EXPECT_TRUE(looks_equal("A01.JPG", "a01.jpg"));
  EXPECT_FALSE(looks_equal("a", "a"));
  EXPECT_TRUE(looks_equal("\xc3\x89", "e\xcc\x81"));
  for (const char* other : {"cafe", "caf\xc3\xa8", "cafe\xcc\x82"}) EXPECT_FALSE(looks_equal("caf\xc3\xa9", other)) << other;
  EXPECT_EQ(escaped_text("caf\xc3\xa9"), "caf\\xc3\\xa9");
}

}  // namespace
}  // namespace millrace
