#include "write_batches.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace {
namespace {

class WriteBatchesTest : public testing::Test {
 protected:
  WriteBatchesTest() {
    run_.set_folder(folder_.path());
    context_.graph = "train";
    context_.window = {2, 2, 3};
    context_.classes = {"cat", "Γάτα", "朴素"};
    context_.run = &run_;
  }
  std::unique_ptr<testkit::Harness> made(std::int64_t images) {
    auto harness = std::make_unique<testkit::Harness>(StageTypeAccess::make<WriteBatches>(),
                                                      testkit::table({{"images", Value(images)}}), context_);
    harness->stage().open();
    return harness;
  }
  Ref<Batch> batch(std::uint64_t epoch, std::uint64_t step, const std::vector<std::int32_t>& labels) const {
    Ref<Batch> made = testkit::make_batch(static_cast<std::uint32_t>(labels.size()), context_.window);
    made->epoch = epoch;
    made->step = step;
    std::copy(labels.begin(), labels.end(), made->labels);
    return made;
  }
  bool is_picture(const char* name) const {
    std::ifstream file(folder_.path() / name, std::ios::binary);
    char begin[4] = {};
    return file.read(begin, 4) && std::string_view(begin, 4) == "\x89PNG";
  }

  testkit::TestFolder folder_;
  testkit::RecordedRun run_;
  StepContext context_;
};

TEST_F(WriteBatchesTest, DrawsTheFirstImagesAndTheLabelsOfTheFirstEpoch) {
  const auto harness = made(3);
  harness->feed(testkit::packet(batch(0, 0, {0, 1}), 0));
  harness->feed(testkit::packet(batch(0, 1, {2, 2}), 1));
  EXPECT_FALSE(is_picture("labels.png")) << "the epoch is not done";
  harness->feed(testkit::packet(batch(1, 2, {0, 0}), 2));
  harness->stage().stop();
  EXPECT_TRUE(is_picture("first_batches.png"));
  EXPECT_TRUE(is_picture("labels.png"));
  EXPECT_TRUE(run_.warnings().empty());
}

TEST_F(WriteBatchesTest, DrawsWhatThereIsOfARunThatEndsEarly) {
  const auto harness = made(48);
  harness->feed(testkit::packet(batch(0, 0, {0, 1}), 0));
  harness->stage().stop();
  harness->stage().stop();
  EXPECT_TRUE(is_picture("first_batches.png"));
  EXPECT_TRUE(is_picture("labels.png"));
}

TEST_F(WriteBatchesTest, DrawsTheFirstBatchesInWhicheverOrderTheyCome) {
  const auto harness = made(3);
  harness->feed(testkit::packet(batch(0, 1, {2, 2}), 0));
  harness->feed(testkit::packet(batch(0, 2, {1, 1}), 1));
  harness->feed(testkit::packet(batch(0, 0, {0, 1}), 2));
  harness->feed(testkit::packet(batch(1, 4, {0, 0}), 3));
  EXPECT_FALSE(is_picture("labels.png")) << "step 3 is of the first epoch, and still to come";
  harness->feed(testkit::packet(batch(0, 3, {0, 1}), 4));
  harness->stage().stop();
  EXPECT_TRUE(is_picture("first_batches.png"));
  EXPECT_TRUE(is_picture("labels.png"));
}

TEST_F(WriteBatchesTest, KeepsThePicturesOfTheBeginningWhereARunResumes) {
  const auto harness = made(2);
  harness->feed(testkit::packet(batch(0, 7, {0, 1}), 7));
  harness->stage().stop();
  EXPECT_FALSE(is_picture("first_batches.png"));
  EXPECT_FALSE(is_picture("labels.png"));
}

TEST_F(WriteBatchesTest, HasNoLabelsOfNumbersAndNoFilesWithoutAFolder) {
  {
    const auto harness = made(2);
    const Ref<Batch> numbers = batch(0, 0, {-1, -1});
    std::vector<float> values = {1.5F, 2, 3, 4};
    numbers->numbers = values.data();
    numbers->numbers_per_sample = 2;
    harness->feed(testkit::packet(numbers, 0));
    harness->stage().stop();
    EXPECT_TRUE(is_picture("first_batches.png"));
    EXPECT_FALSE(is_picture("labels.png"));
  }
  run_.set_folder({});
  const auto harness = made(2);
  harness->feed(testkit::packet(batch(0, 0, {0, 1}), 0));
  harness->stage().stop();
}

TEST_F(WriteBatchesTest, WarnsWhereNothingCanBeWritten) {
  run_.set_folder(folder_.path() / "file");
  std::ofstream(folder_.path() / "file") << "in the way";
  const auto harness = made(2);
  harness->feed(testkit::packet(batch(0, 0, {0, 1}), 0));
  harness->stage().stop();
  ASSERT_EQ(run_.warnings().size(), 2U);
  EXPECT_NE(run_.warnings()[0].find("cannot write first_batches.png: "), std::string::npos) << run_.warnings()[0];
}

}  // namespace
}  // namespace millrace
