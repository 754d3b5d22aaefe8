// Refused tables [network].
#include "config/plan_fixture.h"

namespace millrace::plan_test {
namespace {

class NetworkPlanRefuses : public PlanFixture {};

TEST_F(NetworkPlanRefuses, AVariableThatTheNetworkCannotUse) {
  const std::string text = mistakes(train("[network]\nuse = \"small\"\nclasses = \"ten\"\n"));
  EXPECT_TRUE(
      text.starts_with("p.toml:10:11: classes = \"ten\" of network 'small': networks/small.toml:2:80: 'out' must be an integer"))
      << text;
  EXPECT_TRUE(text.ends_with("found \"ten\"")) << text;
}

TEST_F(NetworkPlanRefuses, AMisspeltKeyOfANetwork) {
  EXPECT_EQ(mistakes(train("[network]\nues = \"networks/small.toml\"\nclasses = 3\n")),
            "p.toml:8:1: [network] needs 'use': the name of a network, or the file that describes it\n"
            "p.toml:9:1: [network] has no key 'ues'; nearest is 'use'");
}

TEST_F(NetworkPlanRefuses, AFileWhoseEndingIsMisspelt) {
  EXPECT_EQ(mistakes(train("[network]\nuse = \"networks/small.tolm\"\nclasses = 3\n")),
            "p.toml:9:7: file 'networks/small.tolm' does not exist; nearest is 'networks/small.toml'");
}

TEST_F(NetworkPlanRefuses, UnknownNetworkFile) {
  EXPECT_EQ(mistakes(train("[network]\nuse = \"networks/smal.toml\"\n")),
            "p.toml:9:7: file 'networks/smal.toml' does not exist; nearest is 'networks/small.toml'");
  EXPECT_EQ(mistakes(train("[network]\nuse = \"elsewhere/small.toml\"\n")),
            "p.toml:9:7: file 'elsewhere/small.toml' does not exist; the zoo has it: use = \"small\"");
  EXPECT_EQ(mistakes(train("[network]\nclasses = 3\n")),
            "p.toml:8:1: [network] needs 'use': the name of a network, or the file that describes it");
}

TEST_F(NetworkPlanRefuses, WhatNetworkSaysOfItsWeights) {
  const auto said = [&](const std::string& key) { return mistakes(train("[network]\nuse = \"small\"\nclasses = 7\n" + key)); };
  write("networks/old.pth", "");
  EXPECT_EQ(said("weights = \"networks/odl.pth\"\n"),
            "p.toml:11:11: file 'networks/odl.pth' does not exist; nearest is 'networks/old.pth'");
  fs::create_directories("mini");
  EXPECT_EQ(said("weights = \"mini\"\n"), "p.toml:11:11: 'mini' is a folder: name the file in it");
  EXPECT_EQ(said("weights = { file = \"networks/odl.pth\", inside = \"ema\" }\n"),
            "p.toml:11:20: file 'networks/odl.pth' does not exist; nearest is 'networks/old.pth'");
  EXPECT_EQ(said("weights = { file = \"networks/old.pth\", insde = \"ema\" }\n"),
            "p.toml:11:40: 'weights' has no key 'insde'; nearest is 'inside'");
  write("weights.pth", "");
  fs::create_directories("folder/networks");
  fs::copy_file("networks/small.toml", "folder/networks/small.toml");
  write("folder/p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"weigths.pth\"\n"));
  try {
    load_pipeline("folder/p.toml", {}, registry_);
    ADD_FAILURE() << "there are no such weights";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "folder/p.toml:11:11: file 'folder/weigths.pth' does not exist; in the working folder file 'weigths.pth' does not "
              "exist; nearest is 'weights.pth'");
  }
  write("p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"networks/odl.pth\"\n"));
  EXPECT_NO_THROW(load_pipeline("p.toml", {}, registry_, {.other_weights = true, .made_by = {}})) << "others are named";
  EXPECT_EQ(said("new = [\"fx\", \"fc\"]\nfreeze = [\"fc.wieght\"]\n"),
            "p.toml:11:8: new: 'fx' matches no layer with parameters; nearest is 'fc'\np.toml:12:11: freeze: 'fc.wieght' matches "
            "no layer with parameters; nearest is 'fc.weight'");
  EXPECT_EQ(said("freeze = [\"*\"]\n"), "p.toml:11:10: freeze: nothing is left to train: freeze fewer layers");
  EXPECT_EQ(said("freeze = [\"backbone\"]\n"),
            "p.toml:11:11: freeze: 'backbone' matches no layer with parameters; its last layer is 'fc'");
  EXPECT_EQ(said("new = [\"fc\"]\nfreeze = [\"fc.weight\"]\n"),
            "p.toml:12:11: freeze: 'fc.weight' begins with random values because of 'new', and would never be trained: remove it "
            "from 'new' or 'freeze'");
  EXPECT_EQ(said("new = [\"fc\"]\nfreeze = [\"fc.bias\"]\n"), "") << "the layer learns without its bias";
  EXPECT_EQ(said("freeze = \"fc\"\n").find("p.toml:11:10: "), 0U);
  EXPECT_EQ(said("rename = [{ from = \"a.*\", to = \"*.*\" }]\n"), "p.toml:11:11: rename: a rule has at most one * on each side");
  EXPECT_EQ(said("weights = \"networks/old.pth\"\nsha256 = \"12\"\n"),
            "p.toml:12:10: 'sha256' must be 64 hexadecimal digits, found \"12\"");
  EXPECT_EQ(said("sha256 = \"" + std::string(64, 'a') + "\"\n"),
            "p.toml:11:10: [network] has 'sha256' but no 'weights' to check: add 'weights', or remove 'sha256'");
  EXPECT_NE(said("weights = \"htps://host/x.pth\"\n").find("p.toml:11:11: 'htps://host/x.pth': no plugin reads 'htps://'"),
            std::string::npos);
  EXPECT_EQ(said("freze = [\"fc\"]\n"),
            "p.toml:11:1: [network] has no key 'freze'; nearest is 'freeze'; network 'small' has the variables 'classes'");
}

