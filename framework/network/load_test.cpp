// The network language: its meaning, and the message for each mistake.
#include "millrace/detail/random.h"
#include "millrace/detail/types.h"
#include "network/language_fixture.h"
#include "testkit/files.h"

#include "testkit/messages.h"

namespace millrace::language_test {
namespace {

TEST_F(NetworkLanguage, LayersFollowEachOtherAndUnnamedOnesAreNumbered) {
  const auto network = good(R"(layers = [
    { op = "conv", out = 4, kernel = 3 }, { op = "relu" }, { name = "relu2", op = "relu" }, { op = "relu" },
    { op = "linear", out = 2 } ])");
  EXPECT_EQ(names(*network), (Names{"conv1", "relu1", "relu2", "relu3", "linear1"}));
  for (std::size_t i = 0; i < network->layers.size(); ++i)
    EXPECT_EQ(network->layers[i].inputs, std::vector<LayerPort>{static_cast<int>(i) - 1});
  EXPECT_EQ(network->layers[0].input_shapes[0], (Shape{3, 8, 8}));
  EXPECT_EQ(network->layers[1].at.line, 3);
  EXPECT_EQ(network->mean, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(network->deviation, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(network->parameters[0].name, "conv1.weight");
  EXPECT_EQ(network->layers[4].parameters, (std::vector<int>{2, 3}));
}

TEST_F(NetworkLanguage, BlocksRepeatWithNumbersAndTheFirstMayDiffer) {
  const auto network = good(R"(layers = [
    { name = "layer1", block = "b", repeat = 2, width = 4, first = { stride = 2 } }, { name = "head", block = "b", width = 6 } ]
    [block.b]
    defaults = { stride = 1, half = "${width} / 2" }
    layers = [ { name = "conv", op = "conv", out = "${width} * 2", kernel = 1, stride = "${stride}", groups = 1 },
               { name = "sub", op = "conv", out = "${half}", kernel = 1 } ])");
  EXPECT_EQ(names(*network), (Names{"layer1.0.conv", "layer1.0.sub", "layer1.1.conv", "layer1.1.sub", "head.conv", "head.sub"}));
  EXPECT_EQ(network->layers[0].output, (Shape{8, 4, 4}));
  EXPECT_EQ(network->layers[2].output, (Shape{8, 4, 4}));
  EXPECT_EQ(network->layers[5].output, (Shape{3, 4, 4}));
}

TEST_F(NetworkLanguage, RepeatedBlocksKnowTheirNumber) {
  const std::string block = R"(
[block.b]
layers = [ { name = "conv", op = "conv", out = "${before} + ${index}", kernel = 1 } ])";
  const auto network =
      good(R"(layers = [ { name = "l", block = "b", repeat = 3, before = 4 }, { name = "m", block = "b", before = 1 },
    { name = "n", block = "b", repeat = 2, before = 1, index = 8 } ])" +
           block);
  const std::vector<std::int64_t> filters = {4, 5, 6, 1, 9, 9};
  ASSERT_EQ(network->layers.size(), filters.size());
  for (std::size_t i = 0; i < filters.size(); ++i) EXPECT_EQ(network->layers[i].output[0], filters[i]) << network->layers[i].name;
}

