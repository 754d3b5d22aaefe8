#include "write_features.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace {
namespace {

using testkit::Harness;

class WriteFeaturesTest : public testing::Test {
 protected:
  WriteFeaturesTest() : network_(testkit::small_network({2, 2, 1}, 4, 3)) {
    run_.set_folder(folder_.path());
    context_.network = &network_;
    context_.registry = &registry_;
    context_.run = &run_;
    context_.classes = {"cat", "dog"};
  }

  static Value table(const std::string& layer, const std::string& file) {
    return testkit::table({{"layer", Value(layer)}, {"file", Value(file)}});
  }
  // Writes shares of "relu", with ascending values, from two replicas and a pass of two steps. The second sample of all was
  // skipped.
  void write(const std::string& file) {
    Value keys = table("relu", file);
    for (const auto& [key, value] : more_) keys.set(key, value);
    Harness harness(StageTypeAccess::make<WriteFeatures>(), keys, context_);
    harness.stage().open();
    std::vector<Ref<Predictions>> shares;
    for (const std::size_t count : {std::size_t{3}, std::size_t{2}, std::size_t{1}, std::size_t{0}}) {
      shares.push_back(share(shares.size() / 2, static_cast<int>(shares.size() % 2), count));
    }
    shares[0]->samples[1].counts = false;
    shares[0]->samples[1].fault = fault_;
    shares[3]->last = true;
    for (const std::size_t i : {1U, 3U, 0U, 2U}) harness.feed(testkit::packet(shares[i], i));
    harness.output().wait_until_free();
    EXPECT_TRUE(harness.output().errors().empty());
  }

  Ref<Predictions> share(std::uint64_t turn, int replica, std::size_t count) {
    Ref<Predictions> made = make_ref<Predictions>();
    made->turn = turn;
    made->replica = replica;
    made->replicas = 2;
    made->count = static_cast<std::uint32_t>(count);
    std::vector<float>& values = values_.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      made->samples.emplace_back().url = std::to_string(next_ / 4) + ".jpg";
      made->samples.back().label = next_ / 4 == 4 ? -1 : next_ / 4 % 3;
      for (int k = 0; k < 4; ++k) values.push_back(static_cast<float>(next_++));
    }
    made->outputs = {{network_.result(), network_.output(), nullptr}, {1, {4}, values.data()}};
    made->ready = make_ref<testkit::Done>();
    return made;
  }

