// Refused tables [network].
#include "config/plan_fixture.h"

#include "testkit/messages.h"

#include "testkit/files.h"

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
  EXPECT_MESSAGE(mistakes(train("[network]\nues = \"networks/small.toml\"\nclasses = 3\n")));
}

TEST_F(NetworkPlanRefuses, AFileWhoseEndingIsMisspelt) {
  EXPECT_MESSAGE(mistakes(train("[network]\nuse = \"networks/small.tolm\"\nclasses = 3\n")));
}

TEST_F(NetworkPlanRefuses, UnknownNetworkFile) {
  EXPECT_MESSAGE(mistakes(train("[network]\nuse = \"networks/smal.toml\"\n")));
  EXPECT_MESSAGE(mistakes(train("[network]\nuse = \"elsewhere/small.toml\"\n")));
  EXPECT_MESSAGE(mistakes(train("[network]\nclasses = 3\n")));
}

TEST_F(NetworkPlanRefuses, WhatNetworkSaysOfItsWeights) {
  const auto said = [&](const std::string& key) { return mistakes(train("[network]\nuse = \"small\"\nclasses = 7\n" + key)); };
  write("networks/old.pth", "");
  EXPECT_MESSAGE(said("weights = \"networks/odl.pth\"\n"));
  fs::create_directories("mini");
  EXPECT_MESSAGE(said("weights = \"mini\"\n"));
  EXPECT_MESSAGE(said("weights = { file = \"networks/odl.pth\", inside = \"ema\" }\n"));
  EXPECT_MESSAGE(said("weights = { file = \"networks/old.pth\", insde = \"ema\" }\n"));
  write("weights.pth", "");
  fs::create_directories("folder/networks");
  fs::copy_file("networks/small.toml", "folder/networks/small.toml");
  write("folder/p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"weigths.pth\"\n"));
  EXPECT_MESSAGE(testkit::error_of([&] { load_pipeline("folder/p.toml", {}, registry_); }).message());
  write("p.toml", train("[network]\nuse = \"small\"\nclasses = 7\nweights = \"networks/odl.pth\"\n"));
  EXPECT_NO_THROW(load_pipeline("p.toml", {}, registry_, {.other_weights = true, .made_by = {}})) << "others are named";
  EXPECT_MESSAGE(said("new = [\"fx\", \"fc\"]\nfreeze = [\"fc.wieght\"]\n"));
  EXPECT_MESSAGE(said("freeze = [\"*\"]\n"));
  EXPECT_MESSAGE(said("freeze = [\"backbone\"]\n"));
  EXPECT_MESSAGE(said("new = [\"fc\"]\nfreeze = [\"fc.weight\"]\n"));
  EXPECT_EQ(said("new = [\"fc\"]\nfreeze = [\"fc.bias\"]\n"), "") << "the layer learns without its bias";
  EXPECT_EQ(said("freeze = \"fc\"\n").find("p.toml:11:10: "), 0U);
  EXPECT_MESSAGE(said("rename = [{ from = \"a.*\", to = \"*.*\" }]\n"));
  EXPECT_MESSAGE(said("weights = \"networks/old.pth\"\nsha256 = \"12\"\n"));
  EXPECT_MESSAGE(said("sha256 = \"" + std::string(64, 'a') + "\"\n"));
  EXPECT_MESSAGE(said("weights = \"htps://host/x.pth\"\n"));
  EXPECT_MESSAGE(said("freze = [\"fc\"]\n"));
}

TEST_F(NetworkPlanRefuses, ANetworkThatTheZooLacks) {
  const std::string text = mistakes(train("[network]\nuse = \"resnet81\"\n"));
  EXPECT_TRUE(text.starts_with("p.toml:9:7: unknown network 'resnet81'; nearest is 'resnet18'; there are airbench94, alexnet, "))
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
  EXPECT_MESSAGE(wrong);
}

}  // namespace
}  // namespace millrace::plan_test
