// Weights from another run: new layers, frozen layers, and mismatches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "command.h"
#include "pairs_fixture.h"
#include "testkit/messages.h"
#include "weights/safetensors.h"
#include "weights/torch_file_fixture.h"

namespace millrace::test::transfer_test {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

std::string weights_of(const std::string& folder) { return find_file(folder, "weights.safetensors"); }

Tensors tensors_of(const std::string& folder) {
  Tensors tensors;
  for (NamedTensor& tensor : read_safetensors(weights_of(folder)).tensors) tensors[tensor.name] = std::move(tensor.values);
  return tensors;
}

// A file of torch.save() with these tensors.
void write_pth(const std::string& path, const std::vector<NamedTensor>& tensors, const std::string& prefix) {
  using namespace torch_fixture;
  std::vector<Item> items;
  std::vector<Values> values;
  for (const NamedTensor& tensor : tensors) {
    const std::string key = std::to_string(values.size());
    std::vector<std::int64_t> size(tensor.shape.begin(), tensor.shape.end()), stride(size.size(), 1);
    for (std::size_t axis = size.size(); axis-- > 1;) stride[axis - 1] = stride[axis] * size[axis];
    const auto elements = static_cast<std::int64_t>(tensor.values.size());
    items.push_back({prefix + tensor.name, torch_fixture::tensor(storage("FloatStorage", key, elements), 0, size, stride)});
    values.push_back(
        {key, std::string(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float))});
  }
  std::ofstream(path, std::ios::binary) << zip(entries_of(pickle(ordered_dict(items)), values));
}

// One epoch of quickstart.toml on few images, once for this program: the start of the other runs.
class Transfer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const Outcome outcome =
        run_command({tool("pipeline-run"), pipeline("quickstart.toml"), "--quiet", "--set", "data.path=" + shapes(), "--set",
                     "run.folder=" + *folder_ / "first", "--set", "run.epochs=1"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  // quickstart.toml on the first five classes, which needs another last layer; `network`: more keys of [network].
  static Outcome five_classes(const std::string& network, const std::string& runs = "",
                              const std::vector<std::string>& options = {}) {
    std::ofstream(*folder_ / "five.toml") << "extends = \"" << pipeline("quickstart.toml") << "\"\n[run]\nepochs = 1\nfolder = \""
                                          << (runs.empty() ? "" : *folder_ / runs) << "\"\n[network]\nclasses = 5\n"
                                          << network << "\n[data]\npath = \"" << shapes() << "\"\n";
    std::string classes;
    for (const auto& entry : std::filesystem::directory_iterator(shapes() + "/train")) {
      names_.insert(entry.path().filename().string());
    }
    int count = 0;
    for (const std::string& name : names_) {
      if (count++ < 5) classes += (classes.empty() ? "\"" : ", \"") + name + "\"";
    }
    std::vector<std::string> arguments = {tool("pipeline-run"), *folder_ / "five.toml", "--json"};
    for (const char* graph : {"train", "validate"})
      arguments.insert(arguments.end(), {"--set", std::string(graph) + ".read.only=[" + classes + "]"});
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_command(arguments);
  }

  static std::string first() { return weights_of(*folder_ / "first"); }

  static TemporaryFolder* folder_;
  static std::set<std::string> names_;
};

TemporaryFolder* Transfer::folder_ = nullptr;
std::set<std::string> Transfer::names_;

TEST_F(Transfer, FrozenLayersKeepTheirBitsAndTheOthersTrain) {
  const Outcome outcome =
      five_classes("weights = \"" + first() + "\"\nnew = [\"fc\"]\nfreeze = [\"block1\", \"block2.conv?\"]", "frozen");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Tensors before = tensors_of(*folder_ / "first"), after = tensors_of(*folder_ / "frozen");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, values] : after) {
    const bool statistic = name.find("running_") != std::string::npos;
    if (name.starts_with("fc.")) {
      EXPECT_EQ(values.size() * 2, before.at(name).size()) << name;
    } else if (!statistic && (name.starts_with("block1.") || name.starts_with("block2.conv"))) {
      EXPECT_EQ(values, before.at(name)) << name;
    } else {
      EXPECT_NE(values, before.at(name)) << name;
    }
  }
}