TEST_F(NetworkLanguage, RepeatedBlocksMayBeNumberedFromOneWithinTheirName) {
  const char* const block = "\n[block.b]\nlayers = [ { name = \"a\", op = \"relu\" } ]";
  const std::string layers =
      R"(layers = [ { name = "layer#x", block = "b", repeat = 2 }, { op = "add", from = ["layer1x", "layer2x.a"] } ])";
  const auto network = good(layers + block);
  EXPECT_EQ(names(*network), (Names{"layer1x.a", "layer2x.a", "add1"}));
  EXPECT_EQ(network->layers[2].inputs, (std::vector<LayerPort>{0, 1}));
  EXPECT_MESSAGE(mistakes(std::string(R"(layers = [ { name = "layer#", block = "b" } ])") + block));
}

TEST_F(NetworkLanguage, LayersOfInlineBlocksStandAmongTheirNeighbours) {
  const std::string blocks = R"(
[block.stem_small]
layers = [ { name = "conv1", op = "conv", out = 4, kernel = 3 }, { name = "pool", op = "relu", from = "conv1" } ]
[block.stem_large]
layers = [ { name = "conv1", op = "conv", out = 5, kernel = 3 } ])";
  const std::string toml = R"(defaults = { stem = "large" }
layers = [ { name = "stem", block = "stem_${stem}", inline = true }, { op = "add", from = ["stem", "conv1"] } ])" +
                           blocks;
  const auto large = good(toml), small = good(toml, table({{"stem", Value("small")}}));
  EXPECT_EQ(names(*large), (Names{"conv1", "add1"}));
  EXPECT_EQ(names(*small), (Names{"conv1", "pool", "add1"}));
  EXPECT_EQ(small->layers[2].inputs, (std::vector<LayerPort>{1, 0}));
  EXPECT_EQ(small->parameters[0].name, "conv1.weight");
  EXPECT_MESSAGE(mistakes(toml, table({{"stem", Value("smal")}})));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { block = "stem_large", inline = 1 } ])" + blocks));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { block = "stem_large", inline = true, repeat = 2 } ])" + blocks));
}

TEST_F(NetworkLanguage, AFileMayExtendAnother) {
  const testkit::TestFolder folder;
  folder.write("base.toml", std::string("defaults = { classes = 10, width = 4 }\n") + kInput + R"(
layers = [ { name = "conv", op = "conv", out = "${width}", kernel = 3 }, { name = "fc", op = "linear", out = "${classes}" } ])");
  folder.write("wide.toml", "extends = \"base.toml\"\ndefaults = { width = 8 }\n");
  folder.write("misspelt.toml", "extends = \"base.toml\"\ndefaults = { widht = 8 }\n");
  folder.write("wrong.toml", "extends = \"base.toml\"\n[block.b]\nlayer = []\n");
  const auto load = [&](const char* name) {
    errors_ = {};
    return load_network(folder / name, Value(), registry_, errors_);
  };
  const auto wide = load("wide.toml");
  ASSERT_TRUE(wide) << errors_.text();
  EXPECT_EQ(wide->name, "wide");
  EXPECT_EQ(wide->layers[0].output, (Shape{8, 6, 6}));
  EXPECT_EQ(wide->output(), Shape{10});
  EXPECT_FALSE(load("misspelt.toml"));
  EXPECT_EQ(errors_.text(),
            folder / "misspelt.toml" + ":2:14: nothing in network 'misspelt' refers to its default 'widht'; nearest is 'width'");
  EXPECT_FALSE(load("wrong.toml"));
  EXPECT_MESSAGE(errors_.text());
}

TEST_F(NetworkLanguage, NamesAreLookedForInTheBlockFirstThenFurtherOut) {
  const auto network = good(R"(layers = [
    { name = "a", op = "relu" }, { name = "outer", op = "gelu" }, { name = "b1", block = "b" },
    { op = "add", from = ["b1", "b1.a"] } ]
    [block.b]
    layers = [ { name = "a", op = "relu" }, { op = "add", from = ["a", "outer", "@input"] } ])");
  EXPECT_EQ(names(*network), (Names{"a", "outer", "b1.a", "b1.add1", "add1"}));
  EXPECT_EQ(network->layers[1].inputs, (std::vector<LayerPort>{0}));
  EXPECT_EQ(network->layers[3].inputs, (std::vector<LayerPort>{2, 1, 1}));
  EXPECT_EQ(network->layers[4].inputs, (std::vector<LayerPort>{3, 2}));
}

TEST_F(NetworkLanguage, WhenLeavesEntriesOut) {
  const char* const toml = R"(defaults = { project = false }
    layers = [ { name = "a", op = "relu" }, { name = "p", op = "gelu", from = "@input", when = "${project}", otherwise = "a" },
               { name = "d", op = "dropout", when = false }, { op = "add", from = ["a", "p"] } ])";
  EXPECT_EQ(names(*good(toml, table({{"project", Value(true)}}))).size(), 3U);
  const auto without = good(toml);
  EXPECT_EQ(names(*without), (Names{"a", "add1"}));
  EXPECT_EQ(without->layers[1].inputs, (std::vector<LayerPort>{0, 0}));
  // Without `otherwise`, an entry that is left out passes its input on.
  EXPECT_EQ(names(*good(R"(layers = [ { op = "relu" }, { op = "gelu", when = false }, { op = "flatten" } ])")),
            (Names{"relu1", "flatten1"}));
}

