#include <algorithm>

#include "drawing.h"

namespace millrace::generator {

namespace {

using Maybe = std::optional<Value>;

Meaning constant(Value value) {
  return [value = std::move(value)](Draw&) -> Maybe { return value; };
}
Meaning one_of(std::vector<std::string> texts) {
  return [texts = std::move(texts)](Draw& draw) -> Maybe { return Value(pick(draw, texts)); };
}
const Meaning kNever = [](Draw&) -> Maybe { return std::nullopt; };

Maybe shuffled_classes(Draw& draw) {
  std::vector<std::string> names = DataSet::kClasses;
  std::swap(names[0], names[static_cast<std::size_t>(draw.integer(0, 2))]);
  return list_of(names);
}

Maybe pixel_classes(Draw& draw) {
  Array classes;
  const bool numbered = draw.chance(0.3), coloured = draw.chance(0.3);
  for (std::size_t i = 0; i < DataSet::kClasses.size(); ++i) {
    Value entry;
    entry.set("name", Value(DataSet::kClasses[i]));
    if (numbered) entry.set("ids", Value(Array{Value(static_cast<std::int64_t>(i))}));
    if (coloured) entry.set("colour", Value("#10" + std::to_string(20 + i) + "30"));
    classes.push_back(std::move(entry));
  }
  return Value(std::move(classes));
}

// Keys of all sources: selection and order of samples.
Meanings sampling_meanings() {
  Meanings meanings;
  meanings["*.only"] = [](Draw& draw) -> Maybe {
    return draw.chance(0.5) ? list_of(DataSet::kClasses) : list_of({"cow", "ant"});
  };
  meanings["*.class_weights"] = [](Draw& draw) -> Maybe {
    return Value(Array{Value(draw.uniform(0.1, 3)), Value(draw.uniform(0.1, 3)), Value(draw.uniform(0.1, 3))});
  };
  meanings["*.part"] = [](Draw& draw) -> Maybe {
    return draw.chance(0.5) ? Value(Array{Value(0), Value(0.7)}) : Value(Array{Value(0.3), Value(1)});
  };
  meanings["*.leave_out"] = [](Draw& draw) -> Maybe {
    return draw.chance(0.5) ? list_of({"*/00.*", "01.*"}) : list_of({"bee/03.*", "thumbs"});
  };
  meanings["*.limit"] = [](Draw& draw) -> Maybe { return Value(draw.integer(1, 20)); };
  meanings["*.classes"] = shuffled_classes;
  return meanings;
}

Meanings list_meanings(const DataSet& data, Task task) {
  Meanings meanings = sampling_meanings();
  meanings["read_list.path"] = one_of({data.path("list.csv"), data.path("list.tsv"), data.path("list.jsonl")});
  meanings["read_list.root"] = constant(Value(data.folder.string()));
  meanings["read_list.file"] = one_of({"file_name"});
  meanings["read_list.label"] = one_of({"label"});
  meanings["read_list.columns"] = kNever;  // the lists have a header row
  meanings["read_list.numbers"] = task == Task::numbers ? constant(list_of({"x", "y"})) : kNever;
  return meanings;
}

Meanings tar_meanings(const DataSet& data, Task task) {
  Meanings meanings = sampling_meanings();
  const std::string folder = task == Task::pixels ? "shards_of_labels" : task == Task::images ? "shards_of_targets" : "shards";
  meanings["read_tar.path"] = one_of({data.path(folder), data.path(folder + "/*.tar")});
  meanings["read_tar.paths"] = constant(list_of({data.path(folder)}));
  meanings["read_tar.label"] = task == Task::classes ? one_of({"label"}) : kNever;
  meanings["read_tar.numbers"] = task == Task::numbers ? one_of({"numbers"}) : kNever;
  meanings["read_tar.target"] = task == Task::pixels   ? one_of({"classes"})
                                : task == Task::images ? one_of({"image"})
                                                       : constant(Value("none"));
  meanings["read_tar.target_name"] = task == Task::pixels ? one_of({"label"}) : kNever;
  meanings["read_tar.target_scale"] = task == Task::images ? constant(Value(data.scale)) : kNever;
  return meanings;
}

Meanings pair_meanings(const DataSet& data, Task task) {
  Meanings meanings = sampling_meanings();
  meanings["read_pairs.images"] = constant(Value(data.path("pairs/images")));
  meanings["read_pairs.labels"] = constant(Value(data.path(task == Task::pixels ? "pairs/labels" : "pairs/targets")));
  meanings["read_pairs.target"] = task == Task::pixels ? one_of({"auto", "classes"}) : constant(Value("image"));
  meanings["read_pairs.target_scale"] = task == Task::images ? constant(Value(data.scale)) : kNever;
  meanings["read_pairs.classes"] = task == Task::pixels ? Meaning(pixel_classes) : kNever;
  meanings["read_pairs.ignored"] = task == Task::pixels ? constant(Value(Array{Value(255)})) : kNever;
  meanings["read_pairs.suffix"] = constant(Value(""));
  meanings["*.only"] = meanings["*.class_weights"] = kNever;  // images have no classes
  meanings["*.balance"] = constant(Value(false));
  meanings["*.extensions"] = constant(list_of({"png", "jpg"}));
  return meanings;
}

Meanings folder_meanings(const DataSet& data) {
  Meanings meanings = sampling_meanings();
  meanings["read_folder.path"] = constant(Value(data.path("photos")));
  meanings["read_folder.label"] = one_of({"^([a-z]+)/", "(...)/[0-9]+[.]"});
  meanings["*.extensions"] = constant(list_of({"png", "jpg"}));
  return meanings;
}

Meanings pixel_meanings(const DataSet& data) {
  Meanings meanings = sampling_meanings();
  meanings["read_cifar.path"] = constant(Value(data.path("cifar")));
  meanings["read_cifar.classes"] = meanings["read_idx.classes"] = kNever;
  meanings["read_idx.path"] = one_of({data.path("idx"), data.path("idx/train-images-idx3-ubyte")});
  meanings["read_idx.labels"] = constant(Value(data.path("idx/train-labels-idx1-ubyte")));
  meanings["read_cifar.only"] = constant(list_of({"0", "1", "2"}));
  meanings["read_idx.only"] = constant(list_of({"0", "1", "2"}));
  meanings["read_cifar.labels"] = constant(Value("fine"));
  meanings["*.class_weights"] = kNever;
  return meanings;
}

struct DrawnSource {
  std::string type;
  Value table;
};

DrawnSource drawn_source(Drawing& drawing, bool alone);

DrawnSource drawn_mix(Drawing& drawing) {
  Array sources;
  for (std::int64_t count = drawing.draw.integer(1, 2); count > 0; --count) {
    DrawnSource part = drawn_source(drawing, false);
    for (const char* key : {"shuffle", "limit", "part", "part_seed", "only", "balance", "class_weights"}) part.table.erase(key);
    part.table.set("stage", Value(part.type));
    if (drawing.draw.chance(0.5)) part.table.set("weight", Value(drawing.draw.uniform(0.1, 3)));
    sources.push_back(std::move(part.table));
  }
  Meanings meanings = sampling_meanings();
  meanings["mix.sources"] = constant(Value(std::move(sources)));
  return {"mix", drawing.table("mix", meanings)};
}

DrawnSource drawn_source(Drawing& drawing, bool alone) {
  Draw& draw = drawing.draw;
  const DataSet& data = drawing.data;
  std::vector<std::string> types;
  if (drawing.task == Task::classes) types = {"read_folder", "read_folder", "read_list", "read_tar", "read_cifar", "read_idx"};
  if (drawing.task == Task::numbers) types = {"read_list", "read_tar"};
  if (drawing.task == Task::pixels || drawing.task == Task::images) types = {"read_pairs", "read_pairs", "read_tar"};
  if (!alone && types[0] == "read_pairs") types.pop_back();  // all sources in a mixture have the same targets
  if (alone && draw.chance(0.15)) return drawn_mix(drawing);
  const std::string type = pick(draw, types);
  if (type == "read_list") {
    Value table = drawing.table(type, list_meanings(data, drawing.task));
    if (drawing.task == Task::numbers) table.set("numbers", list_of({"x", "y"}));
    return {type, table};
  }
  if (type == "read_tar") {
    const Meanings meanings = tar_meanings(data, drawing.task);
    Value table = drawing.table(type, meanings);
    table.erase("path");
    if (table.find("paths") == nullptr) table.set("path", *meanings.at("read_tar.path")(draw));
    for (const char* key : {"numbers", "target", "target_scale"}) {
      if (const std::optional<Value> value = meanings.at(std::string("read_tar.") + key)(draw)) table.set(key, *value);
    }
    return {type, table};
  }
  if (type == "read_pairs") {
    const Meanings meanings = pair_meanings(data, drawing.task);
    Value table = drawing.table(type, meanings);
    for (const char* key : {"labels", "target", "target_scale", "classes"}) {
      if (const std::optional<Value> value = meanings.at(std::string("read_pairs.") + key)(draw)) table.set(key, *value);
    }
    return {type, table};
  }
  if (type == "read_folder") return {type, drawing.table(type, folder_meanings(data))};
  const Meanings meanings = pixel_meanings(data);
  Value table = drawing.table(type, meanings);
  table.set("only", *meanings.at(type + ".only")(draw));  // as many classes as the network has
  return {type, table};
}

Meanings decode_meanings(const Drawing& drawing) {
  Meanings meanings;
  for (const char* key : {"size", "fit", "short_side", "crop", "random_resized_crop", "shrink"})
    meanings[std::string("decode_image.") + key] = kNever;
  meanings["decode_image.max_pixels"] = meanings["decode_image.max_bytes"] = constant(Value(1 << 20));
  meanings["decode_image.channels"] = constant(Value(drawing.network.channels));
  return meanings;
}

// Several ways in which decode_image and the stages after it give all images one size.
void add_decoding(Drawing& drawing, GraphTable& graph, bool trains) {
  Draw& draw = drawing.draw;
  const std::int64_t extra = draw.chance(0.25) ? draw.integer(1, 7) : 0;  // the network sees a part
  const std::int64_t height = drawing.network.height + extra,
                     width = drawing.network.width + (extra > 0 ? draw.integer(0, 5) : 0);
  const std::int64_t longer = std::max(height, width);
  Value decode = drawing.table("decode_image", decode_meanings(drawing));
  if (drawing.network.channels == 1) decode.set("channels", Value(1));
  const auto behind = [&](const std::string& type, const std::string& key, Value size, Meanings more = {}) {
    more[type + ".size"] = more[type + ".short_side"] = more[type + ".margin"] = kNever;
    Value table = drawing.table(type, more);
    table.set(key, std::move(size));
    graph.add("decode_image", decode);
    graph.add(type, std::move(table));
  };
  const auto how = draw.integer(0, 9);
  const bool is_random = how == 2 && trains;
  if (is_random) {
    Value part;
    part.set("area", Value(Array{Value(draw.uniform(0.05, 0.5)), Value(draw.uniform(0.5, 1))}));
    if (draw.chance(0.5)) part.set("aspect", Value(Array{Value(draw.uniform(0.2, 1)), Value(draw.uniform(1, 4))}));
    decode.set("random_resized_crop", std::move(part));
  }
  if (how == 3) return behind("resize", "size", pair_of(height, width));
  if (how == 4) {
    decode.set("short_side", Value(longer + draw.integer(0, 12)));
    return behind("crop", "size", pair_of(height, width));
  }
  if (how == 8) {
    behind("resize", "short_side", Value(longer + draw.integer(0, 12)));
    Value table;
    table.set("size", pair_of(height, width));
    return graph.add("crop", std::move(table));
  }
  if (how == 9 && height > 4 && width > 4) {
    const std::int64_t rows = draw.integer(0, 2), columns = draw.integer(0, 2);
    decode.set("size", pair_of(height - 2 * rows, width - 2 * columns));
    decode.set("fit", Value("exact"));
    return behind("pad", "margin", pair_of(rows, columns));
  }
  if (how == 5) {
    decode.set("size", pair_of(draw.integer(1, height), draw.integer(1, width)));
    decode.set("fit", Value("exact"));
    Meanings colours;
    colours["pad.fill"] = [&](Draw& d) -> Maybe { return Value(Array{Value(d.integer(0, 255))}); };
    return behind("pad", "size", pair_of(height, width), colours);
  }
  if (how == 6 && drawing.data.one_size && drawing.data.size.height >= height && drawing.data.size.width >= width)
    return behind("crop", "size", pair_of(height, width));
  decode.set("size", pair_of(height, width));
  if (how == 1 || how == 7) {
    decode.set("short_side", Value(longer + draw.integer(0, 12)));
    decode.set("crop", Value("centre"));
  } else if (!is_random) {
    decode.set("fit", Value("exact"));
  }
  graph.add("decode_image", decode);
}

Meanings augment_meanings(const Drawing& drawing) {
  Meanings meanings;
  const NetworkSize size = drawing.network;
  meanings["*.fill"] = [channels = size.channels](Draw& draw) -> Maybe {
    Array fill;
    const std::int64_t count = draw.chance(0.5) ? 1 : channels;
    for (std::int64_t i = 0; i < count; ++i) fill.emplace_back(draw.integer(0, 255));
    return Value(std::move(fill));
  };
  meanings["augment.random_resized_crop.size"] = constant(pair_of(size.height, size.width));
  meanings["augment.posterise.bits"] = constant(Value(Array{Value(2), Value(7)}));
  return meanings;
}

}  // namespace

void add_source(Drawing& drawing, GraphTable& graph) {
  DrawnSource source = drawn_source(drawing, true);
  graph.add(source.type, std::move(source.table));
}

void add_data_stages(Drawing& drawing, GraphTable& graph, const std::string& name, bool trains) {
  Draw& draw = drawing.draw;
  Meanings cache;
  cache["*.memory"] = one_of({"1 MiB", "20 KB", "1 GiB"});
  cache["cache.file"] = one_of({name + "-pixels.bin"});
  cache["cache_encoded.file"] = one_of({name + "-encoded.bin"});
  if (draw.chance(0.1)) graph.add("cache_encoded", drawing.table("cache_encoded", cache));
  add_decoding(drawing, graph, trains);
  bool on_device = false;  // then no later stage may change pixels
  if (draw.chance(0.15)) {
    Value table = drawing.table("cache", cache);
    on_device = table.find("device") != nullptr && table.find("device")->boolean();
    graph.add("cache", std::move(table));
  }
  const Meanings meanings = augment_meanings(drawing);
  const double augments = !trains || on_device ? 0 : 0.6;
  if (draw.chance(augments)) graph.add("augment", drawing.table("augment", meanings));
  if (draw.chance(augments / 6)) graph.add("augment", drawing.table("augment", meanings));
  if (draw.chance(0.15)) graph.add("noise", drawing.table("noise", meanings));
  Meanings batch;
  batch["batch.size"] = [](Draw& d) -> Maybe { return d.chance(0.05) ? Value("auto") : Value(d.integer(1, 7)); };
  batch["batch.bad_sample_budget"] = constant(Value(1000.0));
  Value table = drawing.table("batch", batch);
  if (table.find("last") == nullptr && draw.chance(0.6)) table.set("last", Value("keep"));
  graph.add("batch", std::move(table));
}

}  // namespace millrace::generator
