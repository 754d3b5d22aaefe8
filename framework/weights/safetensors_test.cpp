#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("safetensors_" + std::to_string(::getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name = "file.safetensors") const { return (folder_ / name).string(); }

  // A file built by hand from the format's description.
  std::string file(const std::string& header, const std::string& values, std::uint64_t extra_length = 0) const {
    std::ofstream out(path(), std::ios::binary);
    const std::uint64_t length = header.size() + extra_length;
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << values;
    return path();
  }

  static void expect_refused(const std::string& path, const std::string& part) {
    const Error error = testkit::error_of(ErrorKind::data, [&] { read_safetensors(path); });
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }

  fs::path folder_;
};

template <class T>
std::string bytes(std::initializer_list<T> values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.begin(), text.size());
  return text;
}

TEST_F(Safetensors, ReadsWhatItWrote) {
  const std::vector<NamedTensor> tensors = {
      {"b.weight", {2, 3}, {1, -2, 3.5F, std::numeric_limits<float>::denorm_min(), INFINITY, -0.0F}},
      {"a", {}, {42}},
      {"empty", {0, 7}, {}},
      {"quoted \"name\"/\xc3\xa9", {1}, {7}}};
  write_safetensors(path(), tensors,
                    {{"epoch", "3"}, {"text", "{\"a\": 1}"}, {"another tool's", std::string(std::size_t{9} << 20, 'x')}});
  const TensorFile read = read_safetensors(path());
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const auto found =
        std::find_if(read.tensors.begin(), read.tensors.end(), [&](const auto& t) { return t.name == tensor.name; });
    ASSERT_NE(found, read.tensors.end()) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    ASSERT_EQ(found->values.size(), tensor.values.size());
    const auto same_bits = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
    EXPECT_TRUE(std::equal(found->values.begin(), found->values.end(), tensor.values.begin(), same_bits)) << tensor.name;
  }
  EXPECT_EQ(read.metadata.at("epoch"), "3");
  EXPECT_EQ(read.metadata.at("text"), "{\"a\": 1}");
  EXPECT_EQ(read.metadata.size(), 2U) << "what is too long to be ours is not kept in memory";
}

TEST_F(Safetensors, OfValuesThatAreFetchedAreTheSameBytesAndTheOldFileStaysWhereThatFails) {
  const std::vector<NamedTensor> tensors = {{"b.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"empty", {0, 7}, {}}, {"a", {}, {42}}};
  std::vector<ListedTensor> listed;
  for (const NamedTensor& tensor : tensors) listed.push_back({tensor.name, "F32", tensor.shape});
  const std::map<std::string, std::string> metadata = {{"epoch", "3"}};
  const auto content = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  write_safetensors(path("held"), tensors, metadata);
  write_safetensors(path("fetched"), listed, metadata, [&](std::size_t t) { return tensors[t].values; });
  EXPECT_EQ(content(path("fetched")), content(path("held")));
  const auto fails = [&](std::size_t t) {
    if (t == 2) fail(ErrorKind::device, "lost");
    return tensors[t].values;
  };
  EXPECT_THROW(write_safetensors(path("fetched"), listed, {}, fails), Error);
  EXPECT_EQ(content(path("fetched")), content(path("held")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2) << "half a file is left";
}

TEST_F(Safetensors, WritesTheFormatByteForByte) {
  write_safetensors(path(), {{"w", {2}, {1, 2}}});
  std::ifstream in(path(), std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(in), {});
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(content, bytes<std::uint64_t>({padded.size()}) + padded + bytes<float>({1, 2}));
}

TEST_F(Safetensors, ReadsEveryFloatingTypeAndNamesTheOthers) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"half":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},)"
      R"("brain":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]},"count":{"dtype":"I64","shape":[],"data_offsets":[16,24]},)"
      R"("double":{"dtype":"F64","shape":[1,1],"data_offsets":[24,32]}}   )";
  const std::string values = bytes<std::uint16_t>({0x3c00, 0xc000, 0x0001, 0x7c00, 0x3555, 0x8000}) +
                             bytes<std::uint16_t>({0x3f80, 0xc040}) + bytes<std::int64_t>({5}) + bytes<double>({0.1});
  const TensorFile read = read_safetensors(file(header, values));
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[0].values,
            (std::vector<float>{1, -2, std::ldexp(1.0F, -24), INFINITY, 0.333251953125F, -0.0F}));  // 0x3555: nearest to 1/3
  EXPECT_TRUE(std::signbit(read.tensors[0].values[5]));
  EXPECT_EQ(read.tensors[1].values, (std::vector<float>{1, -3}));
  EXPECT_EQ(read.tensors[2].values, (std::vector<float>{0.1F}));
  EXPECT_EQ(read.not_floating, (std::vector<std::string>{"count"}));
  EXPECT_EQ(read.metadata.at("format"), "pt");
}

// Twice as many tensors must take twice as long: these once took a quarter of a minute.
TEST_F(Safetensors, AreReadInATimeThatTheirNumberMultiplies) {
  std::string header = "{";
  for (int i = 0; i < 40'000; ++i) {
    header += (i == 0 ? "\"w" : ",\"w") + std::to_string(i) + "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}";
  }
  const std::clock_t begin = std::clock();  // processor time, since others may use the machine
  EXPECT_EQ(read_safetensors(file(header + "}", "")).tensors.size(), 40'000U);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
}

TEST_F(Safetensors, RefusesFilesThatAreCutShort) {
  expect_refused(path("nothing"), "cannot be opened");
  std::ofstream(path("short")) << "abc";
  expect_refused(path("short"), "3 bytes");
  expect_refused(file("{}", "", 1), "header would be 3 bytes");
  expect_refused(file("{}", "", std::uint64_t{1} << 62), "header would be");
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  expect_refused(file(header, bytes<float>({1})), "was cut or added to");
  expect_refused(file(header, bytes<float>({1, 2, 3})), "was cut or added to");
}

TEST_F(Safetensors, RefusesHeadersThatAreWrong) {
  const auto one = [&](const std::string& description, const std::string& part) {
    expect_refused(file("{\"w\":" + description + "}", bytes<float>({1, 2})), part);
  };
  expect_refused(file("no json", ""), "not a JSON object");
  expect_refused(file("[]", ""), "not a JSON object");
  one(R"(5)", "'dtype'");
  one(R"({"dtype":"F32","shape":[2]})", "no 'data_offsets'");
  one(R"({"dtype":"F12","shape":[2],"data_offsets":[0,8]})", "element type 'F12'");
  one(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})", "'dtype' must be text");
  one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "from 0, found -2");
  one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8]})", "at most 6");
  one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "do not hold 3 elements");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "do not hold");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", "begins at byte 4");
  one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", "too large");
  one(R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})", "do not hold");
  expect_refused(file(R"({"__metadata__":{"a":1}})", ""), "not text");
  expect_refused(
      file(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           bytes<float>({1, 2})),
      "'w' twice");
  expect_refused(
      file(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           bytes<float>({1, 2})),
      "tensor 'w' begins at byte 4");
}

TEST_F(Safetensors, KeepsTheOldFileWhenTheNewOneCannotBeWritten) {
  write_safetensors(path(), {{"w", {1}, {1}}});
  std::ofstream(path("no folder")) << "a file";
  EXPECT_THROW(write_safetensors(path("no folder/file"), {{"w", {1}, {2}}}), Error);
  write_safetensors(path(), {{"w", {1}, {3}}});
  EXPECT_EQ(read_safetensors(path()).tensors[0].values[0], 3);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 2) << "a temporary file was left behind";
}

}  // namespace
}  // namespace millrace
