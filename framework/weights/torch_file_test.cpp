#include "weights/torch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "weights/safetensors.h"
#include "weights/torch_file_fixture.h"

namespace millrace::torch_file_test {
namespace {

namespace fs = std::filesystem;
using namespace torch_fixture;

class TorchFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("torch_file_" + std::to_string(::getpid()) + "_" + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& bytes) const {
    const std::string path = (folder_ / "x.pth").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  TensorFile read(const std::string& bytes) const { return read_tensors(file(bytes)); }

  // An archive with one storage "0" of eight float32 values, 0 to 7.
  std::string archive(const std::string& value) const { return zip(entries_of(pickle(value), {{"0", eight_}})); }
  std::string with_tensor(std::int64_t elements, std::int64_t offset, const std::vector<std::int64_t>& size,
                          const std::vector<std::int64_t>& stride) const {
    return archive(ordered_dict({{"w", tensor(storage("FloatStorage", "0", elements), offset, size, stride)}}));
  }

  void expect_refused(const std::string& bytes, const std::string& part) const {
    const std::string path = file(bytes);
    const Error error = testkit::error_of(ErrorKind::data, [&] { read_torch_file(path); });
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("tensor file '" + path + "'"), 0U) << error.what();
  }

  const std::string eight_ = bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7});
  fs::path folder_;
};

using Floats = std::vector<float>;