// The same document with the keys of every table reversed.
Value turned(const Value& value) {
  if (value.kind() == Value::Kind::array) {
    Array list;
    for (const Value& entry : value.array()) list.push_back(turned(entry));
    return Value(list, value.at());
  }
  if (value.kind() != Value::Kind::table) return value;
  Table members;
  for (const Member& member : value.table()) members.insert(members.begin(), {member.key, member.at, turned(member.value)});
  return Value(members, value.at());
}

TEST_F(NetworkLanguage, TheOrderOfKeysDoesNotMatter) {
  const auto document = parse_toml(std::string(kInput) + R"(
    layers = [ { op = "relu" }, { name = "x", block = "b", repeat = 2, a = 3, first = { a = 6, d = 2 }, d = "${e}" } ]
    defaults = { f = 2, e = "${f} * 2" }
    [block.c]
    layers = [ { op = "conv", out = "${out}", kernel = 1 } ]
    [block.b]
    defaults = { c = "${a}", z = "${c} + ${d}", b = "${z}" }
    layers = [ { block = "c", out = "${b}" } ]
    )",
                                   "net.toml", errors_);
  ASSERT_TRUE(document) << errors_.text();
  const auto one = build_network(*document, "net", Value(), registry_, errors_);
  const auto other = build_network(turned(*document), "net", Value(), registry_, errors_);
  ASSERT_TRUE(one && other) << errors_.text();
  EXPECT_EQ(names(*one), (Names{"relu1", "x.0.c1.conv1", "x.1.c1.conv1"}));
  EXPECT_EQ(names(*one), names(*other));
  for (const auto& network : {one, other}) {
    EXPECT_EQ(network->layers[1].output[0], 8);
    EXPECT_EQ(network->layers[2].output[0], 7);
  }
}

TEST_F(NetworkLanguage, VariablesComeFromThePipelineOrTheDefaults) {
  const char* const toml = "defaults = { classes = 10 }\nlayers = [ { op = \"linear\", out = \"${classes}\" } ]";
  EXPECT_EQ(good(toml)->output(), Shape{10});
  EXPECT_EQ(good(toml, table({{"classes", Value(std::int64_t{7})}}))->output(), Shape{7});
  EXPECT_MESSAGE(mistakes(toml, table({{"clases", Value(std::int64_t{7})}})));
  EXPECT_MESSAGE(mistakes("layers = [ { op = \"linear\", out = \"${classes}\" } ]"));
}

TEST_F(NetworkLanguage, NeverProposesTheNameThatIsWrong) {
  const std::string unused = mistakes("defaults = { width = 8 }\nlayers = [ { op = \"linear\", out = \"${widht}\" } ]",
                                      table({{"width", Value(std::int64_t{4})}, {"widht", Value(std::int64_t{4})}}));
  EXPECT_MESSAGE(unused);
  const std::string reserved = mistakes(R"(layers = [ { name = "x", block = "b", repeat = 2 } ]
    [block.b]
    layers = [ { op = "linear", out = "${repeat}" } ])");
  EXPECT_MESSAGE(reserved);
}

TEST_F(NetworkLanguage, NamesTheVariablesOfTheNetworkAndNoneThatBlocksGiveEachOther) {
  const char* const toml = R"(defaults = { classes = 10, rate = 0.5 }
    layers = [ { block = "b", inline = true, out = 4, rate = "${rate}" }, { op = "linear", out = "${classes}" } ]
    [block.b]
    defaults = { twice = "2 * ${out}" }
    layers = [ { op = "conv", out = "${twice}", kernel = 1 }, { op = "dropout", probability = "${rate}" } ])";
  const auto said = [&](const char* name) { return mistakes(toml, table({{name, Value(std::int64_t{7})}})); };
  EXPECT_MESSAGE(said("height"));
  EXPECT_MESSAGE(said("zyx"));
}

