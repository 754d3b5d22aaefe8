#include "hostile_weights.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "millrace/detail/random.h"
#include "weight_formats/torch_file_fixture.h"

namespace millrace::test {
namespace {

using Json = nlohmann::ordered_json;

// A safetensors file in its parts.
struct Parts {
  Json header;
  std::string values;

  explicit Parts(const std::string& file) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = Json::parse(file.substr(8, length));
    values = file.substr(8 + length);
  }
  std::string recipe() const { return header["__metadata__"]["usage"].get<std::string>(); }
};

std::string file_of(const std::string& header, const std::string& values) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + values;
}

std::string with_recipe(Parts parts, const std::string& recipe) {
  parts.header["__metadata__"]["usage"] = recipe;
  return file_of(parts.header.dump(), parts.values);
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// One text of the recipe in place of another. "VICTIM" is the path.
struct Edit {
  const char *kind, *from, *to;
};
constexpr Edit kEdits[] = {
    {"a sink after the network", "predict = [\"forward\"]",
     "predict = [\"forward\", \"more\"]\n[stages.more]\nstage = \"write_classes\"\nfile = \"VICTIM\""},
    {"a sink as preparation", "stage = \"decode_image\"", "stage = \"write_classes\"\nfile = \"VICTIM\""},
    {"a cache file", "stage = \"decode_image\"", "stage = \"cache\"\nfile = \"VICTIM\""},
    {"a source", "stage = \"decode_image\"", "stage = \"read_folder\"\npath = \"VICTIM\""},
    {"a sink's file", "[sinks]", "[sinks.write_classes]\nfile = \"VICTIM\""},
    {"a key of a stage that is there", "stage = \"decode_image\"", "stage = \"decode_image\"\nfile = \"VICTIM\""},
    {"other weights", "[network]", "[network]\nweights = \"VICTIM\""},
    {"weights from a network", "[network]", "[network]\nweights = \"http://127.0.0.1:1/w\""},
    {"another network", "[network]", "[network]\nuse = \"VICTIM\""},
    {"no comparison", "[network]", "[network]\npreprocessing = \"mine\""},
    {"a network's file", "[document]", "[document]\nextends = \"VICTIM\""},
    {"the environment", "op = \"global_average_pool\"", "op = \"global_average_pool\", name = \"${env.HOME}\""},
    {"a name that is a path", "op = \"global_average_pool\"", "op = \"global_average_pool\", name = \"../../VICTIM\""},
    {"lines in a comment", "graph = \"validate\"", "graph = \"x\\n[run]\\nfolder = 'VICTIM'\\n#\""},
    {"the source's name", "prepare = [\"decode_image\"]\npredict = [\"forward\"]",
     "prepare = [\"read\"]\npredict = [\"forward\"]\n[stages.read]\nstage = \"decode_image\""},
    {"an output without a sink", "output = \"classes\"", "output = \"shell\""},
    {"masks of vectors", "output = \"classes\"", "output = \"map\""},
    {"a batch without end", "batch = ", "batch = 1048576 # "},
    {"a negative batch", "batch = ", "batch = -1 # "},
    {"an image without end", "size = [32, 32]", "size = [1000000000, 1000000000]"},
    {"an input without end", "[input]\nheight = 32", "[input]\nheight = 65536"},
    {"an input of text", "[input]\nheight = 32", "[input]\nheight = \"x\""},
    {"a layer without end", "{ op = \"global_average_pool\" }",
     "{ op = \"upsample\", factor = 1024 }, { op = \"global_average_pool\" }"},
    {"a version to come", "version = 1", "version = 9"},
    {"a broken text", "prepare = ", "prepare = [["},
    {"a loss's file", "measure = \"cross_entropy\"", "measure = { type = \"VICTIM\", file = \"VICTIM\" }"},
};

using Make = std::function<HostileFile(const Parts& good, const std::string& victim, Draw& draw)>;

HostileFile edited(const Edit& edit, const Parts& good, const std::string& victim) {
  std::string recipe = good.recipe(), to = edit.to;
  for (std::size_t at = to.find("VICTIM"); at != std::string::npos; at = to.find("VICTIM", at + victim.size())) {
    to.replace(at, 6, victim);
  }
  const std::size_t at = recipe.find(edit.from);
  if (at == std::string::npos) return {edit.kind, "missing: " + std::string(edit.from), ""};
  return {edit.kind, ".safetensors", with_recipe(good, recipe.replace(at, std::strlen(edit.from), to))};
}

// Something without end after the recipe's last table.
HostileFile added(const char* kind, const Parts& good, const std::string& more) {
  return {kind, ".safetensors", with_recipe(good, good.recipe() + more)};
}

HostileFile deep_keys(const Parts& good, const std::string&, Draw&) {
  return added("nested keys", good, "\n[document.block." + repeated("a.", 20'000) + "b]\nc = 1\n");
}
HostileFile deep_lists(const Parts& good, const std::string&, Draw&) {
  return added("nested lists", good, "\n[document.block.b]\nlayers = " + repeated("[", 20'000) + repeated("]", 20'000) + "\n");
}
HostileFile deep_parentheses(const Parts& good, const std::string&, Draw&) {
  return added("nested parentheses", good,
               "\n[document.block.b]\nlayers = [{ op = \"relu\", name = \"" + repeated("(", 20'000) + "${classes}" +
                   repeated(")", 20'000) + "\" }]\n");
}
HostileFile doubling(const Parts& good, const std::string&, Draw&) {
  std::string variables = "\n[document.block.b]\nlayers = [{ op = \"relu\" }]\n[document.block.b.defaults]\na0 = \"xxxxxxxx\"\n";
  for (int i = 1; i < 60; ++i) variables += fmt::format("a{} = \"${{a{}}}${{a{}}}\"\n", i, i - 1, i - 1);
  return added("texts that double", good, variables);
}
HostileFile many_keys(const Parts& good, const std::string&, Draw&) {
  std::string keys = "\n[document.block.b.defaults]\n";
  for (int i = 0; i < 40'000; ++i) keys += fmt::format("k{} = 1\n", i);
  return added("many keys", good, keys);
}
HostileFile long_recipe(const Parts& good, const std::string&, Draw&) {
  return added("a long text", good, "\n# " + std::string(std::size_t{4} << 20U, 'x') + "\n");
}
HostileFile many_tensors(const Parts& good, const std::string&, Draw&) {
  Json header = good.header;
  for (int i = 0; i < 40'000; ++i) {
    header[fmt::format("x{}", i)] = {
        {"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {good.values.size(), good.values.size()}}};
  }
  return {"many tensors", ".safetensors", file_of(header.dump(), good.values)};
}
HostileFile deep_header(const Parts& good, const std::string&, Draw&) {
  return {"a nested header", ".safetensors",
          file_of("{\"w\":" + repeated("[", 200'000) + repeated("]", 200'000) + "}", good.values)};
}
HostileFile deep_classes(const Parts& good, const std::string&, Draw&) {
  Parts parts = good;
  parts.header["__metadata__"]["classes"] = repeated("[", 200'000) + repeated("]", 200'000);
  return {"nested classes", ".safetensors", file_of(parts.header.dump(), parts.values)};
}
HostileFile class_names(const Parts& good, const std::string& victim, Draw&) {
  Parts parts = good;
  Json names = Json::array();
  for (int i = 0; i < 10; ++i) names.push_back(fmt::format("${{env.HOME}}\n[run]\nfolder = '{}' {}", victim, i));
  parts.header["__metadata__"]["classes"] = names.dump();
  return {"names of classes that are lines", ".safetensors", file_of(parts.header.dump(), parts.values)};
}
HostileFile long_header(const Parts& good, const std::string&, Draw&) {
  std::string file = file_of(good.header.dump(), good.values);
  const std::uint64_t length = std::uint64_t{1} << 40U;
  std::memcpy(file.data(), &length, sizeof length);
  return {"a header without end", ".safetensors", file};
}
HostileFile program(const Parts&, const std::string& victim, Draw&) {
  using namespace torch_fixture;
  const std::string call = function("posix", "system") + tuple({text("echo harm > '" + victim + "'")}) + "R";
  return {"a program", ".pth", zip(entries_of(pickle(ordered_dict({{"w", call}})), {}))};
}
HostileFile deep_pickle(const Parts&, const std::string&, Draw&) {
  using namespace torch_fixture;
  return {"a nested pickle", ".pth", zip(entries_of(pickle(repeated("}", 20'000) + repeated("K\1s", 10)), {}))};
}
HostileFile names_of_entries(const Parts&, const std::string& victim, Draw&) {
  using namespace torch_fixture;
  const std::string values = storage("FloatStorage", "../../../../../.." + victim, 1);
  return {"entries that are paths", ".pth",
          zip({{victim, "harm"},
               {"../" + victim, "harm"},
               {"w/data.pkl", pickle(ordered_dict({{"w", tensor(values, 0, {1}, {1})}}))}})};
}
HostileFile other_bytes(const Parts& good, const std::string&, Draw& draw) {
  std::string header = good.header.dump();
  for (std::int64_t i = draw.integer(1, 4); i > 0; --i) {
    const auto at = static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(header.size()) - 1));
    if (draw.chance(0.5)) {
      header[at] = static_cast<char>(draw.integer(0, 255));
    } else {
      header.insert(at, header.substr(at, static_cast<std::size_t>(draw.integer(1, 400))));
    }
  }
  return {"a changed header", ".safetensors", file_of(header, good.values)};
}
// The recipe with a line of it away, twice, or elsewhere.
HostileFile other_lines(const Parts& good, const std::string& victim, Draw& draw) {
  std::vector<std::string> lines;
  const std::string recipe = good.recipe();
  for (std::size_t at = 0; at < recipe.size();) {
    const std::size_t end = std::min(recipe.find('\n', at), recipe.size() - 1) + 1;
    lines.push_back(recipe.substr(at, end - at));
    at = end;
  }
  const auto some = [&] { return static_cast<std::size_t>(draw.integer(1, static_cast<std::int64_t>(lines.size()) - 1)); };
  for (std::int64_t i = draw.integer(1, 3); i > 0; --i) {
    const std::size_t from = some(), to = some();
    std::string line = lines[from];
    if (const std::size_t equals = line.find('='); equals != std::string::npos && draw.chance(0.4)) {
      const char* const values[] = {"-1", "1e300", "[]", "{}", "\"\"", "[[[1]]]", "9223372036854775807", "true"};
      line = line.substr(0, equals) + "= " + (draw.chance(0.2) ? "\"" + victim + "\"" : values[draw.integer(0, 7)]) + "\n";
    }
    if (draw.chance(0.5))
      lines[to] = line;
    else
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(to), line);
  }
  return {"other lines", ".safetensors", with_recipe(good, repeated("", 0) + fmt::format("{}", fmt::join(lines, "")))};
}

const std::vector<Make>& kinds() {
  static const std::vector<Make> all = [] {
    std::vector<Make> made;
    for (const Edit& edit : kEdits) {
      made.emplace_back([&edit](const Parts& good, const std::string& victim, Draw&) { return edited(edit, good, victim); });
    }
    for (auto* make : {deep_keys, deep_lists, deep_parentheses, doubling, many_keys, long_recipe, many_tensors, deep_header,
                       deep_classes, class_names, long_header, program, deep_pickle, names_of_entries, other_bytes, other_lines})
      made.emplace_back(make);
    return made;
  }();
  return all;
}

}  // namespace

std::size_t kinds_of_hostile_weights() { return kinds().size(); }

std::vector<HostileFile> hostile_weights(const std::string& good, const std::string& victim, std::size_t count) {
  const Parts parts(good);
  std::vector<HostileFile> files;
  for (std::size_t i = 0; i < count; ++i) {
    Draw draw(i, {}, 0);
    const Make& make = i < kinds().size() ? kinds()[i] : i % 3 == 0 ? Make(other_bytes) : Make(other_lines);
    HostileFile file = make(parts, victim, draw);
    file.name = fmt::format("{}{}", i, file.name);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace millrace::test
