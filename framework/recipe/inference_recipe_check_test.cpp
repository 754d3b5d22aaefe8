// Allowed contents of a recipe in a file of weights.
#include <gtest/gtest.h>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "recipe/inference_recipe.h"

namespace millrace::inference_recipe_check_test {
namespace {

class Shrink : public SampleTransform {
 public:
  struct Params {
    std::int64_t by = 2;
    std::string table, mode = "mean";
  };
  static void describe(StageDescription<Params>& d) {
    d.name("shrink").text("Makes images smaller.").in_recipes(RecipeRole::preparation);
    d.params.add("by", &Params::by).range(1, 8).text("factor").in_recipes();
    d.params.add("mode", &Params::mode).choices({"mean", "first"}).text("of pixels").in_recipes();
    d.params.add("table", &Params::table).text("a file of factors");
  }
  Shrink(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

// Like plugins that declare nothing for recipes.
class Stain : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("stain").text("Spoils images."); }
  Stain(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

template <const char* kName, const char* kWrites>
class Scribe : public Stage {
 public:
  struct Params {
    std::string file = "out.csv";
    std::int64_t top = 1;
  };
  static void describe(StageDescription<Params>& d) {
    d.name(kName).text("Writes.").input(payload::kPredictions).in_recipes(RecipeRole::sink).writes({kWrites});
    d.params.add("file", &Params::file).text("where to");
    d.params.add("top", &Params::top).range(1).text("classes").in_recipes();
  }
  Scribe(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};
constexpr char kLabels[] = "write_classes", kNotes[] = "write_notes", kOfClasses[] = "classes", kOfNumbers[] = "numbers";

class Guess : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("forward").text("Guesses.").input(payload::kBatch).output(payload::kPredictions).in_recipes(RecipeRole::inference);
  }
  Guess(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override {}
};

const Registry& registry() {
  static const Registry* const made = [] {
    auto* all = new Registry;
    all->add_stage<Shrink>();
    all->add_stage<Stain>();
    all->add_stage<Guess>();
    all->add_stage<Scribe<kLabels, kOfClasses>>();
    all->add_stage<Scribe<kNotes, kOfNumbers>>();
    return all;
  }();
  return *made;
}

constexpr const char* kText = R"(version = 1
graph = "validate"
seed = 7
precision = "fp32"
output = "classes"
loss = "cross_entropy"
batch = 50
prepare = ["small"]
predict = ["forward"]
input = { height = 32, width = 32, channels = 3, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
target = {}
[stages.small]
stage = "shrink"
by = 4
mode = "mean"
table = ""
[stages.forward]
stage = "forward"
[sinks.write_classes]
top = 3
[network]
classes = 10
[document]
layers = [{ op = "conv", out = "${filters} / 2", kernel = 3, name = "conv_${filters}" }, { op = "relu", when = "${classes}" }]
[document.defaults]
filters = 8
[document.input]
height = 32
)";

std::string mistake(const std::string& from, const std::string& to) {
  std::string text = kText;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  try {
    const auto recipe = recipe_from({{"usage", text.replace(at, from.size(), to)}}, "w");
    return recipe ? mistake_in_recipe(*recipe, registry(), true) : "there is none";
  } catch (const Error& error) {
    return error.what();
  }
}

struct Way {
  const char *from, *to, *said;
};
constexpr Way kWays[] = {
    {"stage = \"shrink\"", "stage = \"stain\"", "stage 'small' is of type 'stain', whose role in recipes is none"},
    {"stage = \"shrink\"", "stage = \"write_classes\"",
     "whose role in recipes is sink, but stages here have the role preparation"},
    {"stage = \"forward\"", "stage = \"write_notes\"", "stage 'forward' is of type 'write_notes'"},
    {"stage = \"shrink\"", "stage = \"nothing\"", "is of type 'nothing', which no plugin here registers"},
    {"table = \"\"", "table = \"/etc/passwd\"", "stage 'small': a recipe must not set key 'table' of 'shrink'"},
    {"table = \"\"", "colour = 1", "stage 'small': 'shrink' has no key 'colour'"},
    {"by = 4", "by = 99", "by"},
    {"mode = \"mean\"", "mode = \"../x\"", "stage 'small': 'mode' is \"../x\""},
    {"[\"small\"]", "[\"small\", \"small\"]", "stage 'small' occurs in it twice"},
    {"top = 3", "file = \"/home/u/.profile\"", "sink 'write_classes': a recipe must not set key 'file' of 'write_classes'"},
    {"top = 3", "top = 0", "top"},
    {"top = 3", "top = 5000",
     "sink 'write_classes': 'top' is 5000, but a recipe may set 4096 at most; to use it anyway: --set "
     "'predict.write_classes.top=5000'"},
    {"target = {}", "target = { colours = \"red\" }", "'target.colours' must be a list of texts"},
    {"classes = 10", "preprocessing = \"mine\"", "its network has a variable 'preprocessing'"},
    {"classes = 10", "weights = \"s3://bucket/w\"", "its network has a variable 'weights'"},
    {"classes = 10", "classes = \"http://host\"", "its network: 'classes' is \"http://host\""},
    {"filters = 8", "filters = \"${env.SECRET}\"", "'filters' is \"${env.SECRET}\""},
    {"conv_${filters}", "conv/${filters}", "'name' is \"conv/${filters}\""},
    {"conv_${filters}", "${filters", "'name' is \"${filters\""},
    {"[document]\n", "[document]\nextends = \"/net.toml\"\n", "its network has the key 'extends'"},
    {"[document]\n", "[document]\nblock = { \"a/b\" = { layers = [] } }\n", "has the key 'a/b'"},
    {"graph = \"validate\"", "graph = \"x\\n[run]\"", "'graph' must be a name of letters, found \"x\\x0a[run]\""},
    {"output = \"classes\"", "output = \"shell\"", "its output is \"shell\""},
    {"batch = 50", "batch = 2000000", "'batch' must be an integer from 0 to 1048576, found 2000000"},
    {"height = 32, width", "height = 70000, width", "'input.height' must be an integer from 1 to 65536"},
    {"height = 32, width", "height = \"x\", width", "'input.height' must be an integer"},
    {"target = {}", "target = { ids = [[0], [300]] }", "'target.ids' must be an integer from 0 to 255"},
    {"target = {}", "target = { ignored = [256] }", "'target.ignored' must be an integer from 0 to 255"},
    {"batch = 50", "batch = 50\nmeasure = \"poly\"", "it is measured by the loss 'poly', which no plugin here registers"},
    {"batch = 50", "batch = 50\nrun = { folder = \"/x\" }", "has the key 'run', which means nothing here"},
    {"batch = 50", "batch = 50\nunrepeatable = \"stage 'stain'\"", "stage 'stain'"},
};

TEST(Recipe, IsTakenAsItIsWritten) {
  EXPECT_EQ(mistake("by = 4", "by = 4"), "");
  EXPECT_EQ(mistake("by = 4", "by = 2"), "");
  EXPECT_EQ(mistake("[sinks.write_classes]\ntop = 3\n", "[sinks.write_notes]\nfile = \"/x\"\n"), "")
      << "a sink that the output does not need is not made, and not looked at";
}

TEST(Recipe, IsRefusedByNameWhereItIsMoreThanData) {
  for (const Way& way : kWays)
    EXPECT_NE(mistake(way.from, way.to).find(way.said), std::string::npos) << way.to << ": " << mistake(way.from, way.to);
}

TEST(Recipe, OfAStageNamedLikeAnotherIsRefused) {
  for (const char* name : {"read", "flow", "every", "write_classes", "stain"}) {
    std::string text = kText;
    text.replace(text.find("[\"small\"]"), 9, std::string("[\"") + name + "\"]");
    text.replace(text.find("[stages.small]"), 14, std::string("[stages.") + name + "]");
    EXPECT_NE(mistake_in_recipe(*recipe_from({{"usage", text}}, "w"), registry()).find("another stage has this name"),
              std::string::npos)
        << name;
  }
}

// Metadata are untrusted, and other tools may use this key.
TEST(Recipe, IsNotWhatAnotherToolSaysUnderItsKey) {
  for (const char* text :
       {"research only", "https://example.org/licence", "", "a = 1", "version 2, for research", "{\"version\": 1}"}) {
    EXPECT_FALSE(recipe_from({{"usage", text}}, "w")) << text;
    EXPECT_TRUE(colours_from({{"usage", text}}).empty());
  }
}

TEST(Recipe, WithoutEndIsRefused) {
  const auto said = [](const std::string& more) { return mistake("filters = 8\n", "filters = 8\n" + more); };
  std::string keys, dots, lists;
  for (int i = 0; i < 5000; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  for (int i = 0; i < 20'000; ++i) {
    dots += "a.";
    lists += "[";
  }
  EXPECT_NE(said(keys).find("more than 4096 keys"), std::string::npos);
  EXPECT_NE(said(dots + "b = 1\n").find("more than 100 deep"), std::string::npos);
  EXPECT_NE(said("x = " + lists + "\n").find("more than 100 deep"), std::string::npos);
  EXPECT_NE(said("# " + std::string(std::size_t{2} << 20U, 'x') + "\n").find("more than 1048576"), std::string::npos);
}

}  // namespace
}  // namespace millrace::inference_recipe_check_test