TEST_F(TorchFile, ReadsTensorsThatShareAStorage) {
  const TensorFile read_file = read(small_state_dict());
  ASSERT_EQ(read_file.tensors.size(), 2U);
  EXPECT_EQ(read_file.tensors[0].name, "conv.weight");
  EXPECT_EQ(read_file.tensors[0].shape, Shape({2, 3}));
  EXPECT_EQ(read_file.tensors[0].values, (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_file.tensors[1].name, "conv.bias");
  EXPECT_EQ(read_file.tensors[1].values, (Floats{6, 7}));
  EXPECT_EQ(read_file.not_floating, std::vector<std::string>{"bn.num_batches_tracked"});
  EXPECT_TRUE(read_tensors_metadata(file(small_state_dict())).empty());
}

TEST_F(TorchFile, ReadsStridedTensorsInRowMajorOrder) {
  EXPECT_EQ(read(with_tensor(8, 1, {3, 2}, {1, 3})).tensors[0].values, (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(read(with_tensor(8, 0, {4}, {2})).tensors[0].values, (Floats{0, 2, 4, 6}));
  EXPECT_EQ(read(with_tensor(8, 5, {1, 3, 1}, {99, 1, 77})).tensors[0].values, (Floats{5, 6, 7}));
  EXPECT_EQ(read(with_tensor(8, 2, {2, 2}, {0, 1})).tensors[0].values, (Floats{2, 3, 2, 3}));
  EXPECT_EQ(read(with_tensor(8, 3, {}, {})).tensors[0].values, Floats{3});
  const TensorFile empty = read(with_tensor(8, 0, {0, 7}, {7, 1}));
  EXPECT_EQ(empty.tensors[0].shape, Shape({0, 7}));
  EXPECT_TRUE(empty.tensors[0].values.empty());
}

// PyTorch stores x.conj().imag like this, and negates it when reading.
TEST_F(TorchFile, NegatesWhatIsNotedAsNegated) {
  const auto noted = [&](const std::string& key, const std::string& value) {
    const std::string arguments = tuple({storage("FloatStorage", "0", 8), integer(1), integers({2}), integers({1}), "\x89",
                                         ordered_dict(), "}(" + text(key) + value + "u"});
    const std::string call = function("torch._utils", "_rebuild_tensor_v2") + arguments + "R";
    return read(archive(ordered_dict({{"w", call}}))).tensors.at(0).values;
  };
  EXPECT_EQ(noted("neg", "\x88"), (Floats{-1, -2}));
  EXPECT_EQ(noted("neg", "\x89"), (Floats{1, 2}));
  EXPECT_EQ(noted("conj", "\x88"), (Floats{1, 2}));
}

TEST_F(TorchFile, ReadsEveryFloatingTypeAndNamesTheOthers) {
  std::vector<Item> items = {{"half", tensor(storage("HalfStorage", "h", 2), 0, {2}, {1})},
                             {"brain", tensor(storage("BFloat16Storage", "b", 2), 0, {2}, {1})},
                             {"double", parameter(tensor(storage("DoubleStorage", "d", 1), 0, {1}, {1}))}};
  std::vector<std::string> others;
  for (const char* type : {"Long", "Int", "Short", "Char", "Byte", "Bool"}) {
    others.emplace_back(type);
    items.push_back({type, tensor(storage(std::string(type) + "Storage", "i", 0), 0, {0}, {1})});
  }
  const TensorFile types = read(zip(entries_of(pickle(ordered_dict(items)), {{"h", bytes_of<std::uint16_t>({0x3c00, 0xc000})},
                                                                             {"b", bytes_of<std::uint16_t>({0x3f80, 0xc040})},
                                                                             {"d", bytes_of<double>({0.1})}})));
  ASSERT_EQ(types.tensors.size(), 3U);
  EXPECT_EQ(types.tensors[0].values, (Floats{1, -2}));
  EXPECT_EQ(types.tensors[1].values, (Floats{1, -3}));
  EXPECT_EQ(types.tensors[2].values, Floats{0.1F});
  EXPECT_EQ(types.not_floating, others);
  EXPECT_EQ(types.listed.size(), types.tensors.size() + others.size());
}

TEST_F(TorchFile, FindsTheStateDictOfACheckpoint) {
  const std::string values = storage("FloatStorage", "0", 8);
  for (const char* key : {"state_dict", "model", "model_state_dict"}) {
    const TensorFile found = read(archive(ordered_dict({{"epoch", integer(3)},
                                                        {"best", tensor(values, 0, {}, {})},
                                                        {key, ordered_dict({{"w", tensor(values, 2, {2}, {1})}})},
                                                        {"optimizer", ordered_dict({{"m", tensor(values, 0, {8}, {1})}})}})));
    ASSERT_EQ(found.tensors.size(), 1U) << key;
    EXPECT_EQ(found.tensors[0].name, "w");
    EXPECT_EQ(found.tensors[0].values, (Floats{2, 3}));
  }
  expect_refused(archive(ordered_dict({{"epoch", integer(3)}, {"weights", ordered_dict()}})), "its keys are 'epoch', 'weights'");
  expect_refused(archive(integer(7)), "holds no table of tensors");
}

TEST_F(TorchFile, FindsTheOnlyTableOfTensorsWhateverItIsCalled) {
  const std::string values = storage("FloatStorage", "0", 8);
  const auto table = [&](std::int64_t first) { return ordered_dict({{"w", tensor(values, first, {2}, {1})}}); };
  const std::string optimizer = ordered_dict({{"state", ordered_dict({{"m", tensor(values, 0, {8}, {1})}})}});
  EXPECT_EQ(read(archive(ordered_dict({{"net", table(2)}, {"epoch", integer(3)}}))).tensors.at(0).values, (Floats{2, 3}));
  EXPECT_EQ(
      read(archive(ordered_dict({{"ema", ordered_dict({{"module", table(4)}})}, {"optimizer", optimizer}}))).tensors.at(0).values,
      (Floats{4, 5}));
  const std::string several = archive(ordered_dict({{"net", table(0)}, {"ema", ordered_dict({{"a.b", table(6)}})}}));
  expect_refused(several,
                 "holds several tables of tensors: choose one with weights = { file = ..., inside = \"net\" }; tables with "
                 "tensors are 'net' (1), 'ema.a.b' (1)");
  const auto inside = [&](const std::string& name) { return read_tensors(file(several), name); };
  EXPECT_EQ(inside("ema.a.b").tensors.at(0).values, (Floats{6, 7})) << "a key with a dot in it";
  EXPECT_EQ(inside("net").tensors.at(0).values, (Floats{0, 1}));
  EXPECT_MESSAGE(testkit::error_of([&] { inside("nett"); }).what());
}

// The types that torch/_weights_only_unpickler.py allows, and numbers of NumPy.
TEST_F(TorchFile, PassesOverWhatPyTorchReadsBesideTensors) {
  const std::string values = storage("FloatStorage", "0", 8), set = function("builtins", "set");
  const std::string unread = function("torch._utils", "_rebuild_sparse_tensor") + tuple({integer(1)}) + "R";
  const std::string complex = tensor(storage("ComplexFloatStorage", "1", 4), 0, {4}, {1});
  const std::string typed = function("torch._tensor", "_rebuild_from_type_v2") +
                            tuple({function("torch._utils", "_rebuild_tensor_v2"), function("torch.nn.parameter", "Parameter"),
                                   tuple({values, integer(1), integers({2}), integers({1}), "\x89", ordered_dict()}), "}"}) +
                            "R";
  const TensorFile found = read(
      archive(ordered_dict({{"w", tensor(values, 0, {2}, {1})},
                            {"typed", typed},
                            {"sparse", unread},
                            {"complex", complex},
                            {"set", set + tuple({"](K\1e"}) + "R"},
                            {"set4", "\x8f(K\1\x90"},
                            {"complex_number", function("builtins", "complex") + tuple({integer(1), integer(2)}) + "R"},
                            {"best", function("numpy.core.multiarray", "scalar") +
                                         tuple({function("numpy", "dtype") + tuple({text("f8"), "\x89", "\x88"}) + "R",
                                                function("_codecs", "encode") + tuple({text("x"), text("latin1")}) + "R"}) +
                                         "R"},
                            {"dtype", function("torch", "float32")},
                            {"layout", function("torch.serialization", "_get_layout") + tuple({text("torch.strided")}) + "R"},
                            {"counter", function("collections", "Counter") + tuple({"}"}) + "R"}})));
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_EQ(found.tensors[1].values, (Floats{1, 2}));
  ASSERT_EQ(found.unread.size(), 1U);
  EXPECT_EQ(found.unread[0].what, "a sparse tensor");
  EXPECT_EQ(found.not_floating, std::vector<std::string>{"complex"});
}

TEST_F(TorchFile, FollowsTheOpcodesOfLaterProtocols) {
  // {"w": tensor} in protocol 4: frames, short texts, functions from the stack, a memo by number, one item at a time.
  const auto text4 = [](const std::string& value) { return "\x8c" + std::string(1, static_cast<char>(value.size())) + value; };
  const std::string persistent =
      "(" + text4("storage") + "\x94" + text4("torch") + text4("FloatStorage") + "\x93" + text4("0") + text4("cpu") + "K\x08tQ";
  const std::string value = std::string("\x80\x04\x95") + std::string(8, '\0') + "}\x94" + text4("w") + text4("torch._utils") +
                            text4("_rebuild_tensor_v2") + "\x93(" + persistent + "K\x01K\x02\x85K\x01\x85" + "\x89}tRs.";
  EXPECT_EQ(read(zip(entries_of(value, {{"0", eight_}}))).tensors.at(0).values, (Floats{1, 2}));
  // Memo entries are reused: one storage for two tensors; attributes are ignored.
  const std::string again = ordered_dict() + "(" + text("a") + function("torch._utils", "_rebuild_tensor_v2") + "(" +
                            storage("FloatStorage", "0", 8) + "q\x05" + integer(0) + integers({1}) + integers({1}) + "\x89NtR" +
                            text("b") + function("torch._utils", "_rebuild_tensor_v2") + "(h\x05" + integer(7) + integers({1}) +
                            integers({1}) + "\x89NtRu}" + text("_metadata") + "Nsb";
  const TensorFile both = read(archive(again));
  ASSERT_EQ(both.tensors.size(), 2U);
  EXPECT_EQ(both.tensors[1].values, Floats{7});
}

TEST_F(TorchFile, RunsNothing) {
  const fs::path trace = folder_ / "trace";
  const std::string command = tuple({text("touch " + trace.string())});
  expect_refused(archive(function("posix", "system") + command + "R"), "would run posix.system: refused");
  expect_refused(archive(text("os") + text("system") + "\x93" + command + "R"), "would run os.system: refused");
  expect_refused(archive(ordered_dict({{"w", function("builtins", "eval") + command + "\x81"}})), "would run builtins.eval");
  expect_refused(archive(function("torch", "FloatStorage.__class__") + command + "R"), "would run torch.FloatStorage.__class__");
  expect_refused(archive(function("numpy.core.multiarray", "_reconstruct") + command + "R"),
                 "would run numpy.core.multiarray._rec");
  expect_refused(archive(function("argparse", "Namespace") + command + "R"), "would run argparse.Namespace: refused");
  expect_refused(archive("(" + text("x") + "iposix\nsystem\n"), "opcode 0x69");
  expect_refused(archive(tuple({}) + "\x82\x01"), "opcode 0x82");
  EXPECT_FALSE(fs::exists(trace));
}

TEST_F(TorchFile, RefusesTensorsThatDoNotFitTheirStorage) {
  constexpr std::int64_t kMax = INT64_MAX;
  expect_refused(with_tensor(8, 7, {2}, {1}), "tensor 'w': is 2 from element 7 on, which does not fit its storage of 8");
  expect_refused(with_tensor(8, 0, {3, 3}, {1, 1}), "does not fit its storage");  // nine values out of five
  expect_refused(with_tensor(8, kMax, {2}, {kMax}), "does not fit its storage");
  expect_refused(with_tensor(8, 0, {3}, {kMax}), "does not fit its storage");
  expect_refused(with_tensor(8, 0, {kMax, 4}, {1, 1}), "its shape is too large");
  expect_refused(with_tensor(8, 0, {1LL << 40}, {0}), "does not fit its storage");
  expect_refused(with_tensor(8, -1, {2}, {1}), "its offset must be a whole number from 0");
  expect_refused(with_tensor(8, 0, {-2}, {1}), "its size must be");
  expect_refused(with_tensor(8, 0, {2}, {-1}), "its stride must be");
  expect_refused(with_tensor(8, 0, {2}, {1, 1}), "equal length");
  expect_refused(with_tensor(8, 0, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}), "at most 6");
  expect_refused(with_tensor(9, 0, {2}, {1}), "its storage of 9 elements of F32 does not fit entry 'weights/data/0' of 32 bytes");
  expect_refused(archive(ordered_dict({{"w", tensor(storage("FloatStorage", "1", 8), 0, {1}, {1})}})),
                 "no entry 'weights/data/1'");
  expect_refused(archive(ordered_dict({{"w", tensor(text("0"), 0, {1}, {1})}})), "not described as torch.save() does");
  const std::string whole = tensor(storage("FloatStorage", "0", 8), 0, {8}, {1});
  expect_refused(archive(ordered_dict({{"w", whole}, {"w", whole}})), "has 'w' twice");
}

TEST_F(TorchFile, BoundsWhatTensorsOfOneStorageTake) {
  const std::string zeros(std::size_t{1} << 20, '\0');
  const std::string whole = tensor(storage("FloatStorage", "0", 1 << 18), 0, {1 << 18}, {1});
  std::vector<Item> items;
  for (int i = 0; i < 40; ++i) items.push_back({std::string("w").append(std::to_string(i)), whole});
  expect_refused(zip(entries_of(pickle(ordered_dict(items)), {{"0", zeros}})), "too many for a file of");
  items.resize(4);
  EXPECT_EQ(read(zip(entries_of(pickle(ordered_dict(items)), {{"0", zeros}}))).tensors.size(), 4U);
}

TEST_F(TorchFile, RefusesPicklesThatAreDamaged) {
  expect_refused(zip(entries_of("", {})), "the pickle ends too early");
  expect_refused(zip(entries_of("\x80\x02", {})), "the pickle ends too early");
  expect_refused(zip(entries_of("\x80\x07N.", {})), "has protocol 7");
  expect_refused(zip(entries_of("\x80\x02.", {})), "takes a value where there is none");
  expect_refused(archive("t"), "takes values from a mark that is not there");
  expect_refused(archive("a"), "takes a value where there is none");
  expect_refused(archive("NNa"), "takes a list where there is none");
  expect_refused(archive("}(Nu"), "a key without a value");
  expect_refused(archive("h\x03"), "takes value 3 again");
  expect_refused(archive("NNR"), "without a tuple of arguments");
  expect_refused(archive("N)R"), "takes a function where there is none");
  expect_refused(archive("X\xff\xff\xff\xff"), "the pickle ends too early");
  expect_refused(archive("cposix"), "ends within a line");
  expect_refused(archive("(N" + std::string("q\x01") + "(h\x01" + "0e"), "takes");
  expect_refused(archive(std::string(1'100'000, 'N')), "more than 1000000 values");
  expect_refused(archive(std::string(1'100'000, '(')), "opcode");
  EXPECT_THROW(read(archive("}q\x01" + text("x") + "h\x01s")), Error);  // a recursive table
}

TEST_F(TorchFile, RefusesArchivesThatItDoesNotUnderstand) {
  const std::string description = pickle(ordered_dict({{"w", tensor(storage("FloatStorage", "0", 8), 0, {8}, {1})}}));
  std::vector<ZipEntry> entries = entries_of(description, {{"0", eight_}});
  EXPECT_EQ(read(zip(entries)).tensors.size(), 1U);
  EXPECT_EQ(read(zip(entries, /*large=*/true)).tensors.size(), 1U);
  entries[2].method = 8;
  expect_refused(zip(entries), "its entry 'weights/data/0' is compressed");
  entries[2].method = 0;
  entries[2].flags = 1;
  expect_refused(zip(entries), "its entry 'weights/data/0' is encrypted");
  entries[2] = entries[0];
  expect_refused(zip(entries), "has the entry 'weights/data.pkl' twice");
  expect_refused(zip(entries_of(description, {{"0", eight_}}, "big")), "byte order 'big'");
  expect_refused(zip({{"model.json", "{}"}}), "without 'data.pkl'");
  expect_refused(zip({{"fc.weight.npy", "\x93NUMPY"}}), "is an archive of NumPy's arrays (.npz)");
  expect_refused(zip({{"config.json", "{}"}, {"model.weights.h5", ""}}), "is a model of Keras");
  entries = entries_of(description, {{"0", eight_}});
  entries.push_back({"weights/constants.pkl", ""});
  expect_refused(zip(entries), "TorchScript");
  expect_refused("PK\3\4 and nothing else", "has no list of entries at its end");
  expect_refused("", "has no list of entries at its end");
}

TEST_F(TorchFile, ReadsOrderedTablesOfPython2) {
  const std::string values = storage("FloatStorage", "0", 8);
  const auto table = [](const std::string& pairs) { return function("collections", "OrderedDict") + "(" + pairs + "tR"; };
  const std::string pair = "](" + text("w") + tensor(values, 2, {2}, {1}) + "e";
  EXPECT_EQ(read(archive(table("](" + pair + "e"))).tensors.at(0).values, (Floats{2, 3}));
  EXPECT_EQ(read(archive(table("](" + tuple({text("w"), tensor(values, 1, {1}, {1})}) + "e"))).tensors.at(0).values, Floats{1});
  expect_refused(archive(table("](" + text("w") + "e")), "an OrderedDict of values that are not pairs");
  expect_refused(archive(table(pair + "N")), "an OrderedDict of values that are not pairs");
  expect_refused(archive(table("](" + pair + "eN")), "an OrderedDict of something other than a list");
  // A list passed to many tables is copied as often.
  std::string many = "](";
  for (int i = 0; i < 2000; ++i) many += "](NNe";
  many += "eq\x01" + std::string("0");
  for (int i = 0; i < 300; ++i) many += function("collections", "OrderedDict") + "(h\x01tR0";
  expect_refused(archive(many + "}"), "more than 1000000 values");
}

TEST_F(TorchFile, KnowsTheFormatByTheFirstBytes) {
  const std::string path = (folder_ / "any name").string();
  write_safetensors(path, {{"w", {2}, {1, 2}}}, {{"a", "b"}});
  EXPECT_EQ(read_tensors(path).tensors.at(0).values, (Floats{1, 2}));
  EXPECT_EQ(read_tensors_metadata(path).at("a"), "b");
  EXPECT_FALSE(is_torch_file(std::string_view("\x80\x02\0\0\0\0\0\0", 8)));  // a header of 640 bytes
  EXPECT_THROW(read_tensors((folder_ / "nothing").string()), Error);
}

TEST_F(TorchFile, AFileThatIsCutIsRefused) {
  const std::string whole = small_state_dict();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(read_torch_file(file(whole.substr(0, size))), Error) << size;
  }
}

}  // namespace
}  // namespace millrace::torch_file_test
