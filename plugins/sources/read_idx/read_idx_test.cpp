#include "read_idx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// Objects in memory, below "mnist".
class Objects : public Storage {
 public:
  void list(const std::string&, const std::function<void(Object)>& found) override {
    for (const auto& [name, bytes] : contents) found(stat("mnist/" + name));
  }
  Object stat(const std::string& url) override { return {url.substr(6), content(url).size(), version}; }
  void read(const std::string& url, ByteBuffer& out) override {
    read(url, 0, content(url).size(), out.resize(content(url).size()));
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    const std::string& bytes = content(url);
    if (offset + size > bytes.size()) fail(ErrorKind::storage, "'{}' is too short", url);
    std::memcpy(out, bytes.data() + offset, size);
  }

  std::map<std::string, std::string> contents;
  std::string version = "1";

 private:
  const std::string& content(const std::string& url) {
    const auto found = contents.find(url.substr(6));
    if (found == contents.end()) fail(ErrorKind::data, "'{}' does not exist", url);
    return found->second;
  }
};

std::string idx(std::initializer_list<unsigned> extents, const std::string& elements, char type = 8) {
  std::string bytes{0, 0, type, static_cast<char>(extents.size())};
  for (const unsigned extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + elements;
}

std::string header_error(const std::string& file, std::uint64_t file_bytes = 0) {
  const std::size_t size = std::min(file.size(), IdxHeader::kMax);
  try {
    read_idx_header({reinterpret_cast<const std::uint8_t*>(file.data()), size}, file_bytes == 0 ? file.size() : file_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.message();
  }
  return "";
}

TEST(IdxHeader, HasToFitTheFile) {
  EXPECT_EQ(header_error(idx({2, 3}, "123456")), "");
  EXPECT_MESSAGE(header_error(idx({2, 3}, "12345")));
  EXPECT_MESSAGE(header_error(idx({2, 3}, "1234567")));
  EXPECT_MESSAGE(header_error(idx({2, 3}, "").substr(0, 9)));
}

TEST(IdxHeader, OfOtherFilesIsRefused) {
  EXPECT_NE(header_error(""), "");
  EXPECT_NE(header_error("a text file"), "");
  EXPECT_MESSAGE(header_error("\x1f\x8b compressed"));
  EXPECT_MESSAGE(header_error(idx({2}, "12", 0x0d)));
  EXPECT_MESSAGE(header_error(idx({1, 1, 1, 1, 1}, "1")));
  EXPECT_MESSAGE(header_error(idx({0, 2}, "")));
  EXPECT_MESSAGE(header_error(idx({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, "")));
}

class ReadIdxTest : public testing::Test {
 protected:
  ReadIdxTest() {
    registry_.add(StorageType{{"file", "objects"}, objects_});
    context_.registry = &registry_;
    files()["train-images-idx3-ubyte"] = idx({3, 2, 2}, "abcdefghijkl");
    files()["train-labels-idx1-ubyte"] = idx({3}, {4, 0, 1});
    files()["t10k-images.idx3-ubyte"] = idx({1, 2, 2}, "mnop");
    files()["t10k-labels.idx1-ubyte"] = idx({1}, {2});
  }

  std::map<std::string, std::string>& files() { return objects_->contents; }
  static ReadIdx::Params params() {
    ReadIdx::Params result;
    result.path = "mnist";
    return result;
  }
  std::shared_ptr<ReadIdx> opened(const ReadIdx::Params& given) {
    auto source = std::make_shared<ReadIdx>(given, context_);
    source->open();
    return source;
  }
  std::string error_of(const ReadIdx::Params& given, ErrorKind kind = ErrorKind::data) {
    try {
      opened(given);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "";
  }
  static std::string read(ReadIdx& source, std::uint64_t index) {
    Sample sample;
    sample.key.index = index;
    source.read(sample);
    return fmt::format("{}@{} {} '{}' {}", sample.url, sample.offset, to_string(sample.decoded),
                       std::string(sample.encoded.data(), sample.encoded.data() + sample.encoded.size()), sample.label);
  }

  std::shared_ptr<Objects> objects_ = std::make_shared<Objects>();
  Registry registry_;
  StepContext context_;
};

// Its images would get the labels of others.
TEST_F(ReadIdxTest, AFileThatIsReplacedDuringARunEndsIt) {
  const auto source = opened(params());
  const auto read_twice = [&] {
    for (const std::uint64_t index : {0U, 1U, 2U, 0U, 1U, 2U}) read(*source, index);
  };
  objects_->version = "2";
  EXPECT_NO_THROW(read_twice()) << "it was touched, or copied once more";
  objects_->version = "3";
  files()["train-images-idx3-ubyte"] = idx({3, 2, 2}, "lkjihgfedcba");
  std::string error;
  try {
    read_twice();
  } catch (const Error& found) {
    EXPECT_EQ(found.kind(), ErrorKind::data);
    error = found.message();
  }
  EXPECT_TRUE(error.starts_with("'mnist/train-images-idx3-ubyte' has changed since it was listed")) << error;
}

TEST_F(ReadIdxTest, GivesPixelsAndLabels) {
  const auto source = opened(params());
  ASSERT_EQ(source->size(), 3U);
  EXPECT_EQ(read(*source, 0), "mnist/train-images-idx3-ubyte@16 2 x 2 x 1 'abcd' 4");
  EXPECT_EQ(read(*source, 2), "mnist/train-images-idx3-ubyte@24 2 x 2 x 1 'ijkl' 1");
  EXPECT_EQ(source->label(2), 1);
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(source->largest_encoded(), 4U);
}

TEST_F(ReadIdxTest, TheListingsHashFollowsLabelsInTheirOrderWhateverTheFilesAreNamed) {
  const std::uint64_t first = opened(params())->listing_hash();
  files()["pictures"] = files()["train-images-idx3-ubyte"];
  files()["numbers"] = files()["train-labels-idx1-ubyte"];
  auto renamed = params();
  renamed.path = "mnist/pictures";
  renamed.labels = "mnist/numbers";
  EXPECT_EQ(opened(renamed)->listing_hash(), first);
  files()["numbers"] = idx({3}, {0, 4, 1});
  EXPECT_NE(opened(renamed)->listing_hash(), first);
}

TEST_F(ReadIdxTest, KnowsTheTestSetAndNamesWithADot) {
  auto test = params();
  test.set = "test";
  EXPECT_EQ(read(*opened(test), 0), "mnist/t10k-images.idx3-ubyte@16 2 x 2 x 1 'mnop' 2");
}

TEST_F(ReadIdxTest, TakesTwoFilesOfAnyName) {
  files()["pictures"] = idx({1, 1, 2, 3}, "rgbRGB");
  files()["numbers"] = idx({1}, {7});
  auto two = params();
  two.path = "mnist/pictures";
  two.labels = "mnist/numbers";
  EXPECT_EQ(read(*opened(two), 0), "mnist/pictures@20 1 x 2 x 3 'rgbRGB' 7");
}

TEST_F(ReadIdxTest, FindsTheLabelsBesideAFileOfImages) {
  auto file = params();
  file.path = "mnist/train-images-idx3-ubyte";
  EXPECT_EQ(read(*opened(file), 0), "mnist/train-images-idx3-ubyte@16 2 x 2 x 1 'abcd' 4");
  file.path = "mnist/t10k-images.idx3-ubyte";
  EXPECT_EQ(read(*opened(file), 0), "mnist/t10k-images.idx3-ubyte@16 2 x 2 x 1 'mnop' 2");
  files().erase("t10k-labels.idx1-ubyte");
  EXPECT_MESSAGE(error_of(file, ErrorKind::usage));
  files()["idx3"] = idx({1, 2, 2}, "mnop");
  file.path = "mnist/idx3";
  EXPECT_MESSAGE(error_of(file, ErrorKind::usage));
}

TEST_F(ReadIdxTest, ASetIsChosenInAFolderOnly) {
  auto file = params();
  file.path = "mnist/train-images-idx3-ubyte";
  file.set = "test";
  EXPECT_MESSAGE(error_of(file, ErrorKind::usage));
}

TEST_F(ReadIdxTest, NamesCompressedAndMissingFiles) {
  files()["train-images-idx3-ubyte.gz"] = "x";
  files().erase("train-images-idx3-ubyte");
  EXPECT_MESSAGE(error_of(params()));
  files().erase("train-images-idx3-ubyte.gz");
  EXPECT_MESSAGE(error_of(params()));
}

TEST_F(ReadIdxTest, NamesFilesThatAreCutOff) {
  files()["train-images-idx3-ubyte"].pop_back();
  EXPECT_MESSAGE(error_of(params()));
}

TEST_F(ReadIdxTest, ImagesAndLabelsHaveToBeOfTheirKindAndNumber) {
  files()["train-labels-idx1-ubyte"] = idx({2}, {4, 0});
  EXPECT_MESSAGE(error_of(params()));
  files()["train-labels-idx1-ubyte"] = idx({3, 1}, {4, 0, 1});
  EXPECT_MESSAGE(error_of(params()));
  files()["train-images-idx3-ubyte"] = idx({3}, {4, 0, 1});
  EXPECT_MESSAGE(error_of(params()));
}

// As in EMNIST's letters, 1 to 26.
TEST_F(ReadIdxTest, LabelsAreNamesWhereTheyDoNotCountTheClasses) {
  auto named = params();
  files()["train-labels-idx1-ubyte"] = idx({3}, {2, 3, 1});
  named.classes = {"1", "2", "3"};
  const auto source = opened(named);
  EXPECT_EQ(source->label(0), 1);
  EXPECT_EQ(source->label(1), 2);
  EXPECT_EQ(source->label(2), 0);
}

TEST_F(ReadIdxTest, GivenClassesHaveToBeEnough) {
  auto named = params();
  named.classes = {"a", "b", "c", "d", "e"};
  EXPECT_EQ(opened(named)->classes()[4], "e");
  named.classes.pop_back();
  EXPECT_MESSAGE(error_of(named));
  named.classes = {"a", "b", "c", "d", "a"};
  EXPECT_MESSAGE(error_of(named, ErrorKind::usage));
}

}  // namespace
}  // namespace millrace
