#include "read_cifar.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// The scheme "file", in its simplest form.
class LocalFiles : public Storage {
 public:
  Kind kind(const std::string& url) override {
    if (!fs::exists(url)) fail(ErrorKind::data, "'{}' does not exist", url);
    return fs::is_directory(url) ? Kind::folder : Kind::object;
  }
  void list(const std::string& url, const std::function<void(Object)>& found) override {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(url)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) found(stat(url + "/" + name));
  }
  Object stat(const std::string& url) override {
    kind(url);
    return {fs::path(url).filename(), fs::file_size(url), std::to_string(fs::last_write_time(url).time_since_epoch().count())};
  }
  void read(const std::string& url, ByteBuffer& out) override {
    const auto size = static_cast<std::size_t>(stat(url).bytes);
    read(url, 0, size, out.resize(size));
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    std::ifstream file(url, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    if (!file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(size)))
      fail(ErrorKind::storage, "'{}' is too short", url);
  }
};

// Pixel i of plane c is 50 * c + seed + i (mod 256).
std::string record(std::initializer_list<int> labels, int seed) {
  std::string bytes;
  for (const int label : labels) bytes += static_cast<char>(label);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 32 * 32; ++i) bytes += static_cast<char>(50 * c + seed + i);
  }
  return bytes;
}

class ReadCifarTest : public testing::Test {
 protected:
  ReadCifarTest() {
    root_ = fs::path(testing::TempDir()) /
            fmt::format("millrace_read_cifar_{}_{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);  // from a killed test
    fs::create_directories(root_);
    registry_.add(StorageType{{"file", "files"}, std::make_shared<LocalFiles>()});
    context_.registry = &registry_;
  }
  ~ReadCifarTest() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& bytes) { std::ofstream(root_ / name, std::ios::binary) << bytes; }
  std::shared_ptr<ReadCifar> opened(const std::string& name = "", std::optional<std::string> set = {},
                                    const std::string& labels = "fine") {
    ReadCifar::Params params;
    params.path = name.empty() ? root_.string() : (root_ / name).string();
    params.set = set;
    params.labels = labels;
    auto source = std::make_shared<ReadCifar>(params, context_);
    source->open();
    return source;
  }
  Error error_of(const std::string& name, std::optional<std::string> set = {}, const std::string& labels = "fine") {
    try {
      opened(name, set, labels);
    } catch (const Error& error) {
      return error;
    }
    return {ErrorKind::run, ""};
  }
  static Sample read(ReadCifar& source, std::uint64_t index) {
    Sample sample;
    sample.key.index = index;
    source.read(sample);
    return sample;
  }

  fs::path root_;
  Registry registry_;
  StepContext context_;
};

TEST_F(ReadCifarTest, ReadsTheFilesOfASetOneAfterTheOther) {
  write("data_batch_1.bin", record({3}, 0) + record({9}, 1));
  write("data_batch_2.bin", record({0}, 2));
  write("test_batch.bin", record({5}, 3));
  const auto train = opened(), test = opened("", "test");
  ASSERT_EQ(train->size(), 3U);
  EXPECT_EQ(train->label(1), 9);
  EXPECT_EQ(train->label(2), 0);
  const Sample sample = read(*train, 2);
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(sample.url, (root_ / "data_batch_2.bin").string());
  EXPECT_EQ(sample.offset, 0U);
  EXPECT_EQ(read(*train, 1).offset, 3073U);
  ASSERT_EQ(test->size(), 1U);
  EXPECT_EQ(test->label(0), 5);
}

TEST_F(ReadCifarTest, TheListingsHashFollowsLabelsInTheirOrderWhereverTheFilesLie) {
  fs::create_directory(root_ / "here");
  write("here/data_batch_1.bin", record({3}, 0) + record({9}, 1));
  write("here/data_batch_2.bin", record({0}, 2));
  const std::uint64_t first = opened("here")->listing_hash();
  fs::copy(root_ / "here", root_ / "there");
  EXPECT_EQ(opened("there")->listing_hash(), first);
  fs::rename(root_ / "there/data_batch_1.bin", root_ / "there/data_batch_3.bin");
  EXPECT_NE(opened("there")->listing_hash(), first) << "the files come in another order";
  write("here/data_batch_1.bin", record({9}, 0) + record({3}, 1));
  EXPECT_NE(opened("here")->listing_hash(), first) << "labels are swapped";
}