TEST_F(NetworkLanguage, OnlyTheFirstFiftyMistakesNameTheNearest) {
  std::string layers = R"(layers = [ { name = "conv", op = "relu" })";
  for (int i = 0; i < 60; ++i) layers += fmt::format(",\n{{ name = \"r{}\", op = \"relu\", from = \"comv\" }}", i);
  const std::string said = mistakes(layers + " ]");
  const std::string unknown = "takes the output of 'comv', but no earlier layer has this name";
  EXPECT_NE(said.find("'r49' " + unknown + "; nearest is 'conv'\n"), std::string::npos) << said;
  EXPECT_NE(said.find("'r50' " + unknown + "\n"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("'r59' " + unknown)) << said;
}

TEST_F(NetworkLanguage, WhenResizesLeavesOutWhatKeepsTheSize) {
  const auto with_kernel = [&](int kernel) {
    return good(fmt::format(R"(layers = [ {{ name = "a", op = "relu" }},
      {{ name = "p", op = "max_pool", kernel = {}, when = "resizes" }}, {{ op = "gelu", from = "p" }} ])",
                            kernel));
  };
  EXPECT_EQ(names(*with_kernel(2)), (Names{"a", "p", "gelu1"}));
  const auto without = with_kernel(1);
  EXPECT_EQ(names(*without), (Names{"a", "gelu1"}));
  EXPECT_EQ(without->layers[1].inputs, (std::vector<LayerPort>{0}));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "r", op = "relu", when = "resized" } ])"));
}

TEST_F(NetworkLanguage, UnknownNamesAreAnsweredWithTheNearest) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "convv", out = 3, kernel = 3 } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", block = "residul" } ]
[block.residual]
layers = [ { op = "relu" } ])"));
  EXPECT_MESSAGE(mistakes(R"(defaults = { stem = "standard" }
layers = [ { name = "l", block = "stem_${stem}" } ]
[block.stem_large]
layers = [ { op = "relu" } ]
[block.stem_small]
layers = [ { op = "relu" } ]
[block.middle]
layers = [ { op = "relu" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "conv1", op = "relu" }, { op = "relu", from = "conv2" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "relu", from = "later" }, { name = "later", op = "relu" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "relu", form = "x" } ])"));
  EXPECT_MESSAGE(mistakes(R"(laysers = 3
layers = [ { op = "relu" } ])"));
}

TEST_F(NetworkLanguage, AnOpIsFoundByItsOtherName) {
  LayerType type = *registry_.layers().find("relu");
  type.name = "silu";
  type.other_names = {"swish"};
  registry_.add(type);
  type.name = "clipped_relu";
  type.other_names = {"relu6"};
  registry_.add(type);
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "swish" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "relu6" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { op = "rel" } ])"));
}

TEST_F(NetworkLanguage, BlocksAskForTheirParameters) {
  const std::string block = R"(
[block.b]
layers = [ { op = "conv", out = "${width}", kernel = 1 } ])";
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", block = "b" } ])" + block));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", block = "b", width = 3, widht = 4 } ])" + block));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", block = "b", width = 3, repeat = 0 } ])" + block));
}

TEST_F(NetworkLanguage, MisspeltKindsOfEntriesAreNamed) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", po = "relu" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", blokc = "b" } ]
[block.b]
layers = [ { op = "relu" } ])"));
}

TEST_F(NetworkLanguage, AMisspeltReferenceInABlockIsToldWhereItIsWritten) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "l", block = "b", width = 3 } ]
[block.b]
layers = [ { op = "conv", out = "${width}", kernel = 1 }, { op = "conv", out = "${widht}", kernel = 1 } ])"));
}

TEST_F(NetworkLanguage, AMisspeltFromIsToldBeforeTheInputsThatItLeavesOut) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "a", op = "relu" }, { op = "add", fro = ["@input", "a"] } ])"));
}