TEST_F(NetworkPlanRefuses, ANetworkThatTheZooLacks) {
  const std::string text = mistakes(train("[network]\nuse = \"resnet81\"\n"));
  EXPECT_TRUE(
      text.starts_with("p.toml:9:7: unknown network 'resnet81'; nearest is 'resnet18'; there are airbench94, alexnet, "))
      << text;
  // The neighbouring file is listed with those of the zoo.
  EXPECT_NE(text.find("small, squeezenet1_1, "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; write a file of your own with its ending: \"resnet81.toml\"")) << text;
}

// A word stands for the file that the network's author has published; the user's own file of either name wins.
TEST_F(NetworkPlanRefuses, NoPublishedWeightsAndTakesTheNearestOnes) {
  std::ifstream small("networks/small.toml");
  const std::string network{std::istreambuf_iterator<char>(small), {}};
  const auto taken = [&](const std::string& word) {
    write("p.toml", train("[network]\nuse = \"networks/named.toml\"\nclasses = 7\nweights = \"" + word + "\"\n"));
    return load_pipeline("p.toml", {}, registry_).network_params;
  };
  const std::string place = fs::absolute("far/small-01234567.pth").string();
  write("networks/named.toml",
        network + "\n[published.lab]\nurl = \"file://" + place + "\"\nrename = [{ from = \"aux*\", to = \"\" }]\n");
  EXPECT_EQ(taken("lab").weights.file, place);
  EXPECT_EQ(taken("lab").rename.size(), 1U);
  write("small-01234567.pth", "");
  EXPECT_EQ(taken("lab").weights.file, "small-01234567.pth");
  write("lab", "");
  EXPECT_EQ(taken("lab").weights.file, "lab");
  EXPECT_TRUE(taken("lab").rename.empty()) << "they are the user's own";
  const std::string text = mistakes(train("[network]\nuse = \"networks/named.toml\"\nclasses = 7\nweights = \"imagenet\"\n"));
  EXPECT_NE(text.find("the network's file has the published weights \"lab\""), std::string::npos) << text;
  write("networks/named.toml", network + "\n[published.lab]\nadress = \"https://host/x.pth\"\n");
  const std::string wrong = mistakes(train("[network]\nuse = \"networks/named.toml\"\nclasses = 7\n"));
  EXPECT_NE(wrong.find("published weights 'lab' have no key 'adress': expected url, sha256 or rename"), std::string::npos)
      << wrong;
}

}  // namespace
}  // namespace millrace::plan_test
