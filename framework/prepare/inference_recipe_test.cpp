#include "prepare/inference_recipe.h"

#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::inference_recipe_test {
namespace {

constexpr const char* kClasses = R"(["cat", "dog", "owl"])";

class Unpack : public SampleTransform {
 public:
  struct Params {
    std::optional<Size> size;
    std::string fit = "as-is", crop = "none", shrink = "none";
    bool exif = true;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("decode_image").text("Decodes.").in_recipes(RecipeRole::preparation);
    d.params.add("size", &Params::size).text("of images").in_recipes(RecipeEffect::states_size);
    d.params.add("fit", &Params::fit).text("how").in_recipes(RecipeEffect::resizes);
    d.params.add("crop", &Params::crop).text("where").in_recipes(RecipeEffect::cuts);
    d.params.add("shrink", &Params::shrink).text("fewer pixels than the target").in_recipes(RecipeEffect::spoils);
    d.params.add("exif", &Params::exif).text("whether").in_recipes();
  }
  Unpack(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

// A stage with an effect.
template <const char* kName, RecipeEffect kEffect>
class Effect : public SampleTransform {
 public:
  struct Params {
    double deviation = 0;
  };
  static void describe(StageDescription<Params>& d) {
    d.name(kName).text("Does one thing.").in_recipes(RecipeRole::preparation, kEffect);
    d.params.add("deviation", &Params::deviation).text("how much").in_recipes();
  }
  Effect(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};
constexpr char kNoise[] = "noise", kCut[] = "cut", kScale[] = "scale";

const Registry& registry() {
  static const Registry* const made = [] {
    auto* all = new Registry;
    all->add_stage<Unpack>();
    all->add_stage<Effect<kNoise, RecipeEffect::spoils>>();
    all->add_stage<Effect<kCut, RecipeEffect::cuts>>();
    all->add_stage<Effect<kScale, RecipeEffect::resizes>>();
    return all;
  }();
  return *made;
}

// The recipe of a run on label images, with everything that one can hold.
constexpr const char* kText = R"(
version = 1
graph = "validate"
seed = 7
precision = "fp32"
output = "map"
loss = "pixel_cross_entropy"
measure = { type = "pixel_cross_entropy", class_weights = [0.5, 1.25, 3.0] }
batch = 50
prepare = ["decode_image", "resize", "pad"]
predict = ["forward"]
input = { height = 32, width = 48, channels = 3, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
target = { kind = "classes", scale = 1, ids = [[0], [1, 5], [2]], colours = ["#0a0a0a", "#ff0000", "#00ff00"] }
[stages.decode_image]
stage = "decode_image"
channels = 3
fit = "as-is"
crop = "centre"
filter = "bilinear"
exif = true
random_part = { area = [0.5, 1.0] }
[stages.resize]
stage = "resize"
short_side = 40
filter = "bilinear"
[stages.pad]
stage = "pad"
margin = [6, 0]
border = "constant"
fill = [105, 107, 110]
[stages.forward]
stage = "forward"
test_time = "none"
[sinks.write_masks]
picture = "overlay"
colours = ["#000000", "#ff0000", "#00ff00"]
[network]
height = 32
up = "nearest"
[document]
layers = [{ op = "conv", kernel = 3, initialiser = "he_normal" }, { op = "relu" }]
[document.defaults]
height = 256
filters = 8
[document.input]
channels = 3
height = "${height}"
mean = [0.5, 0.5, 0.5]
[document.block.grow]
layers = [{ op = "upsample", factor = 2 }]
)";

InferenceRecipe recipe(const std::string& text = kText, const std::string& classes = kClasses) {
  return recipe_from({{"usage", text}, {"classes", classes}}, "w").value();
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string said_of(const InferenceRecipe& here, bool other_task = false) {
  return disagreements(recipe(), here, other_task, registry()).text();
}

TEST(InferenceRecipe, GoesThroughTheMetadata) {
  const InferenceRecipe first = recipe();
  const auto metadata = metadata_of(first);
  ASSERT_TRUE(metadata.contains("usage"));
  const auto again = recipe_from({{"usage", metadata.at("usage")}, {"classes", kClasses}}, "w");
  ASSERT_TRUE(again);
  EXPECT_EQ(metadata_of(*again), metadata);
  EXPECT_EQ(again->graph, "validate");
  EXPECT_EQ(again->batch, 50);
  ASSERT_EQ(again->prepare.size(), 3U);
  EXPECT_EQ(again->prepare[2].type, "pad");
  EXPECT_EQ(again->classes, (std::vector<std::string>{"cat", "dog", "owl"}));
  ASSERT_TRUE(again->document.find("layers"));
  EXPECT_EQ(to_toml(again->measure), to_toml(first.measure));
  ASSERT_TRUE(again->measure.find("class_weights"));
  EXPECT_EQ(again->measure.find("class_weights")->array()[1].number(), 1.25);
  EXPECT_TRUE(disagreements(first, *again, false, registry()).empty()) << said_of(*again);
}

TEST(InferenceRecipe, IsNotInFilesOfOthers) {
  EXPECT_FALSE(recipe_from({}, "w"));
  EXPECT_FALSE(recipe_from({{"format", "pt"}}, "w"));
}

TEST(InferenceRecipe, OfADamagedFileOrANewerVersionIsRefused) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      recipe(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(with("version = 1", "version = 2")).find("version 2"), std::string::npos);
  EXPECT_NE(message("version = ").find("damaged"), std::string::npos);
  EXPECT_NE(message("version = 1").find("'graph'"), std::string::npos);
  EXPECT_MESSAGE(message(with("seed = 7", "seed = \"x\"")));
  EXPECT_NE(message(with("\"pad\"]", "\"crop\"]")).find("'prepare'"), std::string::npos);
}

TEST(InferenceRecipe, APrecisionThatSetAsksForIsMeant) {
  InferenceRecipe here = recipe();
  here.precision = "bf16";
  here.precision_at = {std::make_shared<const std::string>("p.toml"), 3, 13};
  EXPECT_MESSAGE(said_of(here));
  here.precision_at = {std::make_shared<const std::string>("--set run.precision"), 0, 0};
  EXPECT_EQ(said_of(here), "");
}

struct Way {
  const char *name, *from, *to, *said;
};

constexpr Way kWays[] = {
    {"another height", "height = 32, width", "height = 64, width",
     "an input height = 64, and the weights were validated with height = 32"},
    {"another width", "width = 48", "width = 32", "an input width = 32"},
    {"grey images", "channels = 3, mean", "channels = 1, mean", "an input channels = 1"},
    {"another mean", "mean = [0.5, 0.5, 0.5], dev", "mean = [0, 0, 0], dev", "an input mean = [0, 0, 0]"},
    {"another deviation", "deviation = [0.25", "deviation = [0.225", "an input deviation = [0.225, 0.25, 0.25]"},
    {"another precision", "\"fp32\"", "\"bf16\"", "[run] has precision = \"bf16\""},
    {"grey decoding", "channels = 3\nfit", "channels = 1\nfit", "[validate.decode_image] has channels = 1"},
    {"stretch against letterbox", "fit = \"as-is\"", "fit = \"exact\"", "[validate.decode_image] has fit = \"exact\""},
    {"another crop", "crop = \"centre\"", "crop = \"none\"", "has crop = \"none\""},
    {"a size", "crop = \"centre\"", "crop = \"centre\"\nsize = [30, 30]",
     "has size = [30, 30], and the weights were validated with no 'size'"},
    {"no crop", "crop = \"centre\"\n", "", "has no 'crop', and the weights were validated with crop = \"centre\""},
    {"interpolation in decoding", "filter = \"bilinear\"\nexif", "filter = \"bicubic\"\nexif", "has filter = \"bicubic\""},
    {"orientation", "exif = true", "exif = false", "has exif = false"},
    {"a key of a table in a table", "area = [0.5, 1.0]", "area = [0.1, 1.0]", "has random_part.area = [0.1, 1.0]"},
    {"another resize rule", "short_side = 40", "size = [32, 48]", "[validate.resize] has no 'short_side'"},
    {"another scale", "short_side = 40", "short_side = 48", "has short_side = 48"},
    {"interpolation of resize", "filter = \"bilinear\"\n[stages.pad]", "filter = \"nearest\"\n[stages.pad]",
     "[validate.resize] has filter = \"nearest\""},
    {"another margin", "margin = [6, 0]", "margin = [0, 6]", "[validate.pad] has margin = [0, 6]"},
    {"another border", "border = \"constant\"", "border = \"edge\"", "has border = \"edge\""},
    {"another fill", "fill = [105, 107, 110]", "fill = [0, 0, 0]", "has fill = [0, 0, 0]"},
    {"a stage less", "\"resize\", \"pad\"]", "\"resize\"]", "[validate] has no stage 'pad' here"},
    {"a stage more", "[\"decode_image\",", "[\"decode_image\", \"forward\",",
     "[validate] has a stage 'forward', and the weights were validated without it"},
    {"test-time augmentation", "test_time = \"none\"", "test_time = \"flip\"", "[validate.forward] has test_time = \"flip\""},
    {"an ignored value", "ids = [[0], [1, 5], [2]]", "ids = [[0], [1], [2]]",
     "whose value 5 is ignored, and the weights were validated with it taken as class 1"},
    {"a value that counts", "ids = [[0], [1, 5], [2]]", "ids = [[0, 9], [1, 5], [2]]",
     "whose value 9 is taken as class 0, and the weights were validated with it ignored"},
    {"the scale of targets", "scale = 1", "scale = 2", "[validate] has targets of scale = 2"},
    {"a colour", "\"#0a0a0a\", \"#ff0000\"", "\"#0a0a0a\", \"#ff0001\"",
     "[validate] has the colour \"#ff0001\" for class 1, and the weights were validated with the colour \"#ff0000\""},
    {"a variable of the network", "up = \"nearest\"", "up = \"bilinear\"",
     "[network] has up = \"bilinear\", and the weights were validated with up = \"nearest\""},
    {"a default of the network", "filters = 8", "filters = 16", "[network] has filters = 16"},
    {"a layer's key", "kernel = 3", "kernel = 5",
     "the network has layers[0].kernel = 5, and the weights were validated with "
     "layers[0].kernel = 3"},
    {"a layer more", "{ op = \"relu\" }]", "{ op = \"relu\" }, { op = \"tanh\" }]",
     "the network has layers[2] = { op = \"tanh\" }, and the weights were validated with no 'layers[2]'"},
    {"a block", "factor = 2", "factor = 3", "the network has block.grow.layers[0].factor = 3"},
    {"targets of another kind", "kind = \"classes\"", "kind = \"image\"", "targets of kind = \"image\""},
};

TEST(Disagreements, AreFoundAndNamed) {
  for (const Way& way : kWays) {
    const std::string said = said_of(recipe(with(way.from, way.to)));
    EXPECT_NE(said.find(way.said), std::string::npos) << way.name << ": " << said;
  }
}

TEST(Disagreements, OfClassesNameTheFirstThatDiffers) {
  const auto said = [](const std::string& classes) { return said_of(recipe(kText, classes)); };
  EXPECT_MESSAGE(said(R"(["cat", "owl", "dog"])"));
  EXPECT_MESSAGE(said(R"(["cat", "dog", "owl", "pig"])"));
  EXPECT_MESSAGE(said(R"(["cat", "dog"])"));
  EXPECT_MESSAGE(said(R"(["cat"])"));
  EXPECT_MESSAGE(said(R"(["cat", "hound", "owl"])"));
  EXPECT_EQ(said("[]"), "") << "images without classes";
}

TEST(Disagreements, OfNumbersNameBothLists) {
  const auto with_columns = [](const std::string& names) {
    return recipe(kText + fmt::format("[sinks.write_features]\ncolumns = [{}]\n", names));
  };
  const InferenceRecipe stored = with_columns(R"("animal", "sky")");
  const auto said = [&](const InferenceRecipe& here) { return disagreements(stored, here, false, registry()).text(); };
  EXPECT_EQ(said(with_columns(R"("animal", "sky")")), "");
  EXPECT_MESSAGE(said(with_columns(R"("sky", "animal")")));
  EXPECT_EQ(said(recipe()), "") << "numbers without names";
}

constexpr const char* kColours = ", colours = [\"#0a0a0a\", \"#ff0000\", \"#00ff00\"]";
constexpr const char* kTarget =
    "target = { kind = \"classes\", scale = 1, ids = [[0], [1, 5], [2]], colours = [\"#0a0a0a\", \"#ff0000\", \"#00ff00\"] }";

TEST(InferenceRecipe, TellsTheColoursOfClasses) {
  EXPECT_EQ(colours_from({{"usage", kText}}), (std::vector<std::string>{"#0a0a0a", "#ff0000", "#00ff00"}));
  EXPECT_TRUE(colours_from({{"usage", with(kColours, "")}}).empty());
  EXPECT_TRUE(colours_from({{"usage", "target = 5"}}).empty());
  EXPECT_TRUE(colours_from({{"usage", "target = "}}).empty()) << "a damaged file";
  EXPECT_TRUE(colours_from({{"format", "pt"}}).empty());
}

TEST(Disagreements, AreNotWhatAnotherTaskHasOrTheRunChooses) {
  EXPECT_EQ(said_of(recipe(kText, R"(["car", "van"])"), true), "") << "the last layer is new";
  EXPECT_EQ(said_of(recipe(with("ids = [[0], [1, 5], [2]]", "ids = [[0], [1]]")), true), "");
  EXPECT_EQ(said_of(recipe(with("\"fp32\"", "\"auto\""))), "");
  EXPECT_EQ(said_of(recipe(with(kTarget, "target = {}"))), "");
  EXPECT_EQ(said_of(recipe(with("\"#ff0000\", \"#00ff00\"] }", "\"#ff0001\", \"#00ff00\"] }")), true), "") << "colours";
  EXPECT_EQ(said_of(recipe(with(kColours, ""))), "") << "a source that names no colours";
  EXPECT_EQ(said_of(recipe(with("batch = 50", "batch = 8"))), "");
  EXPECT_EQ(said_of(recipe(with("he_normal", "uniform"))), "") << "how parameters began";
  EXPECT_EQ(said_of(recipe(with("kernel = 3", "kernel = [3, 3]"))), "") << "the same numbers";
  EXPECT_EQ(said_of(recipe(with("kernel = 3", "kernel = 5")), true), "") << "layers of another task";
  EXPECT_EQ(said_of(recipe(with("seed = 7", "seed = 8"))), "");
  EXPECT_EQ(said_of(recipe(with("predict = [\"forward\"]", "predict = []"))), "") << "of a training graph";
  EXPECT_EQ(said_of(recipe(with("area = [0.5, 1.0]", "area = [0.50, 1]"))), "") << "the same numbers";
  EXPECT_EQ(said_of(recipe(with("colours = [\"#000000\"", "colours = [\"#111111\""))), "") << "how predictions are drawn";
}

// The recipe of a denoising network, cropped to 40 x 40.
constexpr const char* kRestores = R"(
version = 1
graph = "validate"
seed = 7
precision = "fp32"
output = "image"
loss = "mean_squared_error"
batch = 50
prepare = ["decode_image", "noise"]
predict = ["forward"]
input = { height = 40, width = 40, channels = 3, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
target = { kind = "image", scale = 1 }
[stages.decode_image]
stage = "decode_image"
size = [40, 40]
fit = "as-is"
crop = "centre"
shrink = "none"
exif = true
[stages.noise]
stage = "noise"
deviation = 25
[stages.forward]
stage = "forward"
[sinks]
[network]
[document]
)";

TEST(Photographs, AreGivenToANetworkThatRestoresWithoutNoiseAndCuts) {
  const InferenceRecipe stored = recipe(kRestores, "[]");
  EXPECT_TRUE(takes_own_size(stored, registry()));
  InferenceRecipe here = without_training_degradation(stored, registry());
  ASSERT_EQ(here.prepare.size(), 1U);
  EXPECT_EQ(here.prepare[0].table.find("size"), nullptr);
  here.target = {};
  here.input.set("height", Value(360));
  EXPECT_EQ(disagreements(stored, here, false, registry()).text(), "");
  here.prepare[0].table.set("size", Value(Array{Value(360), Value(480)}));
  EXPECT_EQ(disagreements(stored, here, false, registry()).text(), "") << "it says which size they have";
  here.prepare[0].table.set("exif", Value(false));
  EXPECT_MESSAGE(disagreements(stored, here, false, registry()).text());
  InferenceRecipe cut = stored;
  cut.target = {};
  EXPECT_EQ(disagreements(stored, cut, false, registry()).text(), "") << "the validation without targets";
  InferenceRecipe with_targets = without_training_degradation(stored, registry());
  EXPECT_NE(disagreements(stored, with_targets, false, registry()).text(), "") << "images are made of them";
  with_targets.paired = true;
  EXPECT_EQ(disagreements(stored, with_targets, false, registry()).text(), "") << "they are files of their own";
  with_targets.target.set("scale", Value(2));
  EXPECT_NE(disagreements(stored, with_targets, false, registry()).text(), "");
}

TEST(Photographs, KeepTheSizeOfValidationWhereItResized) {
  std::string text = kRestores;
  text.replace(text.find("as-is"), 5, "exact");
  const InferenceRecipe stored = recipe(text, "[]");
  EXPECT_FALSE(takes_own_size(stored, registry()));
  EXPECT_NE(without_training_degradation(stored, registry()).prepare.at(0).table.find("size"), nullptr);
  EXPECT_EQ(without_training_degradation(stored, registry()).prepare.size(), 1U) << "and there is no noise";
  EXPECT_EQ(without_training_degradation(recipe(), registry()).prepare.size(), 3U) << "classes of pixels are not restored";
}

TEST(Photographs, GoWithoutWholeStagesThatCutAndKeepTheSizeThatAStageMakes) {
  const auto with_stage = [](const std::string& name) {
    std::string text = kRestores;
    text.replace(text.find("\"noise\"]"), 8, "\"noise\", \"last\"]");
    return recipe(text.replace(text.find("[sinks]"), 7, "[stages.last]\nstage = \"" + name + "\"\n[sinks]"), "[]");
  };
  EXPECT_EQ(without_training_degradation(with_stage("cut"), registry()).prepare.size(), 1U);
  const InferenceRecipe scaled = with_stage("scale");
  EXPECT_FALSE(takes_own_size(scaled, registry()));
  EXPECT_EQ(without_training_degradation(scaled, registry()).prepare.size(), 2U) << "and the noise is gone";
  InferenceRecipe stated =
      with_stated_size(without_training_degradation(with_stage("cut"), registry()), {360, 480, 3}, registry());
  EXPECT_EQ(to_toml(*stated.prepare[0].table.find("size")), to_toml(Value(Array{Value(360), Value(480)})));
  EXPECT_EQ(without_stated_sizes(stated, registry()).prepare[0].table.find("size"), nullptr);
  stated.prepare[0].table.set("crop", Value("centre"));
  EXPECT_NE(without_stated_sizes(stated, registry()).prepare[0].table.find("size"), nullptr) << "it is cut to that";
}

TEST(Disagreements, StandWhereTheFileSaysThem) {
  InferenceRecipe here = recipe(with("short_side = 40", "short_side = 48"));
  const auto file = std::make_shared<const std::string>("mine.toml");
  here.prepare[1].at = {file, 30, 2};
  here.prepare[1].table.set("short_side", Value(48, {file, 31, 14}));
  EXPECT_MESSAGE(said_of(here));
  here.prepare[1].table.set("short_side", Value(48));  // a default
  EXPECT_TRUE(said_of(here).starts_with("mine.toml:30:2: ")) << said_of(here);
  InferenceRecipe bare = recipe();
  bare.network.set_position({file, 5, 1});
  bare.prepare.clear();
  EXPECT_MESSAGE(said_of(bare));
}

}  // namespace
}  // namespace millrace::inference_recipe_test
