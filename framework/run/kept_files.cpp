#include "run/kept_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/secrets.h"
#include "config/document.h"
#include "config/kept_run.h"
#include "config/named_weights.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

fs::path whole(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

void write(const fs::path& path, const std::string& text) {
  OutputFile file(path.string());
  file.write(text);
  file.commit();
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Keeper {
 public:
  Keeper(const PreparedRun& run, const fs::path& folder)
      : run_(run), folder_(whole(folder)), before_(read_kept_run(folder)), pipeline_(run.resolved()) {
    std::error_code ignored;
    const bool is_there = before_ && fs::is_directory(before_->working_folder, ignored);  // else the run was moved
    kept_.working_folder = is_there ? before_->working_folder : fs::current_path().string();
    kept_.versions = versions_of_code(run.pipeline, run.registry);
    kept_.versions.merge(versions_of(run.replicas.devices().devices));
  }

  void keep() {
    keep_pipeline_files();
    keep_network();
    keep_weights();
    for (const GraphPlan& graph : run_.pipeline.graphs) {
      for (const StagePlan& stage : graph.stages) {
        if (stage.type->role == StageType::Role::source) keep_paths(graph, stage);
      }
    }
    if (Value* const checkpoint = pipeline_.find("checkpoint")) {
      if (Value* const place = checkpoint->find("folder")) make_whole(*place);
    }
    note_data();
    write(folder_ / kKeptRecord, to_json(kept_));
  }
  const Value& pipeline() const { return pipeline_; }

 private:
  // What the run's record says of a copy in its folder, when it was made; null: the file is none.
  const KeptFile* kept_before(const fs::path& path) const {
    if (!before_) return nullptr;
    const auto found = std::ranges::find_if(
        before_->files, [&](const KeptFile& each) { return !each.copy.empty() && whole(folder_ / each.copy) == whole(path); });
    return found == before_->files.end() ? nullptr : &*found;
  }

  void carry_over(std::string_view what) {
    if (!before_) return;
    std::ranges::copy_if(before_->files, std::back_inserter(kept_.files),
                         [&](const KeptFile& each) { return each.what == what; });
  }

  void keep_pipeline_files() {
    const fs::path below = whole(run_.pipeline.file).lexically_relative(folder_);
    if (!below.empty() && *below.begin() != "..") return carry_over("pipeline");
    for (const std::string& file : run_.pipeline.files) {
      const bool is_base = std::ranges::find(run_.pipeline.bases.files, file) != run_.pipeline.bases.files.end();
      if (!is_base && is_file(file)) kept_.files.push_back(file_now("pipeline", "", file));
    }
  }

  // Its copy says all, whatever it extends; of each file that was read the record holds the hash.
  void keep_network() {
    const std::string& file = run_.pipeline.network_params.use;
    Value* const network = pipeline_.find("network");
    if (file.empty() || network == nullptr || run_.network_text.empty()) return;
    const std::string copy = "networks/" + fs::path(file).filename().string();
    if (kept_before(file) != nullptr) {
      carry_over("network");
    } else {
      write(folder_ / copy, run_.network_text);
      Diagnostics ignored;  // it was read before
      DocumentSources sources;
      read_document(file, {}, ignored, {}, &sources);
      for (const std::string& each : sources.files) {
        if (!is_file(each)) continue;
        kept_.files.push_back(file_now("network", "network.use", each));
        kept_.files.back().copy = copy;
      }
    }
    network->set("use", Value(copy));
  }

  void keep_weights() {
    if (run_.resume_point) {
      carry_over("weights");
    } else if (is_file(run_.weights.from.file)) {
      kept_.files.push_back(file_now("weights", "network.weights", run_.weights.from.file));
    }
    Value* const network = pipeline_.find("network");
    if (network == nullptr || !is_local_path(named_weights(pipeline_))) return;
    Value* const said = network->find("weights");
    Value& file = said->kind() == Value::Kind::table ? *said->find("file") : *said;
    make_whole(file);
    const auto kept = std::ranges::find(kept_.files, "weights", &KeptFile::what);
    if (kept == kept_.files.end()) return;
    file = Value(kept->path, file.at());
    if (!kept->sha256.empty()) network->set("sha256", Value(kept->sha256));
  }

  static void make_whole(Value& value) {
    if (value.kind() == Value::Kind::array) {
      for (Value& each : value.array()) make_whole(each);
    } else if (value.kind() == Value::Kind::text && is_local_path(value.text())) {
      value = Value(whole(value.text()).string(), value.at());
    }
  }

  // A word, as in labels = "none", is no path.
  static bool is_word(const StageType& type, const Member& member) {
    const auto info = std::ranges::find(type.params, member.key, &ParamInfo::name);
    if (info == type.params.end() || !info->choices.empty()) return true;
    std::error_code ignored;
    return member.key == "labels" && member.value.kind() == Value::Kind::text && !fs::exists(member.value.text(), ignored);
  }

  void keep_paths(const GraphPlan& graph, const StagePlan& stage) {
    Value* const table = pipeline_.find(graph.name) == nullptr ? nullptr : pipeline_.find(graph.name)->find(stage.name);
    if (table == nullptr || table->kind() != Value::Kind::table) return;
    for (Member& member : table->table()) {
      if (!is_data_path(member.key) || is_word(*stage.type, member)) continue;
      make_whole(member.value);
      if (member.value.kind() != Value::Kind::text) continue;
      const std::string list = list_at(member.value.text(), *stage.type);
      if (!list.empty()) keep_list(fmt::format("{}.{}.{}", graph.name, stage.name, member.key), list, member.value);
    }
  }

  // The list that a path names, by itself or by its folder; "": it names none.
  static std::string list_at(const std::string& path, const StageType& type) {
    static constexpr std::string_view kEndings[] = {".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".txt"};
    const bool has_ending = std::ranges::find(kEndings, fs::path(path).extension().string()) != std::end(kEndings);
    if (has_ending && is_file(path)) return path;
    const bool takes_folders = std::ranges::find(type.params, "root", &ParamInfo::name) != type.params.end();
    for (const std::string_view ending : kEndings) {
      const fs::path inside = fs::path(path) / fmt::format("metadata{}", ending);
      if (takes_folders && is_file(inside)) return inside.string();
    }
    return {};
  }

  void keep_list(const std::string& key, const std::string& file, Value& path) {
    if (const KeptFile* const before = kept_before(file)) {
      kept_.files.push_back(*before);
      kept_.files.back().key = key;
      path = Value(before->path, path.at());  // where it lay: another run may find it as it was
      return;
    }
    KeptFile list = file_now("list", key, file);
    const auto same = std::ranges::find_if(
        kept_.files, [&](const KeptFile& each) { return each.what == "list" && each.path == list.path && !each.copy.empty(); });
    if (same != kept_.files.end()) {
      list.copy = same->copy;
    } else if (list.bytes <= kLargestKeptList) {
      list.copy = fmt::format("lists/{}{}", key, fs::path(file).extension().string());
      write(folder_ / list.copy, content_of(file));
    }
    kept_.files.push_back(std::move(list));
  }

  void note_data() {
    for (const auto& build : run_.builds) {
      if (build->data().source == nullptr) continue;
      const std::string source = name_of_source(*build);
      std::map<std::string, std::string>& data = kept_.data[source];
      data["samples"] = std::to_string(build->data().samples_per_epoch);
      data["listing_hash"] = fmt::format("{:016x}", build->data().listing_hash);
      const auto contents = run_.contents.find(source);
      if (contents == run_.contents.end()) continue;
      std::uint64_t sizes = 0;
      for (const std::uint64_t part : contents->second.sizes) sizes = combine(sizes, part);
      if (sizes != 0) data["sizes_hash"] = fmt::format("{:016x}", sizes);
      for (const auto& [index, hash] : contents->second.samples)
        data[fmt::format("sample {}", index)] = fmt::format("{:016x}", hash);
    }
  }

  const PreparedRun& run_;
  const fs::path folder_;
  const std::optional<KeptRun> before_;
  Value pipeline_;
  KeptRun kept_;
};

}  // namespace

void keep_run(const PreparedRun& run, const fs::path& folder) {
  RunLog& log = run.audience.log();
  const bool resumes = run.resume_point.has_value();
  try {
    Keeper keeper(run, folder);
    keeper.keep();
    keep_pipeline(keeper.pipeline(), resumes, log);
  } catch (const Error& error) {
    if (!resumes) fail(ErrorKind::run, "{}", error.what());
    log.warn(fmt::format("the run's folder keeps what it has, and nothing of this call: {}", error.what()));
  }
}

}  // namespace millrace