TEST_F(NetworkLanguage, ABlockCannotContainItself) {
  EXPECT_EQ(mistakes(R"(layers = [ { name = "l", block = "a" } ]
[block.a]
layers = [ { name = "x", block = "b" } ]
[block.b]
layers = [ { name = "y", block = "a" } ])"),
            "net.toml:6:34: block 'a' contains itself: a -> b -> a");
}

TEST_F(NetworkLanguage, ImpossibleShapesNameTheLayerAndWhereItIsWritten) {
  const std::string text = mistakes(R"(layers = [ { name = "l", block = "b", repeat = 3 } ]
[block.b]
layers = [ { name = "conv", op = "conv", out = 4, kernel = 5 } ])");
  EXPECT_MESSAGE(text);
}

// The first layer whose input is too small does not show what the network needs. A size that branches refuse is another mistake.
TEST_F(NetworkLanguage, AnInputThatIsTooSmallIsToldWithTheLeastThatIsNot) {
  const std::string pools = R"(
layers = [ { op = "max_pool", kernel = 2, stride = 2 }, { op = "max_pool", kernel = 3, stride = 2 }, { op = "conv", out = 4, kernel = 2 } ]
)";
  const auto said = [&](const std::string& layers, int height, int width) {
    const auto document =
        parse_toml("defaults = { height = 32, width = 32 }\ninput = { height = \"${height}\", width = \"${width}\" }\n" + layers,
                   "net.toml", errors_ = {});
    const Position at{std::make_shared<const std::string>("pipe.toml"), 7, 1};
    const Value given = table({{"height", Value(height, at)}, {"width", Value(width, at)}});
    build_network(*document, "net", given, registry_, errors_);
    return errors_.text();
  };
  EXPECT_EQ(said(pools, 10, 10), "");
  EXPECT_MESSAGE(said(pools, 9, 40));
  const std::string branches = R"(
layers = [ { name = "a", op = "max_pool", kernel = 2, stride = 2 }, { name = "b", op = "transposed_conv", out = 3, kernel = 2, stride = 2 },
           { op = "add", from = ["b", "@input"] } ]
)";
  EXPECT_EQ(said(branches, 9, 9).find("needs an input of at least"), std::string::npos) << said(branches, 9, 9);
}

TEST_F(NetworkLanguage, SeveralMistakesAreReportedInOneGo) {
  const std::string text = mistakes(R"(layers = [
  { op = "conv", out = 4, kernel = 9 },
  { op = "conv", out = 4, kernel = 3, strid = 2 },
  { op = "conv", out = "four", kernel = 3 },
  { op = "add" },
  { name = "x y", op = "relu" },
  { op = "relu", when = 3 },
  { op = "relu", otherwise = "@input" },
  { },
  5,
])");
  for (const char* part :
       {"net.toml:3:3: layer 'conv1' (conv): a kernel", "net.toml:4:39: op 'conv' has no key 'strid'; nearest is 'stride'",
        "net.toml:5:24: 'out' must be an integer", "net.toml:6:3: layer 'add1': op 'add' takes at least 2 inputs, found 1",
        "net.toml:7:12: 'name' must be text of letters", "net.toml:8:25: 'when' of 'relu2' must be true or false, found 3",
        "net.toml:9:30: 'otherwise' of 'relu3' has no effect without 'when'",
        "net.toml:10:3: 'layer1' needs either 'op' or 'block'", "net.toml:11:3: each entry of 'layers' must be a table"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in:\n" << text;
  }
}

TEST_F(NetworkLanguage, NestedRepetitionsEnd) {
  const std::string text = mistakes(R"(layers = [ { name = "l", block = "a", repeat = 1000 } ]
[block.a]
layers = [ { block = "b", repeat = 1000 } ]
[block.b]
layers = [ { block = "c", repeat = 1000 } ]
[block.c]
layers = [ { op = "relu" } ])");
  EXPECT_NE(text.find("a network has at most 10000 layers"), std::string::npos) << text;
}