TEST_F(ReadCifarTest, AFileThatIsReplacedWhileItIsReadEndsTheRun) {
  write("data_batch_1.bin", record({3}, 0) + record({9}, 1));
  const auto source = opened();
  write("data_batch_1.bin", record({3}, 0) + record({4}, 1));
  EXPECT_EQ(read(*source, 0).label, 3);
  Sample sample;
  sample.key.index = 1;
  const Error error = testkit::error_of(ErrorKind::data, [&] { source->read(sample); });
  EXPECT_NE(error.message().find("the label of the record at byte 3073 was 9, and now is 4"), std::string::npos)
      << error.message();
}

TEST_F(ReadCifarTest, GivesPixelsWithTheirColoursTogether) {
  write("data_batch_1.bin", record({3}, 7));
  const Sample sample = read(*opened(), 0);
  EXPECT_EQ(sample.decoded, (ImageShape{32, 32, 3}));
  ASSERT_EQ(sample.encoded.size(), 3072U);
  for (const std::size_t i : {0U, 1U, 31U, 32U, 1023U}) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(sample.encoded.data()[3 * i + c], static_cast<std::uint8_t>(50 * c + 7 + i));
  }
}

TEST_F(ReadCifarTest, TellsTheTwoDataSetsApartByTheSizesOfTheirFiles) {
  write("train.bin", record({19, 99}, 0) + record({1, 2}, 5));
  EXPECT_EQ(opened()->classes().size(), 100U);
  EXPECT_EQ(opened()->label(0), 99);
  EXPECT_EQ(opened("", "train", "coarse")->classes().size(), 20U);
  EXPECT_EQ(opened("", "train", "coarse")->label(0), 19);
  EXPECT_EQ(read(*opened(), 1).encoded.data()[0], 5);
}

TEST_F(ReadCifarTest, NamesClassesAsTheFilesBesideSay) {
  write("data_batch_1.bin", record({3}, 0));
  EXPECT_EQ(opened()->classes()[3], "3");
  write("batches.meta.txt", "a\nb\nc\nd\r\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(opened()->classes()[3], "d");
  write("batches.meta.txt", "a\nb\n");
  EXPECT_NE(error_of("").message().find("names 2 classes, expected 10"), std::string::npos);
}

TEST_F(ReadCifarTest, TakesASingleFile) {
  write("some.bin", record({4}, 0));
  EXPECT_EQ(opened("some.bin")->label(0), 4);
}

TEST_F(ReadCifarTest, ASetIsChosenInAFolderOnly) {
  write("some.bin", record({4}, 0));
  const Error error = error_of("some.bin", "test");
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_EQ(error.message(), "set: '" + (root_ / "some.bin").string() + "' is one file; `set` chooses among those of a folder");
}

TEST_F(ReadCifarTest, CoarseLabelsOfTheTenClassesAreRefused) {
  write("data_batch_1.bin", record({3}, 0));
  const Error error = error_of("", {}, "coarse");
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), "labels: \"coarse\" needs CIFAR-100, and '" + (root_ / "data_batch_1.bin").string() +
                                 "' is CIFAR-10, which has one kind of labels");
}

TEST_F(ReadCifarTest, NamesAFileThatIsCutOff) {
  write("data_batch_1.bin", record({3}, 0));
  write("data_batch_2.bin", record({3}, 0).substr(1));
  const Error error = error_of("");
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("data_batch_2.bin' has 3072 bytes: neither whole records of CIFAR-10 (3073 bytes each)"),
            std::string::npos);
  write("data_batch_2.bin", "");
  EXPECT_NE(error_of("").message().find("has 0 bytes"), std::string::npos);
}

TEST_F(ReadCifarTest, RefusesAMixtureOfTheTwo) {
  write("data_batch_1.bin", record({3}, 0));
  write("train.bin", record({3, 4}, 0));
  EXPECT_NE(error_of("").message().find("belongs to CIFAR-100, '"), std::string::npos);
}

TEST_F(ReadCifarTest, ALabelThatIsNoClassMakesABadSample) {
  write("data_batch_1.bin", record({10}, 0) + record({255}, 0) + record({1}, 0));
  const auto source = opened();
  EXPECT_EQ(source->label(0), -1);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { read(*source, 1); }).message());
  EXPECT_EQ(read(*source, 2).label, 1);
}

TEST_F(ReadCifarTest, AFolderWithoutTheSetIsNamed) {
  write("data_batch_1.bin", record({3}, 0));
  EXPECT_NE(error_of("", "test").message().find("holds no test_batch.bin and no test.bin"), std::string::npos);
  EXPECT_EQ(error_of("missing").kind(), ErrorKind::data);
}

TEST_F(ReadCifarTest, AFileThatShrankIsAStorageFault) {
  write("data_batch_1.bin", record({3}, 0));
  const auto source = opened();
  write("data_batch_1.bin", "");
  try {
    read(*source, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::storage);
  }
}

}  // namespace
}  // namespace millrace