TEST_F(Transfer, StartsFromTheValuesOfTheFile) {
  // With a learning rate of 0 only the statistics change.
  const Outcome outcome =
      five_classes("new = [\"fc\"]", "still", {"--weights", first(), "--set", "train.optimizer.learning_rate={ initial = 0 }"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Tensors before = tensors_of(*folder_ / "first"), after = tensors_of(*folder_ / "still");
  for (const auto& [name, values] : after) {
    if (name.starts_with("fc.") || name.find("running_") != std::string::npos) continue;
    EXPECT_EQ(values, before.at(name)) << name;
  }
}

TEST_F(Transfer, AFileOfPyTorchGivesTheSameRun) {
  write_pth(*folder_ / "first.pth", read_safetensors(first()).tensors, "module.");
  const std::string more = "\nnew = [\"fc\"]\nfreeze = [\"block1\"]\n";
  const Outcome ours = five_classes("weights = \"" + first() + "\"" + more, "ours");
  const Outcome theirs =
      five_classes("weights = \"first.pth\"" + more + "rename = [{ from = \"module.*\", to = \"*\" }]", "theirs");
  ASSERT_EQ(ours.code, 0) << ours.err;
  ASSERT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_EQ(tensors_of(*folder_ / "ours"), tensors_of(*folder_ / "theirs"));
}

TEST_F(Transfer, RefusesValuesThatAreNotFinite) {
  std::vector<NamedTensor> tensors = read_safetensors(first()).tensors;
  tensors.front().values.back() = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(*folder_ / "nan.safetensors", tensors);
  EXPECT_MESSAGE(refused(five_classes("new = [\"fc\"]", "", {"--weights", *folder_ / "nan.safetensors", "--check"}), 3));
}

TEST_F(Transfer, ARunsOwnWeightsAreTakenWholeByAGraphThatDoesNotTrain) {
  const std::string network = "weights = \"" + first() + "\"\nnew = [\"fc\"]";
  const Outcome trained = succeeded(five_classes(network, "five"));
  const Outcome measured =
      succeeded(five_classes(network, "", {"--graph", "validate", "--weights", weights_of(*folder_ / "five")}));
  EXPECT_EQ(events(trained, "validate").back().at("accuracy"), events(measured, "validate").back().at("accuracy"));
  EXPECT_MESSAGE(refused(five_classes(network, "", {"--graph", "validate"})));
}

TEST_F(Transfer, CheckSaysWhatIsTakenAndWhatIsFixed) {
  const Outcome outcome =
      succeeded(five_classes("weights = \"" + first() + "\"\nnew = [\"fc\"]\nfreeze = [\"block1\"]", "", {"--check"}));
  // 16 x 3 x 3 x 3 + 16 x 16 x 3 x 3 weights of two convolutions, and two of 16 channels each of two batch_norm
  EXPECT_NE(outcome.err.find(" (2800 fixed)"), std::string::npos) << outcome.err;  // standard output has events
  EXPECT_NE(outcome.err.find("weights  " + first() + ", new: fc\n"), std::string::npos) << outcome.err;
}

TEST_F(Transfer, WarnsOfFrozenLayersThatTakeNothing) {
  const char* const said =
      "five.toml:7:10: freeze: 'block1.conv1.weight' begins with random values and is never trained, since no weights are given: "
      "set weights = \"FILE\" in [network], or pass --weights FILE";
  const Outcome random = succeeded(five_classes("freeze = [\"block1\"]", "", {"--check"}));
  EXPECT_NE(random.err.find(said), std::string::npos) << random.err;
  const Outcome taken = succeeded(five_classes("freeze = [\"block1\"]\nnew = [\"fc\"]", "", {"--check", "--weights", first()}));
  EXPECT_EQ(taken.err.find("freeze"), std::string::npos) << taken.err;
  const Outcome biases = five_classes("freeze = [\"fc.bias\"]", "", {"--check"});
  EXPECT_EQ(biases.err.find("freeze"), std::string::npos) << "they do no harm\n" << biases.err;
}

// torchvision's vgg16_bn, in its file's form: names and shapes of the layers before the classifier. Running means are 10,000.
std::vector<NamedTensor> vgg16_bn() {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape, float least, float step) {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = least + step * static_cast<float>((i * 7 + tensors.size()) % 13);
    tensors.push_back({name, shape, std::move(values)});
  };
  std::int64_t channels = 3;
  int number = 0;
  for (const int out : {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0}) {
    if (out == 0) {  // a pool
      ++number;
      continue;
    }
    const std::string conv = fmt::format("features.{}.", number), norm = fmt::format("features.{}.", number + 1);
    add(conv + "weight", {out, channels, 3, 3}, -0.03F, 0.005F);
    add(conv + "bias", {out}, -0.1F, 0.02F);
    add(norm + "weight", {out}, 0.5F, 0.1F);
    add(norm + "bias", {out}, -0.3F, 0.05F);
    add(norm + "running_mean", {out}, 1e4F, 0);
    add(norm + "running_var", {out}, 1, 0.1F);
    channels = out;
    number += 3;
  }
  for (const char* layer : {"0", "3", "6"}) {  // small, since they are not used
    add(fmt::format("classifier.{}.weight", layer), {4, 4}, 0, 1);
    add(fmt::format("classifier.{}.bias", layer), {4}, 0, 1);
  }
  return tensors;
}

// As described at the top of segnet_camvid.toml, for a step with a learning rate of 0.
TEST(TransferOfSegNet, TheEncoderIsThatOfAClassificationNetworkByName) {
  const TemporaryFolder folder;
  draw_pairs(folder / "train", 4, 32, 32, 12);
  const std::vector<NamedTensor> file = vgg16_bn();
  write_pth(folder / "vgg16_bn.pth", file, "");
  std::ofstream(folder / "s.toml") << "extends = \"" << pipeline("segnet_camvid.toml")
                                   << "\"\n[run]\nepochs = 0.25\nbest = \"\"\n"
                                   << "precision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"" << folder / "runs"
                                   << "\"\n[data]\npath = \"" << folder.path().string()
                                   << "\"\n[image]\nheight = 32\nwidth = 32\nmargin = 0\n"
                                   << "[network]\nweights = \"vgg16_bn.pth\"\nnew = [\"decoder*\"]\n"
                                   << "rename = [{ from = \"classifier.*\", to = \"\" }]\n"
                                   << "[train.batch]\nsize = 1\n[train.optimizer]\nlearning_rate = 0\n";
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), folder / "s.toml", "--graph", "train", "--json"}));
  ASSERT_EQ(events(outcome, "step").size(), 1U);
  const Tensors made = tensors_of(folder / "runs");
  std::size_t encoder = 0, decoder = 0;
  for (const NamedTensor& tensor : file) {
    if (tensor.name.starts_with("classifier")) continue;
    SCOPED_TRACE(tensor.name);
    ++encoder;
    ASSERT_TRUE(made.contains(tensor.name));
    const std::vector<float>& values = made.at(tensor.name);
    ASSERT_EQ(values.size(), tensor.values.size());
    if (tensor.name.ends_with("running_mean")) {
      for (const float value : values) EXPECT_NEAR(value, 9e3F, 100) << "it takes a tenth of the batch's";
    } else if (!tensor.name.ends_with("running_var")) {
      EXPECT_TRUE(values == tensor.values);
    }
  }
  for (const auto& [name, values] : made) {
    EXPECT_FALSE(name.starts_with("classifier")) << name;
    if (!name.starts_with("decoder")) continue;
    ++decoder;
    EXPECT_TRUE(!name.ends_with("conv.weight") || values.front() != values.back()) << name << " is drawn";
  }
  EXPECT_EQ(encoder, 13U * 6);
  EXPECT_EQ(made.size(), encoder + decoder);
}

}  // namespace
}  // namespace millrace::test::transfer_test
