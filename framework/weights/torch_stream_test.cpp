#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/error.h"
#include "testkit/files.h"
#include "weights/torch_file.h"
#include "weights/torch_file_fixture.h"

namespace millrace::torch_stream_test {
namespace {

namespace fs = std::filesystem;
using namespace torch_fixture;
using Floats = std::vector<float>;

class TorchStreamFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("torch_stream_" + std::to_string(::getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& bytes) const {
    const std::string path = (folder_ / "old.pth").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  TensorFile read(const std::string& bytes) const { return read_tensors(file(bytes)); }

  void expect_refused(const std::string& bytes, const std::string& part) const {
    const std::string path = file(bytes);
    const Error error = testkit::error_of(ErrorKind::data, [&] { read_torch_file(path); });
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("tensor file '" + path + "'"), 0U) << error.what();
  }
  // With one storage "7" of eight float32 values, 0 to 7.
  std::string of_eight(const std::string& value) const { return stream(value, {{"7", eight_, 8}}); }

  const std::string eight_ = bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7});
  const std::string values_ = old_storage("FloatStorage", "7", 8);
  fs::path folder_;
};

TEST_F(TorchStreamFile, IsReadAsTheArchiveOfTheSameTensors) {
  const TensorFile old = read(small_old_state_dict());
  const TensorFile today = read(small_state_dict());
  ASSERT_EQ(old.tensors.size(), today.tensors.size());
  for (std::size_t i = 0; i < old.tensors.size(); ++i) {
    EXPECT_EQ(old.tensors[i].name, today.tensors[i].name);
    EXPECT_EQ(old.tensors[i].shape, today.tensors[i].shape);
    EXPECT_EQ(old.tensors[i].values, today.tensors[i].values);
  }
  EXPECT_EQ(old.not_floating, today.not_floating);
  EXPECT_TRUE(is_torch_file(std::string_view(small_old_state_dict()).substr(0, 8)));
  EXPECT_TRUE(read_tensors_metadata(file(small_old_state_dict())).empty());
}

TEST_F(TorchStreamFile, MayHoldItsStoragesInAnyOrderAndHalves) {
  const std::string half = old_storage("HalfStorage", "1", 3);
  const std::string wide = old_storage("DoubleStorage", "2", 2);
  const std::string value = ordered_dict({{"h", tensor(half, 1, {2}, {1})}, {"d", tensor(wide, 0, {2}, {1})}});
  const std::vector<Stored> storages = {{"2", bytes_of<double>({0.5, 4}), 2},
                                        {"1", bytes_of<std::uint16_t>({0, 0x3c00, 0xc000}), 3}};
  const TensorFile found = read(stream(value, storages));
  EXPECT_EQ(found.tensors.at(0).values, (Floats{1, -2}));
  EXPECT_EQ(found.tensors.at(1).values, (Floats{0.5F, 4}));
}

TEST_F(TorchStreamFile, IsReadAsVersionsOfBefore04WroteIt) {
  EXPECT_EQ(read(of_eight(ordered_dict({{"w", old_tensor(values_, 2, {2, 2}, {1, 2})}}))).tensors.at(0).values,
            (Floats{2, 4, 3, 5}));
  const std::string parameter =
      function("torch.nn.parameter", "Parameter") + tuple({old_tensor(values_, 1, {2}, {1})}) + "\x81}b";
  EXPECT_EQ(read(of_eight(ordered_dict({{"w", parameter}}))).tensors.at(0).values, (Floats{1, 2}));
  // Texts of Python 2, and its ordered tables.
  const std::string short_text = std::string("U\x01w");
  const std::string pairs = "](](" + short_text + old_tensor(values_, 7, {1}, {1}) + "ee";
  const TensorFile found = read(of_eight(function("collections", "OrderedDict") + "(" + pairs + "tR"));
  EXPECT_EQ(found.tensors.at(0).name, "w");
  EXPECT_EQ(found.tensors.at(0).values, Floats{7});
}

TEST_F(TorchStreamFile, ReadsPartsOfStorages) {
  const auto part = [](std::int64_t first, std::int64_t elements) {
    return old_storage("FloatStorage", "7", 8, tuple({text("8"), integer(first), integer(elements)}));
  };
  EXPECT_EQ(read(of_eight(ordered_dict({{"w", tensor(part(2, 4), 1, {3}, {1})}}))).tensors.at(0).values, (Floats{3, 4, 5}));
  expect_refused(of_eight(ordered_dict({{"w", tensor(part(2, 4), 1, {4}, {1})}})), "does not fit its storage of 4 elements");
  expect_refused(of_eight(ordered_dict({{"w", tensor(part(6, 4), 0, {1}, {1})}})), "does not fit the 8 elements of the storage");
  expect_refused(of_eight(ordered_dict({{"w", tensor(part(INT64_MAX, INT64_MAX), 0, {1}, {1})}})), "does not fit the 8 elements");
  expect_refused(of_eight(ordered_dict({{"w", tensor(old_storage("FloatStorage", "7", 8, integer(3)), 0, {1}, {1})}})),
                 "not described as torch.save() does");
}