TEST_F(NetworkLanguage, ADocumentWithRandomChangesIsAnsweredNotCrashedOn) {
  const std::string original = R"(defaults = { w = 4, p = true }
layers = [ { name = "x", block = "b", repeat = 2, width = "${w} * 2", first = { stride = 2 } }, { op = "linear", out = 3 } ]
[block.b]
defaults = { stride = 1 }
layers = [ { name = "c", op = "conv", out = "${width}", kernel = 3, stride = "${stride}", padding = [1, 1] }, { op = "gelu" },
  { name = "s", op = "max_pool", kernel = 2, from = "@input", when = "${p}", otherwise = "c" }, { op = "flatten", from = "gelu1" } ]
)";
  const std::string letters = "abx019.,\"'{}[]=${}@ -*/\n";
  Draw draw(1, {}, 0);
  const auto pick = [&](std::size_t size) {
    return static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(size) - 1));
  };
  for (int round = 0; round < 2000; ++round) {
    std::string text = original;
    for (int change = 0; change < 3; ++change) text[pick(text.size())] = letters[pick(letters.size())];
    const auto network = build(text);
    EXPECT_EQ(network == nullptr, !errors_.empty()) << text;
  }
}

TEST_F(NetworkLanguage, NamesAreUnique) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "a", op = "relu" },
{ name = "a", op = "relu" } ])"));
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "b", block = "b" },
{ name = "b.a", op = "relu" } ]
[block.b]
layers = [ { name = "a", op = "relu" } ])"));
}

TEST_F(NetworkLanguage, ALayerMayBeStoredAsPyTorchHasIt) {
  const auto network = good(R"(layers = [ { name = "a", op = "conv", out = 4, kernel = 1, stored_as = "linear" },
{ op = "conv", out = 2, kernel = 1 } ])");
  ASSERT_EQ(network->parameters.size(), 4U);
  EXPECT_EQ(network->parameters[0].shape, (Shape{4, 3, 1, 1}));
  EXPECT_EQ(network->parameters[0].stored_shape, (Shape{4, 3}));
  EXPECT_EQ(network->parameters[1].stored_shape, Shape()) << "a bias is the same in both";
  EXPECT_EQ(network->parameters[2].stored_shape, Shape());

  const auto mistake = [this](const std::string& keys) { return mistakes("layers = [ { name = \"a\", " + keys + " } ]"); };
  EXPECT_MESSAGE(mistake("op = \"conv\", out = 4, kernel = 3, stored_as = \"linear\""));
  EXPECT_MESSAGE(mistake("op = \"conv\", out = 4, kernel = 1, stored_as = \"parameter\""));
  EXPECT_MESSAGE(mistake("op = \"relu\", stored_as = 1"));
}

TEST_F(NetworkLanguage, EveryOutputIsUsed) {
  EXPECT_MESSAGE(mistakes(R"(layers = [ { name = "a", op = "relu" }, { name = "b", op = "relu", from = "@input" } ])"));
}

TEST_F(NetworkLanguage, TheInputIsChecked) {
  errors_ = {};
  const auto document =
      parse_toml("input = { channels = 3, height = 8, mean = [0.5] }\nlayers = [ { op = \"relu\" } ]", "n.toml", errors_);
  EXPECT_EQ(build_network(*document, "n", Value(), registry_, errors_), nullptr);
  EXPECT_MESSAGE(errors_.text());
  errors_ = {};
  const auto bytes = parse_toml(
      "input = { channels = 1, height = 8, width = 8, mean = [127], deviation = [0.5] }\nlayers = [ { op = \"relu\" } ]",
      "n.toml", errors_);
  EXPECT_EQ(build_network(*bytes, "n", Value(), registry_, errors_), nullptr);
  EXPECT_MESSAGE(errors_.text());
}

TEST_F(NetworkLanguage, AMissingFileIsNamedWhereItIsAskedFor) {
  const Position at{std::make_shared<const std::string>("pipe.toml"), 4, 7};
  EXPECT_EQ(load_network("/nowhere/net.toml", Value(), registry_, errors_, at), nullptr);
  EXPECT_EQ(errors_.text().rfind("pipe.toml:4:7: ", 0), 0U) << errors_.text();
}

}  // namespace
}  // namespace millrace::language_test
