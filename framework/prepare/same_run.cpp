#include "prepare/same_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/changes.h"
#include "config/document.h"
#include "files/crc64.h"
#include "millrace/error.h"
#include "millrace/util/wire.h"
#include "stages/contents.h"

namespace millrace {
namespace {

// A rank's options, besides its file and the options that all share before preparing. Files of weights of one name may differ
// between machines.
std::string options_text(const PreparedRun& run) {
  const std::string weights = run.resume_point                ? "the checkpoint"
                              : run.weights.from.file.empty() ? "new values"
                                                              : fmt::format("weights with checksum {}", run.weights.checksum);
  return fmt::format("--hash {}, --guard {}, starting from {}", run.options.hash_input ? "pixels" : "stream", run.options.guard,
                     weights);
}

std::vector<std::byte> packed(const RunRecord& record, const std::string& options) {
  WireWriter writer;
  for (const std::string* text : {&record.pipeline, &record.network, &record.precision, &record.backend, &options})
    writer.put(std::string_view(*text));
  writer.put(record.data.size());
  for (const auto& [source, data] : record.data) {
    writer.put(std::string_view(source)).put(data.samples).put(data.classes.size());
    for (const std::string& name : data.classes) writer.put(std::string_view(name));
    writer.put(data.class_counts).put(data.listing_hash.value_or(0)).put(data.contents.sizes).put(data.contents.whole);
    writer.put(data.contents.samples.size());
    for (const auto& [index, hash] : data.contents.samples) writer.put(index).put(hash);
  }
  return writer.bytes();
}

FoundCheckpoint unpacked(const std::vector<std::byte>& bytes, std::string& options) {
  WireReader reader(bytes);
  FoundCheckpoint found;
  found.checkpoint.pipeline = reader.get<std::string>();
  SavedState& state = found.checkpoint.state;
  state.network = reader.get<std::string>();
  state.precision = reader.get<std::string>();
  state.backend = reader.get<std::string>();
  options = reader.get<std::string>();
  for (auto sources = reader.get<std::size_t>(); sources > 0; --sources) {
    SavedState::Data& data = state.data[reader.get<std::string>()];
    data.samples = reader.get<std::uint64_t>();
    for (auto classes = reader.get<std::size_t>(); classes > 0; --classes) data.classes.push_back(reader.get<std::string>());
    data.class_counts = reader.list<std::uint64_t>();
    data.listing_hash = reader.get<std::uint64_t>();
    data.contents.sizes = reader.list<std::uint64_t>();
    data.contents.whole = reader.list<std::uint64_t>();
    for (auto samples = reader.get<std::size_t>(); samples > 0; --samples) {
      const auto index = reader.get<std::uint64_t>();
      data.contents.samples[index] = reader.get<std::uint64_t>();
    }
  }
  return found;
}

// Keys that decide which steps are boundaries, and the ranks' common work there. A resumed run may change them, so
// compare_with_checkpoint() ignores them.
Value done_by_all(const Value& file, const char* table) {
  const Value* const written = file.find(table);
  if (written == nullptr || written->kind() != Value::Kind::table) return {};
  if (std::string_view(table) != "run") return *written;
  Value kept;
  for (const char* key : {"best", "on_nan", "nan_rate_factor", "nan_limit", "compare_replicas"}) {
    if (const Value* const value = written->find(key)) kept.set(key, *value);
  }
  const Value* const folder = written->find("folder");  // its location may differ, but all or none must have one
  if (folder != nullptr && folder->kind() == Value::Kind::text && folder->text().empty()) kept.set("folder", *folder);
  return kept;
}

std::vector<Difference> differences_of_boundaries(const std::string& first, const std::string& mine) {
  Diagnostics errors;
  const auto theirs = parse_toml(first, "rank 0's file", errors), ours = parse_toml(mine, "this rank's file", errors);
  errors.throw_if_any();
  std::vector<Difference> found;
  for (const char* table : {"checkpoint", "run"}) {
    std::ranges::move(document_differences(table, done_by_all(*theirs, table), done_by_all(*ours, table)),
                      std::back_inserter(found));
  }
  return found;
}

// Paths of data and weights may differ between ranks; their contents are compared.
bool is_path(const RunRecord& record, const Difference& difference) {
  if (difference.key == "network.weights" || difference.key == "network.weights.file") return true;
  if (std::ranges::any_of(record.data, [&](const auto& source) { return is_path_of(source.first, difference.key); })) return true;
  const auto looks_like_one = [](const std::string& value) { return value.starts_with('"') && value.find('/') != value.npos; };
  return looks_like_one(difference.then) && looks_like_one(difference.now) &&
         std::ranges::any_of(record.data, [&](const auto& source) { return difference.key.starts_with(source.first + '.'); });
}

// For sources with the same listing as rank 0's: a line for each with differing samples.
std::string differences_of_contents(const PreparedRun& run, const std::map<std::string, SavedState::Data>& theirs, int rank) {
  std::string text;
  for (const auto& build : run.builds) {
    if (build->data().source == nullptr) continue;
    const std::string source = name_of_source(*build);
    const auto there = theirs.find(source);
    if (rank == 0 || there == theirs.end() || there->second.listing_hash != build->data().listing_hash) continue;
    const SavedState::Contents& then = there->second.contents;
    SavedState::Contents now = look_into(*build, 0, &then);
    if (const auto mine = run.contents.find(source); mine != run.contents.end()) now.whole = mine->second.whole;
    const std::string found = difference_of_contents(*build, then, now);
    if (!found.empty()) text += fmt::format("\n  {}: {} on rank {} than on rank 0", source, found, rank);
  }
  return text;
}

// "" if equal. `is_data`: only listings or contents of samples differ.
std::string difference(const PreparedRun& run, const RunRecord& mine, const std::string& my_options,
                       const std::vector<std::byte>& first, int rank, bool& is_data) {
  const Pipeline& pipeline = run.pipeline;
  std::string options;
  FoundCheckpoint theirs = unpacked(first, options);
  const std::string backend = std::exchange(theirs.checkpoint.state.backend, mine.backend);
  theirs.checkpoint.state.replicas = mine.replicas;
  std::vector<Difference> found = compare_with_checkpoint(theirs, mine, pipeline).differences;
  std::ranges::move(differences_of_boundaries(theirs.checkpoint.pipeline, mine.pipeline), std::back_inserter(found));
  std::erase_if(found, [&](const Difference& each) { return is_path(mine, each); });
  if (options != my_options) found.push_back({"the command line", options, my_options});
  if (backend != mine.backend) found.push_back({"the backend of the devices", backend, mine.backend});
  is_data = std::ranges::all_of(found, [&](const Difference& each) {
    return std::ranges::any_of(mine.data, [&](const auto& source) { return each.key.starts_with(source.first + '.'); });
  });
  std::string text;
  for (const Difference& each : found) {
    const auto value_text = [](const std::string& value) { return value.empty() ? std::string("not there") : value; };
    text += fmt::format("\n  {} is {} on rank 0, {} on rank {}", each.key, value_text(each.then), value_text(each.now), rank);
  }
  return text + differences_of_contents(run, theirs.checkpoint.state.data, rank);
}

// Differing versions by rank, rank 0 first: "\n  plugin augment is 2.0 on rank 0, 9.9 on rank 1" for the first difference.
std::string difference_of_versions(const Versions& mine, Group& group) {
  WireWriter writer;
  for (const auto& [name, version] : mine) writer.put(std::string_view(name)).put(std::string_view(version));
  std::vector<Versions> all;
  std::string text;
  for (const std::vector<std::byte>& bytes : group.all_gather(Group::kRun, writer.bytes())) {
    Versions& versions = all.emplace_back();
    for (WireReader reader(bytes); !reader.is_done();) {
      std::string name = reader.get<std::string>();
      versions[std::move(name)] = reader.get<std::string>();
    }
    if (!text.empty()) continue;
    for (const auto& [name, first, other] : version_differences(all.front(), versions))
      text += fmt::format("\n  {} is {} on rank 0, {} on rank {}", name, first, other, all.size() - 1);
  }
  return text;
}

}  // namespace

void require_same_versions(const Pipeline& pipeline, const Registry& registry, Group& group) {
  const std::string found = difference_of_versions(versions_of_code(pipeline, registry), group);
  if (found.empty()) return;
  fail(ErrorKind::usage, "{}: ranks run different versions of Millrace or its plugins: install the same on all machines:{}",
       pipeline.title(), found);
}

void require_same_run(PreparedRun& run, Group& group) {
  RunRecord mine = run.record();
  mine.precision = run.pipeline.run.precision;  // as in the file: "auto" chooses the same for all
  const std::string options = options_text(run);
  std::vector<std::byte> first = packed(mine, options);
  group.broadcast(Group::kRun, 0, first);
  bool is_data = false;
  std::string found = difference(run, mine, options, first, group.rank(), is_data);
  if (!found.empty()) found.insert(0, is_data ? "d" : "f");
  for (const auto& each : group.all_gather(Group::kRun, std::as_bytes(std::span(found)))) {
    if (each.empty()) continue;
    const std::string_view text(reinterpret_cast<const char*>(each.data()), each.size());
    const std::string what = text[0] == 'd' ? "ranks read different data" : "ranks do not run the same pipeline";
    fail(text[0] == 'd' ? ErrorKind::data : ErrorKind::usage, "{}: {}:{}", run.pipeline.title(), what, text.substr(1));
  }
  Versions devices = versions_of(run.replicas.devices().devices);
  // They do not affect results.
  std::erase_if(devices, [](const auto& each) { return each.first.find("threads") != std::string::npos; });
  if (const std::string other = difference_of_versions(devices, group); !other.empty()) {
    run.audience.warn_once("devices of ranks compute with different versions, so bits depend on which rank has a replica:" +
                           other);
  }
}

}  // namespace millrace