  std::string content(const std::string& name) const {
    std::ifstream stream(folder_.path() / name, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  static std::vector<float> numbers(const std::string& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }

  std::vector<std::pair<std::string, Value>> more_;  // keys
  std::string fault_;                                // of the skipped sample
  testkit::TestFolder folder_;
  testkit::RecordedRun run_;
  Registry registry_;
  Network network_;
  StepContext context_;
  std::deque<std::vector<float>> values_;
  std::int32_t next_ = 0;
};

const std::vector<float> kRows = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

TEST_F(WriteFeaturesTest, WritesASafetensorsFileInOrderOfTheSource) {
  write("f.safetensors");
  const std::string bytes = content("f.safetensors");
  ASSERT_GT(bytes.size(), 8U);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  std::string header = bytes.substr(8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(header, R"({"relu":{"dtype":"F32","shape":[5,4],"data_offsets":[0,80]}})");
  EXPECT_EQ(numbers(bytes.substr(8 + length)), kRows);
  EXPECT_EQ(content("f.csv"), "path,label,error\r\n0.jpg,cat,\r\n2.jpg,2,\r\n3.jpg,cat,\r\n4.jpg,,\r\n5.jpg,2,\r\n");
}

TEST_F(WriteFeaturesTest, NamesNumbersInColumns) {
  more_ = {{"columns", Value(Array{Value("a"), Value("b,c"), Value("d"), Value("e")})}};
  write("f.safetensors");
  const std::string text = content("f.csv");
  EXPECT_EQ(text.substr(0, text.find("\r\n")), "path,label,a,\"b,c\",d,e,error");
  EXPECT_NE(text.find("0.jpg,cat,0,1,2,3,\r\n"), std::string::npos) << text;
  next_ = 0;
  more_.emplace_back("probabilities", Value(true));
  write("f.safetensors");
  EXPECT_NE(content("f.csv").find(",0.5,0.7310586,"), std::string::npos) << content("f.csv");
  more_ = {{"columns", Value(Array{Value("a")})}};
  EXPECT_THROW(write("f.safetensors"), Error);
}

TEST_F(WriteFeaturesTest, ASampleThatCouldNotBeUsedHasARowOfNoNumbersAndTheReason) {
  fault_ = "decode_image: no image";
  more_ = {{"columns", Value(Array{Value("a"), Value("b"), Value("d"), Value("e")})}};
  write("f.safetensors");
  EXPECT_NE(content("f.csv").find("\r\n1.jpg,dog,,,,,decode_image: no image\r\n2.jpg,"), std::string::npos) << content("f.csv");
  const std::string bytes = content("f.safetensors");
  EXPECT_NE(bytes.find("[6,4]"), std::string::npos);
  const std::vector<float> rows = numbers(bytes.substr(bytes.size() - 6 * 4 * sizeof(float)));
  EXPECT_EQ(rows[3], 3);
  for (const std::size_t k : {4U, 5U, 6U, 7U}) EXPECT_TRUE(std::isnan(rows[k]));
  EXPECT_EQ(rows[8], 8) << "rows stay beside their names";
}

TEST_F(WriteFeaturesTest, NoNumberHasTheNameOfAnotherColumn) {
  more_ = {{"columns", Value(Array{Value("label"), Value("x"), Value("path"), Value("x")})}};
  write("f.safetensors");
  EXPECT_TRUE(content("f.csv").starts_with("path,label,label_2,x,path_2,x_2,error\r\n")) << content("f.csv");
}

TEST_F(WriteFeaturesTest, WritesANumpyArray) {
  write("f.npy");
  const std::string bytes = content("f.npy");
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + length) % 64, 0U);
  const std::string header = bytes.substr(10, length);
  EXPECT_TRUE(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 4), } ")) << header;
  EXPECT_EQ(header.back(), '\n');
  EXPECT_EQ(numbers(bytes.substr(10 + length)), kRows);
}

// A limit on file sizes simulates a full disk: the names would fit.
TEST_F(WriteFeaturesTest, AFullDiskLeavesNamesAndFeaturesOfOnePass) {
  folder_.write("f.npy", "features of before");
  folder_.write("f.csv", "names of before");
  Harness harness(StageTypeAccess::make<WriteFeatures>(), table("relu", "f.npy"), context_);
  harness.stage().open();
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Ref<Predictions> one = share(0, 0, 3);
  one->replicas = 1;
  one->last = true;
  harness.feed(testkit::packet(one, 0));
  harness.output().wait_until_free();
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(harness.output().errors().size(), 1U);
  EXPECT_EQ(content("f.npy"), "features of before");
  EXPECT_EQ(content("f.csv"), "names of before");
}

TEST_F(WriteFeaturesTest, AsksForItsLayer) {
  const StageType type = StageTypeAccess::make<WriteFeatures>();
  CompileRequest request;
  type.request(table("relu", "f.npy"), context_, request);
  type.request(table("relu", "g.npy"), context_, request);
  EXPECT_EQ(request.outputs, std::vector<LayerPort>{1});
}

TEST_F(WriteFeaturesTest, NamesTheNearestLayer) {
  const auto refusal = [&](const std::string& layer, const std::string& file) -> std::string {
    return testkit::error_of(ErrorKind::usage,
                             [&] { const Harness harness(StageTypeAccess::make<WriteFeatures>(), table(layer, file), context_); })
        .message();
  };
  EXPECT_MESSAGE(refusal("rela", "f.npy"));
  EXPECT_MESSAGE(refusal("relu:second", "f.npy"));
  EXPECT_MESSAGE(refusal("relu", "f.bin"));
}

}  // namespace
}  // namespace millrace