TEST_F(TorchStreamFile, RunsNothing) {
  const fs::path trace = folder_ / "trace";
  const std::string call = function("posix", "system") + tuple({text("touch " + trace.string())}) + "R";
  const std::string sound = ordered_dict(small_old_items());
  const std::string said = "would run posix.system: refused";
  expect_refused(stream(call, small_old_storages()), said);
  expect_refused(stream(ordered_dict({{"w", call}}), small_old_storages()), said);
  expect_refused(stream_head(call) + pickle(sound) + stored(small_old_storages()), said);
  expect_refused(stream_head(integer(1001), call) + pickle(sound) + stored(small_old_storages()), said);
  expect_refused(stream_head() + pickle(sound) + pickle(call), said);
  // Functions that describe tensors are refused elsewhere.
  expect_refused(stream_head(function("torch", "FloatStorage")) + pickle(sound) + stored(small_old_storages()),
                 "would run torch.FloatStorage: refused");
  EXPECT_FALSE(fs::exists(trace));
}

TEST_F(TorchStreamFile, RefusesStoragesThatDoNotFitTheFile) {
  const std::string value = ordered_dict({{"w", tensor(values_, 0, {8}, {1})}});
  EXPECT_EQ(read(stream(value, {{"7", eight_, 8}})).tensors.size(), 1U);
  expect_refused(stream(value, {{"7", eight_, 9}}), "its storage '7' of 8 elements is stored with 9");
  expect_refused(stream(value, {{"7", eight_.substr(1), 8}}), "its storage '7' of 8 elements of F32 does not fit the 31 bytes");
  expect_refused(stream(value, {{"7", eight_ + "x", 8}}), "has 1 bytes after its last storage");
  expect_refused(stream(value, {{"7", eight_, 8}, {"7", eight_, 8}}), "holds the storage '7' twice");
  expect_refused(stream(value, {{"7", eight_, 8}, {"8", "", 0}}), "holds a storage '8', which nothing in it describes");
  expect_refused(stream(value, {}), "tensor 'w': its storage '7' is none of the 0 that the file holds");
  expect_refused(stream_head() + pickle(value) + pickle("N"), "has no list of its storages");
  expect_refused(stream_head() + pickle(value) + pickle("](" + integer(7) + "e"), "holds a storage ''");
  expect_refused(stream_head() + pickle(value) + pickle("](" + text("7") + "e") + "1234567", "ends before its storage '7'");
  const std::string twice =
      ordered_dict({{"w", tensor(values_, 0, {8}, {1})}, {"v", tensor(old_storage("DoubleStorage", "7", 8), 0, {1}, {1})}});
  expect_refused(of_eight(twice), "describes its storage '7' twice and differently");
  for (const std::int64_t elements : {std::int64_t{1} << 40U, std::int64_t{1} << 62U, INT64_MAX}) {
    const std::string large = ordered_dict({{"w", tensor(old_storage("FloatStorage", "7", elements), 0, {elements}, {1})}});
    expect_refused(stream(large, {{"7", eight_, static_cast<std::uint64_t>(elements)}}), "does not fit the 32 bytes");
  }
}

TEST_F(TorchStreamFile, RefusesOtherVersionsAndMachines) {
  const std::string rest = pickle(ordered_dict(small_old_items())) + stored(small_old_storages());
  EXPECT_EQ(read(stream_head() + rest).tensors.size(), 2U);
  expect_refused(stream_head(integer(1002)) + rest, "has version 1002, but only 1001 is read");
  expect_refused(stream_head(text("1001")) + rest, "but only 1001 is read");
  expect_refused(stream_head(integer(1001), "\x89") + rest, "byte order 'big', but only 'little' is read");
  expect_refused(stream_head(integer(1001), "N") + rest, "does not state the byte order");
  expect_refused(stream_head().substr(0, 12) + "12." + rest, "has no whole mark of torch.save()");
}

TEST_F(TorchStreamFile, ThatIsCutIsRefused) {
  const std::string whole = small_old_state_dict();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(read_torch_file(file(whole.substr(0, size))), Error) << size;
  }
}

}  // namespace
}  // namespace millrace::torch_stream_test
