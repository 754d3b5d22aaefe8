#include "network/transfer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/messages.h"
#include "weights/safetensors.h"

namespace millrace::transfer_test {
namespace {

Parameter parameter(const std::string& name, const Shape& shape) { return {.name = name, .shape = shape, .initialiser = {}}; }

Layer layer(const std::string& name, std::vector<int> parameters) {
  Layer made;
  made.name = name;
  made.parameters = std::move(parameters);
  return made;
}

class Transfer : public testing::Test {
 protected:
  Transfer() {
    network_.name = "small";
    network_.parameters = {parameter("body.0.conv.weight", {2}), parameter("body.0.bn.running_mean", {2}),
                           parameter("fc.weight", {3}), parameter("fc.bias", {1})};
    network_.layers = {layer("body.0.conv", {0}), layer("body.0.bn", {1}), layer("fc", {2, 3}), layer("softmax1", {})};
    file_ = testing::TempDir() + "transfer_" + std::to_string(::getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  ~Transfer() override { std::filesystem::remove(file_); }

  std::vector<std::vector<float>> load(const std::vector<NamedTensor>& tensors, const std::vector<std::string>& fresh = {},
                                       const std::vector<RenameRule>& rename = {}) {
    write_safetensors(file_, tensors);
    return load_weights({file_, fresh, rename}, network_);
  }
  std::string mistakes(const std::vector<NamedTensor>& tensors, const std::vector<std::string>& fresh = {},
                       const std::vector<RenameRule>& rename = {}) {
    try {
      load(tensors, fresh, rename);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      const std::string begin = "'" + file_ + "' does not fit network 'small':\n";
      EXPECT_TRUE(error.message().starts_with(begin)) << error.message();
      return error.message().substr(std::min(begin.size(), error.message().size()));
    }
  }

  const NamedTensor conv_{"body.0.conv.weight", {2}, {1, 2}}, mean_{"body.0.bn.running_mean", {2}, {3, 4}},
      weight_{"fc.weight", {3}, {5, 6, 7}}, bias_{"fc.bias", {1}, {8}};
  Network network_;
  std::string file_;
};

using Values = std::vector<std::vector<float>>;

TEST_F(Transfer, TakesEveryParameterByItsName) {
  EXPECT_EQ(load({bias_, weight_, mean_, conv_}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
}

TEST_F(Transfer, MayLackWhatNoLossNeeds) {
  network_.parameters[0].unused = true;
  EXPECT_EQ(load({bias_, weight_, mean_}), (Values{{}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_EQ(load({bias_, weight_, mean_, conv_}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
}

// Unreadable tensors are not reported as missing.
TEST_F(Transfer, NamesTheTypeOfATensorThatIsNotRead) {
  const auto write = [&](const std::string& type, std::size_t bytes) {
    std::string header =
        "{\"fc.bias\":{\"dtype\":\"" + type + "\",\"shape\":[1],\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
    const std::uint64_t length = header.size();
    std::ofstream(file_, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length)
        << header << std::string(bytes, 1);
  };
  const auto said = [&](const std::vector<RenameRule>& rename) -> std::string {
    try {
      load_weights({file_, {"body", "fc.weight"}, rename}, network_);
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  };
  write("I8", 1);
  EXPECT_MESSAGE(said({}));
  EXPECT_MESSAGE(said({{"fc.bias", "other"}}));
  write("F8_E4M3", 1);
  EXPECT_MESSAGE(said({}));
}

TEST_F(Transfer, SaysOnceWhyManyTensorsAreNotRead) {
  std::string header;
  for (const char* name : {"fc.weight", "fc.bias", "body.0.conv.weight"})
    header += fmt::format("{}\"{}\":{{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}", header.empty() ? "{" : ",", name);
  header += "}";
  const std::uint64_t length = header.size();
  std::ofstream(file_, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length) << header;
  std::string said;
  try {
    load_weights({file_, {"body.0.bn"}, {}}, network_);
  } catch (const Error& error) {
    said = error.message();
  }
  EXPECT_MESSAGE(said);
}

TEST_F(Transfer, TakesTheTensorsInsideAName) {
  const auto within = [](NamedTensor tensor, const std::string& name) {
    tensor.name = name + "." + tensor.name;
    return tensor;
  };
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& tensor : {conv_, mean_, weight_, bias_}) tensors.push_back(within(tensor, "ema"));
  tensors.push_back(within(bias_, "net"));
  write_safetensors(file_, tensors);
  EXPECT_EQ(load_weights({.file = file_, .fresh = {}, .rename = {}, .inside = "ema"}, network_),
            (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_MESSAGE(
      testkit::error_of([&] { load_weights({.file = file_, .fresh = {}, .rename = {}, .inside = "em"}, network_); }).message());
}

TEST_F(Transfer, NamesTheNetworkThatTheFileIsOf) {
  write_safetensors(file_, {conv_, mean_, weight_}, {{"network", "large"}});
  EXPECT_MESSAGE(testkit::error_of([&] { load_weights({file_, {}, {}}, network_); }).message());
}

TEST_F(Transfer, FindsTheWeightsInAFolder) {
  const std::string folder = file_ + ".folder", inside = folder + "/weights.safetensors";
  std::filesystem::create_directories(folder);
  write_safetensors(inside, {conv_});
  EXPECT_MESSAGE(testkit::error_of([&] { read_tensors(folder); }).message());
  std::filesystem::remove_all(folder);
}

TEST_F(Transfer, SaysWhatAFileIsThatHoldsNoTensors) {
  const auto said = [&](const std::string& bytes) -> std::string {
    std::ofstream(file_, std::ios::binary) << bytes;
    try {
      read_tensors(file_);
    } catch (const Error& error) {
      return error.message();
    }
    return "it was read";
  };
  const std::string begin = "tensor file '" + file_ + "': is ",
                    end = ". Weights are safetensors, or a state dict that torch.save() wrote";
  EXPECT_EQ(said(""), begin + "empty" + end);
  EXPECT_EQ(said("\n<!DOCTYPE html><html>404"),
            begin + "a page of HTML or XML: a server may have answered with it in place of the file" + end);
  EXPECT_MESSAGE(said("not found"));
  EXPECT_MESSAGE(said("version https://git-lfs.github.com/spec/v1\n"));
  EXPECT_MESSAGE(said("\x80\x04\x95rest of it"));
  const std::string protocol_buffer = begin + "an ONNX file, or another protocol buffer" + end;
  EXPECT_EQ(said("\x08\x08\x12\x07pytorch\x1a"), protocol_buffer);
  EXPECT_EQ(said("\x08\x0e:\xcb\xef\x11\x12\x01g*\xe2\x0d"), protocol_buffer) << "of today";
  EXPECT_MESSAGE(
      said("\x0a\x07"
           "AlexNetqD\x7f"));
  EXPECT_MESSAGE(said("\x93NUMPY\x01"));
  EXPECT_MESSAGE(said(std::string("\x0a\x02\0\0\0\0\0\0{", 9)));
  EXPECT_MESSAGE(said(std::string("\x80\x02\0\0\0\0\0\0{", 9)));
}

TEST_F(Transfer, SaysThatAFileIsTheListOfItsPartsOrOneOfThem) {
  const std::string index = file_ + ".index.json", part = file_ + "-00001-of-00002.safetensors";
  std::ofstream(index) << R"({"metadata": {"total_size": 1}, "weight_map": {}})";
  const auto said = [&](const std::string& file) -> std::string {
    try {
      load_weights({file, {}, {}}, network_);
    } catch (const Error& error) {
      return error.message();
    }
    return "it was read";
  };
  EXPECT_MESSAGE(said(index));
  write_safetensors(part, {conv_, mean_});
  EXPECT_MESSAGE(said(part));
  std::vector<NamedTensor> others;
  for (int i = 10; i < 19; ++i) others.push_back({"queen." + std::to_string(i), {1}, {0}});
  write_safetensors(part, others);
  EXPECT_EQ(said(part).find("weights of another network"), std::string::npos) << said(part);
  write_safetensors(part, {conv_, mean_, weight_, bias_});
  EXPECT_EQ(said(part), "it was read");
  std::filesystem::remove(index);
  std::filesystem::remove(part);
}

// A network whose tensors were all converted to half.
TEST_F(Transfer, LeavesOutCountsOfBatchesOfAnyType) {
  const NamedTensor count{"body.0.bn.num_batches_tracked", {}, {9}};
  EXPECT_EQ(load({conv_, mean_, weight_, bias_, count}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
}

TEST_F(Transfer, TakesNothingForNewLayers) {
  const NamedTensor other{"fc.weight", {5}, {1, 2, 3, 4, 5}}, more{"fc.scale", {1}, {1}};
  EXPECT_EQ(load({conv_, mean_, other, bias_, more}, {"fc"}), (Values{{1, 2}, {3, 4}, {}, {}}));
  EXPECT_EQ(load({conv_, mean_}, {"f*"}), (Values{{1, 2}, {3, 4}, {}, {}}));
  EXPECT_EQ(load({weight_, bias_}, {"body"}), (Values{{}, {}, {5, 6, 7}, {8}}));
  EXPECT_EQ(load({conv_, mean_, weight_}, {"*.bias"}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {}}));
}

TEST_F(Transfer, RenamesByTheFirstRuleThatFits) {
  const NamedTensor conv{"module.features.conv.weight", {2}, {1, 2}}, mean{"module.features.bn.running_mean", {2}, {3, 4}},
      weight{"module.head.w", {3}, {5, 6, 7}}, bias{"module.fc.bias", {1}, {8}}, unwanted{"module.aux.weight", {2}, {0, 0}};
  const std::vector<RenameRule> rules = {
      {"module.features.*", "body.0.*"}, {"module.head.w", "fc.weight"}, {"module.aux.*", ""}, {"module.*", "*"}};
  EXPECT_EQ(load({conv, mean, weight, bias, unwanted}, {}, rules), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
}

// A linear layer's weight, (out, in), equals a 1x1 convolution's, (out, in, 1, 1).
TEST_F(Transfer, ExtentsOfOneAtTheEndMayDiffer) {
  const NamedTensor longer{"fc.weight", {3, 1, 1}, {5, 6, 7}}, turned{"fc.weight", {1, 3}, {5, 6, 7}};
  EXPECT_EQ(load({conv_, mean_, longer, bias_}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  network_.parameters[2].shape = {3, 1};
  EXPECT_EQ(load({conv_, mean_, weight_, bias_}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, turned, bias_}));
}

TEST_F(Transfer, ATensorUnderALayersNameIsItsOnlyParameter) {
  const NamedTensor conv{"body.0.conv", {2}, {1, 2}}, fc{"fc", {3}, {5, 6, 7}};
  EXPECT_EQ(load({conv, mean_, weight_, bias_}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_MESSAGE(mistakes({conv, conv_, mean_, weight_, bias_}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, fc, bias_}));
}

TEST_F(Transfer, ListsEverythingThatDoesNotFitWithTheNearestNames) {
  const NamedTensor wrong{"fc.weight", {2}, {1, 2}}, misspelt{"fc.biass", {1}, {8}}, stranger{"queen", {1}, {0}};
  EXPECT_MESSAGE(mistakes({conv_, wrong, misspelt, stranger}, {}, {{"fd.*", "x.*"}}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, weight_, bias_}, {}, {{"fc.weigth", "fc.weight"}}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, weight_, bias_, misspelt}, {}, {{"fc.biass", "fc.bias"}}));
}

TEST_F(Transfer, SaysThatWeightsAreOfAnotherNetworkAndNamesTenTensors) {
  std::vector<NamedTensor> others;
  for (int i = 10; i < 19; ++i) others.push_back({"queen." + std::to_string(i), {1}, {0}});
  std::string said;
  try {
    load(others);
  } catch (const Error& error) {
    said = error.message();
  }
  EXPECT_MESSAGE(said);
}

TEST_F(Transfer, KnowsTheStateOfACheckpoint) {
  const NamedTensor weight{"fc.weight/value", {3}, {5, 6, 7}}, momentum{"fc.weight/momentum", {3}, {5, 6, 7}},
      bias{"fc.bias/value", {1}, {8}}, conv{"body.0.conv.weight/value", {2}, {1, 2}},
      mean{"body.0.bn.running_mean/value/0", {2}, {3, 4}};
  EXPECT_MESSAGE(mistakes({conv, mean, weight, momentum, bias}));
}

TEST_F(Transfer, ProposesToTakeAwayACommonPrefix) {
  const NamedTensor conv{"module.body.0.conv", {2}, {1, 2}}, mean{"module.body.0.bn.running_mean", {2}, {3, 4}},
      weight{"module.fc.weight", {3}, {5, 6, 7}}, bias{"module.fc.bias", {1}, {8}}, stranger{"module.queen", {1}, {0}};
  const std::string proposal =
      "  all its names begin with 'module.'; in [network], rename = [{ from = \"module.*\", to = \"*\" }] removes it";
  EXPECT_EQ(mistakes({conv, mean, weight, bias}), proposal);
  EXPECT_EQ(mistakes({conv, mean, weight, bias}, {"fc"}), proposal);
  EXPECT_EQ(load({conv, mean, weight, bias}, {}, {{"module.*", "*"}}), (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_MESSAGE(mistakes({conv, mean, weight}));
  EXPECT_MESSAGE(mistakes({conv, mean, weight, bias, stranger}));
}

TEST_F(Transfer, ProposesToLeaveOutHeadsThatTheNetworkHasNot) {
  const NamedTensor head{"aux1.fc.weight", {3}, {5, 6, 7}}, head_bias{"aux1.fc.bias", {1}, {8}}, other{"aux2.w", {1}, {8}},
      wrong{"fc.weight", {2}, {1, 2}}, body{"body.1.weight", {1}, {0}};
  const std::string proposal =
      "\n[network] rename = [{ from = \"aux1.*\", to = \"\" }, { from = \"aux2.*\", to = \"\" }] skips tensors for which the "
      "network has no layers";
  const std::string unknown =
      "  'aux1.fc.bias' (1) belongs to no layer\n  'aux1.fc.weight' (3) belongs to no layer\n  'aux2.w' (1) belongs to no layer";
  EXPECT_EQ(mistakes({conv_, mean_, weight_, bias_, head, head_bias, other}), unknown + proposal);
  EXPECT_EQ(load({conv_, mean_, weight_, bias_, head, head_bias, other}, {}, {{"aux1.*", ""}, {"aux2.*", ""}}),
            (Values{{1, 2}, {3, 4}, {5, 6, 7}, {8}}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, wrong, bias_, head, head_bias, other}));
  EXPECT_EQ(mistakes({conv_, mean_, weight_, bias_, other, body}).find("rename"), std::string::npos) << "the block is known";
  EXPECT_EQ(mistakes({conv_, mean_, weight_, other}).find("rename"), std::string::npos) << "something is missing";
}

TEST_F(Transfer, NamesOfAFileSteerNoTerminal) {
  const NamedTensor hostile{"x\x1b[31m\nfc.bias\x07", {1}, {0}};
  EXPECT_EQ(mistakes({conv_, mean_, weight_, bias_, hostile}), "  'x\\x1b[31m\\x0afc.bias\\x07' (1) belongs to no layer");
  write_safetensors(file_, {conv_, mean_, weight_}, {{"network", "lar\x1bge"}});
  const Error error = testkit::error_of([&] { load_weights({file_, {}, {}}, network_); });
  EXPECT_NE(error.message().find("', the weights of network 'lar\\x1bge', does"), std::string::npos) << error.message();
}

TEST_F(Transfer, SaysWhatToDoWhenOnlyTheLastLayerDoesNotFit) {
  const NamedTensor other{"fc.weight", {5}, {1, 2, 3, 4, 5}}, short_conv{"body.0.conv.weight", {1}, {1}};
  EXPECT_MESSAGE(mistakes({conv_, mean_, other, bias_}));
  EXPECT_MESSAGE(mistakes({conv_, mean_, other}));
  EXPECT_MESSAGE(mistakes({short_conv, mean_, other, bias_}));
}

TEST(Covers, FitsAParameterItsLayerOrABlockAroundIt) {
  EXPECT_TRUE(covers("fc", "fc.weight"));
  EXPECT_TRUE(covers("fc.weight", "fc.weight"));
  EXPECT_TRUE(covers("layer1", "layer1.0.conv1.weight"));
  EXPECT_TRUE(covers("layer?.0", "layer1.0.conv1.weight"));
  EXPECT_TRUE(covers("*.bn1", "layer1.0.bn1.bias"));
  EXPECT_FALSE(covers("layer1", "layer10.conv.weight"));
  EXPECT_FALSE(covers("fc.", "fc.weight"));
  EXPECT_FALSE(covers("weight", "fc.weight"));
}

TEST(RenameRule, RepeatsTheTextOfItsStar) {
  EXPECT_EQ((RenameRule{"module.*", "*"}.apply("module.fc.weight")), "fc.weight");
  EXPECT_EQ((RenameRule{"*.gamma", "*.weight"}.apply("bn1.gamma")), "bn1.weight");
  EXPECT_EQ((RenameRule{"a*a", "b*"}.apply("aa")), "b");
  EXPECT_EQ((RenameRule{"a*a", "b*"}.apply("a")), std::nullopt);
  EXPECT_EQ((RenameRule{"head", "fc"}.apply("head")), "fc");
  EXPECT_EQ((RenameRule{"head", "fc"}.apply("head.weight")), std::nullopt);
  EXPECT_EQ((RenameRule{"aux.*", ""}.apply("aux.w")), "");
  EXPECT_EQ((RenameRule{"a*", "b"}.mistake()), "");
  EXPECT_MESSAGE((RenameRule{"a*b*", "b"}.mistake()));
  EXPECT_MESSAGE((RenameRule{"a", "b*"}.mistake()));
  EXPECT_EQ((RenameRule{"", "b"}.mistake()), "'from' is empty");
}

}  // namespace
}  // namespace millrace::transfer_test
