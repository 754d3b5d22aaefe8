// Recipes in the metadata of weights: accepted ones name only stages of declared roles, and their network can be laid out.
#include "fuzz.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "network/load.h"
#include "prepare/inference_recipe.h"
#include "toml/document.h"

namespace millrace::fuzz {

namespace {

constexpr const char* kRecipe = R"(version = 1
graph = "validate"
seed = 1
precision = "fp32"
output = "classes"
loss = "cross_entropy"
measure = { type = "cross_entropy", label_smoothing = 0.1 }
batch = 50
prepare = ["decode_image", "resize", "noise"]
predict = ["forward"]
input = { height = 32, width = 32, channels = 3, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
target = { kind = "classes", scale = 1, ids = [[0], [1, 5]], colours = ["#0a0a0a", "#ff0000"] }
[stages.decode_image]
stage = "decode_image"
size = [32, 32]
fit = "exact"
[stages.resize]
stage = "resize"
short_side = 40
[stages.noise]
stage = "noise"
deviation = [0, 5]
[stages.forward]
stage = "forward"
test_time = "flip"
[sinks.write_classes]
top = 3
format = "csv"
[network]
classes = 10
width = "${filters} / 2"
[document]
layers = [{ block = "twice", filters = "${width}", repeat = 2 }, { op = "global_average_pool" }, { op = "linear", out = "${classes}" }]
[document.defaults]
filters = 8
classes = 2
width = "(${filters} + 1) * 4"
[document.input]
channels = 3
height = 32
width = 32
[document.block.twice]
layers = [{ op = "conv", out = "${filters}", kernel = 3, padding = "same" }, { op = "relu", name = "r_${index}" }]
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kRecipe;
  return text.replace(text.find(from), from.size(), to);
}

const Registry& registry() {
  static const Registry* const made = [] {
    auto* all = new Registry;
    load_all_plugins(*all);
    return all;
  }();
  return *made;
}

bool has_role(const std::string& type, RecipeRole role) {
  const StageType* const found = registry().stages().find(type);
  return found != nullptr && found->recipe_role == role;
}

void require_harmless(const Value& value) {
  if (value.kind() == Value::Kind::text) {
    const std::string& text = value.text();
    require(text.find("://") == text.npos && !text.starts_with('/') && text.find("..") == text.npos,
            "no text is a path or a URL");
    require(text.find("${env") == text.npos, "no text is of the environment");
  }
  if (value.kind() == Value::Kind::array) {
    for (const Value& element : value.array()) require_harmless(element);
  }
  if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) require_harmless(member.value);
  }
}

void look_at(const InferenceRecipe& recipe) {
  for (const InferenceRecipe::StageUse& stage : recipe.prepare) {
    require(has_role(stage.type, RecipeRole::preparation), "a stage before `batch` prepares images");
    require_harmless(stage.table);
  }
  for (const InferenceRecipe::StageUse& stage : recipe.predict) {
    require(has_role(stage.type, RecipeRole::inference), "a stage after `batch` runs the network");
    require_harmless(stage.table);
  }
  for (const Value* part : {&recipe.input, &recipe.target, &recipe.network, &recipe.document}) require_harmless(*part);
  Diagnostics errors;
  build_network(recipe.document, "recipe", recipe.network, registry(), errors);
}

}  // namespace

std::vector<std::string> seeds() {
  // Targets of a malicious recipe: files, URLs, the environment, unlimited sizes.
  constexpr std::pair<const char*, const char*> kHarm[] = {
      {"predict = [\"forward\"]",
       "predict = [\"forward\", \"more\"]\n[stages.more]\nstage = \"write_classes\"\nfile = \"/tmp/x\""},
      {"stage = \"decode_image\"", "stage = \"cache\"\nfile = \"/tmp/x\""},
      {"stage = \"decode_image\"", "stage = \"read_folder\"\npath = \"/tmp\""},
      {"[sinks.write_classes]", "[sinks.write_classes]\nfile = \"/tmp/x\""},
      {"[network]", "[network]\nuse = \"/tmp/x\""},
      {"[document]", "[document]\nextends = \"/tmp/x\""},
      {"op = \"global_average_pool\"", "op = \"global_average_pool\", name = \"${env.HOME}\""},
      {"op = \"global_average_pool\"", "op = \"global_average_pool\", name = \"../../x\""},
      {"prepare = [\"decode_image\"", "prepare = [\"read\""},
      {"output = \"classes\"", "output = \"shell\""},
      {"batch = 50", "batch = 1048576"},
      {"size = [32, 32]", "size = [1000000000, 1000000000]"},
      {"{ op = \"global_average_pool\" }", "{ op = \"upsample\", factor = 1024 }, { op = \"global_average_pool\" }"},
      {"measure = {", "measure = { file = \"/tmp/x\","},
      {"version = 1", "version = 9"}};
  std::vector<std::string> all = {
      kRecipe,
      "research only",
      with("stage = \"noise\"", "stage = \"write_classes\"\nfile = \"/tmp/x\""),
      with("classes = 10", "preprocessing = \"mine\"\nweights = \"http://host/x\""),
      with("graph = \"validate\"", "graph = \"x\\n[run]\\nfolder = '/tmp'\""),
      with("filters = 8\n", "a0 = \"xxxxxxxx\"\na1 = \"${a0}${a0}\"\na2 = \"${a1}${a1}\"\nfilters = \"${a2}\"\n"),
      with("[document.input]", "[document." + std::string(300, 'a') + ".b.c.d.e.f]\nx = [[[[[[[[[[1]]]]]]]]]]\n[document.input]"),
      with("\"${filters} / 2\"", "\"((((((((((${filters}))))))))))\"")};
  for (const auto& [from, to] : kHarm) all.push_back(with(from, to));
  return all;
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto recipe = recipe_from({{InferenceRecipe::kKey, text}}, "w.safetensors");
    colours_from({{InferenceRecipe::kKey, text}});
    if (!recipe) return 0;
    if (mistake_in_recipe(*recipe, fuzz::registry(), true).empty()) fuzz::look_at(*recipe);
    fuzz::require(disagreements(*recipe, *recipe, false, fuzz::registry()).empty(), "a recipe agrees with itself");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::data, "what is wrong with a file is an error of data");
    fuzz::require(std::string(error.what()).find("w.safetensors") != std::string::npos, "the file is named");
  }
  return 0;
}
