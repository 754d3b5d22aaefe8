// Pipelines that prepare images otherwise than the run whose weights they use: each is told where it does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "command.h"
#include "pairs_fixture.h"

namespace millrace::test::disagreements_test {
namespace {

struct Edit {
  std::string from, to;
};

// What is said of some changes of a file's [validate]. An '@' in the changed text is the place that is told.
struct Way {
  std::string said;
  std::vector<Edit> edits;
};

class Disagreement : public testing::Test {
 protected:
  static Outcome check(const std::string& file, const std::string& weights, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {tool("pipeline-run"), file, "--graph", "validate", "--check", "--weights", weights};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  // A text is looked for from the end on, where [validate] stands.
  static std::string edited(std::string text, const std::vector<Edit>& edits) {
    for (const Edit& edit : edits) {
      const std::size_t begin = text.rfind(edit.from);
      EXPECT_NE(begin, std::string::npos) << edit.from;
      if (begin != std::string::npos) text.replace(begin, edit.from.size(), edit.to);
    }
    return text;
  }
  // Writes the text without its '@'; returns FILE:LINE:COLUMN of that.
  std::string write(const std::string& name, std::string text) const {
    const std::size_t at = text.find('@');
    EXPECT_NE(at, std::string::npos) << text;
    if (at == std::string::npos) return {};
    text.erase(at, 1);
    std::ofstream(folder_ / name) << text;
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    return fmt::format("{}:{}:{}", folder_ / name, line, at == 0 ? 1 : at - text.rfind('\n', at - 1));
  }
  static void expect_told(const std::string& file, const std::string& weights, const std::string& place,
                          const std::string& said) {
    const Outcome told = check(file, weights);
    if (lacks_bf16(told)) return;
    EXPECT_EQ(told.code, 2) << told.err;
    EXPECT_NE(told.err.find(fmt::format("{}: {}, and the weights were validated with", place, said)), std::string::npos)
        << told.err;
    const Outcome meant = check(file, weights, {"--set", "network.preprocessing=mine"});
    EXPECT_TRUE(meant.code == 0 || lacks_bf16(meant)) << "meant so: " << meant.err;
  }
  void expect_all_told(const std::string& text, const std::string& weights, const std::vector<Way>& ways) const {
    for (const Way& way : ways) {
      SCOPED_TRACE(way.said);
      const std::string place = write("changed.toml", edited(text, way.edits));
      expect_told(folder_ / "changed.toml", weights, place, way.said);
    }
  }
  std::string classification() const {
    return fmt::format(
        "extends = \"{}\"\n[run]\nname = \"q\"\nprecision = \"fp32\"\nepochs = 1\nfolder = \"{}\"\ndevices = \"cpu\"\n"
        "[data]\npath = \"{}\"\n[network]\nuse = \"quickstart\"\nclasses = 10\n"
        "[validate]\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\"]\n[validate.read]\nshuffle = "
        "\"never\"\n"
        "[validate.decode_image]\nsize = [32, 32]\n[validate.forward]\ntest_time = \"none\"\n",
        pipeline("quickstart.toml"), folder_ / "runs", shapes());
  }
  std::string train_classification() const {
    std::ofstream(folder_ / "q.toml") << classification();
    const Outcome trained = run_command({tool("pipeline-run"), folder_ / "q.toml", "--quiet"});
    EXPECT_EQ(trained.code, 0) << trained.err;
    return find_file(folder_.path() / "runs", "weights.safetensors").string();
  }

  TemporaryFolder folder_;
};

const std::string kSize = "size = [32, 32]\n";

TEST_F(Disagreement, OfAClassificationIsToldWithItsPlace) {
  const std::string weights = train_classification();
  ASSERT_EQ(check(folder_ / "q.toml", weights).code, 0);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(shapes() + "/test")) names.insert(entry.path().filename());
  const std::string reversed = fmt::format("[\"{}\"]", fmt::join(names.rbegin(), names.rend(), "\", \""));
  expect_all_told(
      classification(), weights,
      {{"[validate.decode_image] has fit = \"exact\"", {{kSize, kSize + "fit = @\"exact\"\n"}}},
       {"[validate.decode_image] has filter = \"bicubic\"", {{kSize, kSize + "fit = \"exact\"\nfilter = @\"bicubic\"\n"}}},
       {"[validate.decode_image] has exif = false", {{kSize, kSize + "exif = @false\n"}}},
       {"[validate.decode_image] has crop = \"centre\"", {{kSize, kSize + "crop = @\"centre\"\n"}}},
       {"[validate.decode_image] has short_side = 40", {{kSize, kSize + "crop = \"centre\"\nshort_side = @40\n"}}},
       {"[validate.decode_image] has allow_warnings = true", {{kSize, kSize + "allow_warnings = @true\n"}}},
       {"[validate.decode_image] has size = [40, 40]", {{kSize, "size = @[40, 40]\n"}}},
       {"[validate] has a stage 'crop'",
        {{"\"batch\"", "\"crop\", \"batch\""}, {kSize, kSize + "@[validate.crop]\nsize = [32, 32]\n"}}},
       {"[network] has an input height = 28", {{"classes = 10", "classes = 10\nheight = @28"}}},
       {"[network] has an input width = 28", {{"classes = 10", "classes = 10\nwidth = @28"}}},
       {"[validate.forward] has test_time = \"flip\"", {{"\"none\"", "@\"flip\""}}},
       {"[validate.forward] has test_time = \"flip_translate\"", {{"\"none\"", "@\"flip_translate\""}}},
       {"[run] has precision = \"bf16\"", {{"\"fp32\"", "@\"bf16\""}}},
       {fmt::format("[validate] has 10 classes in another order, with '{}' as number 0", *names.rbegin()),
        {{"shuffle = \"never\"", "classes = @" + reversed}}}});
}

TEST_F(Disagreement, OfANetworksInputIsToldInTheNetworksFile) {
  const std::string weights = train_classification();
  std::ofstream(folder_ / "changed.toml") << edited(classification(), {{"\"quickstart\"", "\"other.toml\""}});
  for (const auto& [mean, deviation, said] : std::vector<std::array<std::string, 3>>{
           {"@[0.5, 0.4, 0.5]", "[0.25, 0.25, 0.25]", "[network] has an input mean = [0.5, 0.4, 0.5]"},
           {"[0.5, 0.5, 0.5]", "@[0.25, 0.25, 1]", "[network] has an input deviation = [0.25, 0.25, 1.0]"}}) {
    SCOPED_TRACE(said);
    const std::string place =
        write("other.toml",
              fmt::format("extends = \"{}\"\n[input]\nchannels = 3\nheight = \"${{height}}\"\nwidth = \"${{width}}\"\nmean = {}\n"
                          "deviation = {}\n",
                          pipeline("networks/quickstart.toml"), mean, deviation));
    expect_told(folder_ / "changed.toml", weights, place, said);
  }
}

TEST_F(Disagreement, OfASegmentationIsToldWithItsPlace) {
  const std::string folder = folder_.path(), weights = train_maps(folder);
  ASSERT_EQ(check(folder_ / "maps.toml", weights).code, 0);
  const std::string sky = "{ name = \"sky\", colour = \"#0000ff\" }, ", road = "{ name = \"road\", colour = \"#808080\" }";
  expect_all_told(
      maps_pipeline(folder), weights,
      {{"[validate.decode_image] has size = [24, 32]", {{"[20, 32]", "@[24, 32]"}}},
       {"[validate.decode_image] has filter = \"bicubic\"", {{"fit  = \"exact\"", "fit  = \"exact\"\nfilter = @\"bicubic\""}}},
       {"[validate.pad] has margin = [2, 1]", {{"[2, 0]", "@[2, 1]"}}},
       {"[validate.pad] has fill = [0, 0, 0]", {{"[105, 107, 110]", "@[0, 0, 0]"}}},
       {"[validate.pad] has border = \"reflect\"", {{"[2, 0]", "[2, 0]\nborder = @\"reflect\""}}},
       {"[validate] has a stage 'noise'",
        {{"\"pad\", ", "\"pad\", \"noise\", "}, {"[validate.batch]", "@[validate.noise]\ndeviation = 5\n[validate.batch]"}}},
       {"[validate] has no stage 'pad' here",
        {{"\"pad\", ", ""},
         {"[validate.decode_image]", "@[validate.decode_image]"},
         {"[20, 32]", "[24, 32]"},
         {"[validate.pad]\nmargin = [2, 0]\nfill   = [105, 107, 110]\n", ""}}},
       {"[validate] has 3 classes in another order, with 'road' as number 0",
        {{sky + road, fmt::format("{}, {}", road, sky)}, {"classes = [", "classes = @["}, {"}, , {", "}, {"}}},
       {"[validate] has 3 classes, with 'trees' as number 2", {{"\"tree\"", "\"trees\""}, {"classes = [", "classes = @["}}},
       {"[validate] has the colour \"#00ff01\" for class 2", {{"#00ff00", "#00ff01"}, {"classes = [", "classes = @["}}},
       {"[validate] has label images whose value 3 is taken as class 2",
        {{"\"tree\"", "\"tree\", ids = [2, 3]"}, {"ignored = [3]\n", ""}, {"[validate.read]", "@[validate.read]"}}},
       {"[validate] has label images whose value 2 is ignored",
        {{"\"tree\"", "\"tree\", ids = [7]"}, {"ignored = [3]", "ignored = @[2, 3]"}}}});
}

}  // namespace
}  // namespace millrace::test::disagreements_test
