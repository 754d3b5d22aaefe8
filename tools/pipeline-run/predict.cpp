#include "predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "millrace/error.h"
#include "millrace/output_file.h"
#include "network/load.h"
#include "network/tensor_file.h"
#include "run/fetched_weights.h"
#include "run/usage.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// A text as a pipeline's file has it, where ${...} would be a reference.
std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "${") == 0) out += '$';
    out += text[at];
  }
  return out;
}

Value escaped(const Value& value) {
  Value out = value;
  if (value.kind() == Value::Kind::text) out = Value(escaped(value.text()));
  if (value.kind() == Value::Kind::array) {
    for (Value& element : out.array()) element = escaped(element);
  }
  if (value.kind() == Value::Kind::table) {
    for (Member& member : out.table()) member.value = escaped(member.value);
  }
  return out;
}

bool ends_with_any(const std::string& text, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return text.ends_with(end); });
}

bool has_shards(const std::string& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return std::any_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) { return entry.path().extension() == ".tar"; });
}

Value source_of(const std::string& data) {
  Value table;
  std::error_code ignored;
  if (ends_with_any(data, {".tar"}) || data.find('{') != std::string::npos || has_shards(data)) {
    table.set("stage", Value("read_tar"));
  } else if (ends_with_any(data, {".csv", ".tsv", ".jsonl"})) {
    table.set("stage", Value("read_list"));
  } else if (fs::is_regular_file(data, ignored)) {
    fail(ErrorKind::usage,
         "--predict: '{}' is a file: name a folder of images, a list of them (.csv, .tsv, .jsonl) or shards (.tar)", data);
  } else {
    table.set("stage", Value("read_folder"));
  }
  table.set("path", Value(escaped(data)));
  table.set("labels", Value("none"));
  return table;
}

struct Sink {
  std::string type, key, name;  // the key that says where it writes, and what it writes there
};

Sink sink_of(const Usage& usage, const std::string& weights) {
  if (usage.output == "classes") return {"write_classes", "file", "predictions.csv"};
  if (usage.output == "map") return {"write_masks", "folder", "masks"};
  if (usage.output == "image") return {"write_images", "folder", "images"};
  if (usage.output == "numbers") return {"write_features", "file", "features.safetensors"};
  fail(ErrorKind::usage, "--predict: '{}' does not say what the network's result means: its output is \"{}\"", weights,
       usage.output);
}

Usage usage_in(const std::string& weights, const Registry& registry) {
  const std::string file = local_weights({weights, ""}, registry, [](std::string) {});
  if (auto usage = usage_from(read_tensors_metadata(file), file)) return *std::move(usage);
  fail(ErrorKind::usage,
       "--predict: '{}' does not say how images are prepared for it: it is not from Millrace, or of an older one, or its run "
       "validated "
       "nothing and drew at random in decoding. Write a pipeline with a graph that makes predictions, and run it with --weights",
       weights);
}

class Prediction {
 public:
  Prediction(const PredictRequest& request, const Usage& usage)
      : request_(request), usage_(usage), folder_(fs::absolute(request.folder)) {}

  Value pipeline(const Network& network) const {
    Value file, run;
    run.set("name", Value("predict"));
    run.set("seed", Value(usage_.seed));
    run.set("precision", Value(usage_.precision));
    run.set("folder", Value(""));
    file.set("run", std::move(run));
    file.set("network", network_table());
    file.set("predict", graph(network));
    return file;
  }

 private:
  Value network_table() const {
    Value table;
    table.set("use", Value("network.toml"));
    const bool remote = is_remote(request_.weights) || request_.weights.starts_with("file://");
    table.set("weights", Value(escaped(remote ? request_.weights : fs::absolute(request_.weights).string())));
    for (const Member& member : usage_.network.table()) table.set(member.key, escaped(member.value));
    return table;
  }

  Value graph(const Network& network) const {
    const Sink sink = sink_of(usage_, request_.weights);
    Value table, batch;
    Array flow{Value("read")};
    table.set("flow", Value());  // first
    table.set("read", source_of(request_.data));
    add(usage_.prepare, flow, table);
    batch.set("size", usage_.batch > 0 ? Value(usage_.batch) : Value("auto"));
    flow.emplace_back("batch");
    table.set("batch", std::move(batch));
    add(usage_.predict, flow, table);
    if (usage_.predict.empty()) flow.emplace_back("forward");
    flow.emplace_back(sink.type);
    table.set(sink.type, sink_table(sink, network));
    table.set("flow", Value(std::move(flow)));
    return table;
  }

  static void add(const std::vector<Usage::StageUse>& stages, Array& flow, Value& tables) {
    for (const Usage::StageUse& stage : stages) {
      flow.emplace_back(stage.name);
      Value table;
      table.set("stage", Value(stage.type));
      for (const Member& member : stage.table.table()) table.set(member.key, escaped(member.value));
      tables.set(stage.name, std::move(table));
    }
  }

  Value sink_table(const Sink& sink, const Network& network) const {
    const Value* said = usage_.sinks.find(sink.type);
    Value table = said != nullptr && said->kind() == Value::Kind::table ? escaped(*said) : Value();
    table.erase("format");  // follows from the file's name
    table.set(sink.key, Value(escaped((folder_ / sink.name).string())));
    if (sink.type == "write_features") table.set("layer", Value(network.layers.back().name));
    return table;
  }

  const PredictRequest& request_;
  const Usage& usage_;
  const fs::path folder_;
};

void write_text(const fs::path& path, const std::string& text) {
  OutputFile file(path.string());
  file.write(text);
  file.commit();
}

}  // namespace

std::string write_prediction(const PredictRequest& request, const Registry& registry) {
  if (request.weights.empty()) fail(ErrorKind::usage, "--predict needs the weights of a run: --weights FILE");
  const Usage usage = usage_in(request.weights, registry);
  const fs::path folder = request.folder, network_file = folder / "network.toml", file = folder / "pipeline.toml";
  write_text(network_file, to_toml(usage.document));
  Diagnostics errors;
  const auto network = load_network(network_file.string(), usage.network, registry, errors);
  errors.throw_if_any();
  const std::string head = fmt::format(
      "# Made by pipeline-run --predict. It prepares images as [{}] of the run did that wrote the weights.\n\n", usage.graph);
  write_text(file, head + to_toml(Prediction(request, usage).pipeline(*network)));
  return file.string();
}

}  // namespace millrace
