#include "run/kept_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "config/document.h"
#include "config/kept_run.h"
#include "config/named_weights.h"
#include "files/file_sum.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "millrace/util/sha256.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

fs::path whole(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

void make_whole(Value& value) {
  if (value.kind() == Value::Kind::array) {
    for (Value& each : value.array()) make_whole(each);
  } else if (value.kind() == Value::Kind::text && is_local_path(value.text())) {
    value = Value(whole(value.text()).string(), value.at());
  }
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Not forced onto the disk: until the first checkpoint nothing needs the file, and a signal in the meantime would leave a part of it.
void write(const fs::path& path, const std::string& text) {
  OutputFile file(path.string(), OutputFile::Sync::later);
  file.write(text);
  file.commit();
}

// The list that a source's key names, by itself or by its folder; "": it names none.
std::string list_at(const Value& value, const StageType& type) {
  static constexpr std::string_view kEndings[] = {".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".txt"};
  if (value.kind() != Value::Kind::text) return {};
  const bool has_ending = std::ranges::find(kEndings, fs::path(value.text()).extension().string()) != std::end(kEndings);
  if (has_ending && is_file(value.text())) return value.text();
  const bool takes_folders = std::ranges::find(type.params, "root", &ParamInfo::name) != type.params.end();
  for (const std::string_view ending : kEndings) {
    const fs::path inside = fs::path(value.text()) / fmt::format("metadata{}", ending);
    if (takes_folders && is_file(inside)) return inside.string();
  }
  return {};
}

class Keeper {
 public:
  Keeper(const PreparedRun& run, const fs::path& folder) : run_(run), folder_(whole(folder)), pipeline_(run.resolved()) {
    std::ifstream file(folder / kKeptRecord, std::ios::binary);
    if (file) before_ = Json::parse(file, nullptr, false);
    if (!before_.is_object() || !before_.contains("files")) before_ = {{"working_folder", ""}, {"files", Json::array()}};
    std::error_code ignored;
    const auto then = before_.value("working_folder", "");  // gone where the run was moved
    record_ = {{"working_folder", fs::is_directory(then, ignored) ? then : fs::current_path().string()},
               {"files", Json::array()}};
  }

  // Returns what goes into pipeline.toml.
  Value keep() {
    const fs::path below = fs::weakly_canonical(run_.pipeline.file).lexically_relative(fs::weakly_canonical(folder_));
    const bool is_own = !below.empty() && *below.begin() != "..";
    if (is_own) carry_over("pipeline");
    for (const std::string& file : run_.pipeline.files) {
      const bool is_base = std::ranges::find(run_.pipeline.bases.files, file) != run_.pipeline.bases.files.end();
      if (!is_own && !is_base && is_file(file)) note("pipeline", "", file);
    }
    keep_network();
    keep_weights();
    for (const GraphPlan& graph : run_.pipeline.graphs) {
      for (const StagePlan& stage : graph.stages) {
        if (stage.type->role == StageType::Role::source) keep_paths(graph, stage);
      }
    }
    Value* const checkpoint = pipeline_.find("checkpoint");
    if (Value* const place = checkpoint != nullptr ? checkpoint->find("folder") : nullptr) make_whole(*place);
    record_["data"] = data();
    Versions versions = versions_of_code(run_.pipeline, run_.registry);
    versions.merge(versions_of(run_.replicas.devices().devices));
    record_["versions"] = versions;
    write(folder_ / kKeptRecord, record_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return std::move(pipeline_);
  }

 private:
  Json& note(const char* what, const std::string& key, const fs::path& path) {
    Json file = {{"what", what}, {"key", key}, {"path", whole(path).string()}};
    if (has_sha256()) file["sha256"] = sha256_of_file(path.string());
    return record_["files"].emplace_back(std::move(file));
  }

  // The record made with this copy in the run's folder; null if it is another file.
  const Json* noted_before(const fs::path& path) const {
    const Json& files = before_.at("files");
    const auto found = std::ranges::find_if(files, [&](const Json& each) {
      std::error_code ignored;
      return each.contains("copy") && fs::equivalent(folder_ / each.value("copy", ""), path, ignored);
    });
    return found == files.end() ? nullptr : &*found;
  }

  void carry_over(std::string_view what) {
    for (const Json& each : before_.at("files")) {
      if (each.value("what", "") == what) record_["files"].push_back(each);
    }
  }

  // Its copy is complete, whatever it extends; the record holds the hash of each file that was read.
  void keep_network() {
    const std::string& file = run_.pipeline.network_params.use;
    if (run_.network_text.empty()) return;
    const std::string copy = "networks/" + fs::path(file).filename().string();
    pipeline_.find("network")->set("use", Value(copy));
    if (noted_before(file) != nullptr) return carry_over("network");
    write(folder_ / copy, run_.network_text);
    Diagnostics ignored;  // it was read before
    DocumentSources sources;
    read_document(file, {}, ignored, {}, &sources);
    for (const std::string& each : sources.files) {
      if (is_file(each)) note("network", "network.use", each)["copy"] = copy;
    }
  }

  void keep_weights() {
    if (run_.resume_point) {
      carry_over("weights");
    } else if (is_file(run_.weights.from.file)) {
      note("weights", "network.weights", run_.weights.from.file);
    }
    if (!is_local_path(named_weights(pipeline_))) return;
    Value& network = *pipeline_.find("network");
    Value* const weights = network.find("weights");
    Value& file = weights->kind() == Value::Kind::table ? *weights->find("file") : *weights;
    make_whole(file);
    for (const Json& each : record_["files"]) {
      if (each.value("what", "") != "weights") continue;
      file = Value(each.value("path", ""), file.at());
      if (each.contains("sha256")) network.set("sha256", Value(each.value("sha256", "")));
    }
  }

  void keep_paths(const GraphPlan& graph, const StagePlan& stage) {
    Value* const of_graph = pipeline_.find(graph.name);
    Value* const table = of_graph == nullptr ? nullptr : of_graph->find(stage.name);
    if (table == nullptr || table->kind() != Value::Kind::table) return;
    for (Member& member : table->table()) {
      const auto info = std::ranges::find(stage.type->params, member.key, &ParamInfo::name);
      const bool is_word = info == stage.type->params.end() || !info->choices.empty();  // as in labels = "none"
      if (is_word || !is_data_path(member.key)) continue;
      make_whole(member.value);
      const std::string list = list_at(member.value, *stage.type);
      if (!list.empty()) keep_list(fmt::format("{}.{}.{}", graph.name, stage.name, member.key), list, member.value);
    }
  }

  void keep_list(const std::string& key, const std::string& file, Value& path) {
    if (const Json* const before = noted_before(file)) {
      record_["files"].push_back(*before);
      path = Value(before->value("path", ""), path.at());  // where it lay: another run may find it as it was
      return;
    }
    Json& list = note("list", key, file);
    if (fs::file_size(file) > kLargestKeptList) return;
    const std::string copy = fmt::format("lists/{}{}", key, fs::path(file).extension().string());
    write(folder_ / copy, content_of(file));
    list["copy"] = copy;
  }

  // What a checkpoint holds too.
  Json data() const {
    Json all = Json::object();
    for (const auto& [source, data] : run_.data()) {
      Json& each =
          all[source] = {{"samples", data.samples}, {"listing_hash", fmt::format("{:016x}", data.listing_hash.value_or(0))}};
      for (const auto& [index, hash] : data.contents.samples)
        each[fmt::format("sample {}", index)] = fmt::format("{:016x}", hash);
    }
    return all;
  }

  const PreparedRun& run_;
  const fs::path folder_;
  Value pipeline_;
  Json before_, record_;  // record.json as it was, and as it becomes
};

}  // namespace

void keep_run(const PreparedRun& run, const fs::path& folder) {
  RunLog& log = run.audience.log();
  const bool resumes = run.resume_point.has_value();
  try {
    keep_pipeline(Keeper(run, folder).keep(), resumes, log);
  } catch (...) {
    const Error error = current_error();
    if (!resumes) fail(ErrorKind::run, "{}", error.what());
    log.warn(fmt::format("the run's folder does not record this call: {}", error.what()));
  }
}

}  // namespace millrace
