#include "checkpoint/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/out_of_memory.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint/run_folder.h"
#include "files/crc64.h"
#include "files/folder_names.h"
#include "files/scratch_folder.h"
#include "millrace/error.h"
#include "millrace/util/wire.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

// "RUN", "RUN/checkpoints/step-000001200", or "step-000001200" below [checkpoint] folder.
void read_named_run(const std::string& named, const Pipeline& pipeline, ResumeRequest& request) {
  fs::path run = fs::path(named).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // "runs/x/2026-01-01T00-00-00/"
  if (is_checkpoint_name(run.filename().string())) {
    request.checkpoint = run.filename().string();
    run = run.parent_path();
    if (run.filename() == "checkpoints") {
      run = run.parent_path();
    } else if (!pipeline.checkpoint.folder.empty()) {
      run = fs::path(pipeline.run.folder) / pipeline.run.name / run.filename();
    }
  }
  request.run = std::move(run);
}

// "no run in 'runs/x' has a checkpoint"
std::string no_checkpoint_text(const ResumeRequest& request, const ResumePlaces& places, bool are_damaged) {
  const char* const usable = are_damaged ? " that can be used" : "";
  std::string text = request.run.empty() ? fmt::format("no run in '{}' has a checkpoint{}", places.runs.string(), usable)
                                         : fmt::format("the run in '{}' has no checkpoint{}", request.run.string(), usable);
  if (!places.checkpoint_folder.empty()) text += fmt::format(" in checkpoint.folder = \"{}\"", places.checkpoint_folder);
  return text;
}

[[noreturn]] void refuse(const ResumeRequest& request, const ResumePlaces& places, const std::vector<std::string>& unusable) {
  std::string text;
  if (!request.checkpoint.empty()) {
    text = fmt::format("'{}' cannot be used; --resume '{}' resumes from the newest one that can", request.checkpoint,
                       request.run.string());
  } else {
    text = no_checkpoint_text(request, places, !unusable.empty());
    if (!unusable.empty()) {
      text += fmt::format("; to begin a new run, leave out {}, or give it another run.name",
                          request.is_explicit ? request.asked_by : "resume");
    }
  }
  for (const std::string& each : unusable) text += "\n  " + each;
  fail(ErrorKind::usage, "{}: {}", request.asked_by, text);
}

}  // namespace

std::optional<ResumeRequest> resume_request(const Pipeline& pipeline, const ResumeOptions& options) {
  const bool may_resume = options.run || pipeline.checkpoint.resume;
  if (options.allows_changes && !may_resume && !options.only_checks) {
    fail(ErrorKind::usage,
         "--allow-change allows differences from the checkpoint of a resumed run: it needs --resume or checkpoint.resume = "
         "\"auto\"");
  }
  if (!options.saves_checkpoints) {
    if (!options.run || options.replays) return std::nullopt;
    fail(ErrorKind::usage,
         "{}: --resume needs a checkpoint, but this file writes none: set a graph that trains, run.folder, and checkpoint.every "
         "to anything but \"never\"",
         pipeline.title());
  }
  if (pipeline.run.folder.empty()) {
    fail(ErrorKind::usage,
         "{}: [checkpoint] writes into the run's folder, but run.folder = \"\" makes none: name a folder, or remove [checkpoint]",
         pipeline.place_of("run.folder"));
  }
  if (options.run && options.begins_elsewhere && !options.replays) {
    fail(ErrorKind::usage, "--resume uses step and weights of the checkpoint: leave out --from and --weights");
  }
  if (!may_resume || (!options.run && options.begins_elsewhere)) return std::nullopt;
  ResumeRequest request{.asked_by = options.replays ? "--explain-nan"
                                    : options.run   ? "--resume"
                                                    : "resume = \"auto\"",
                        .is_explicit = options.run.has_value(),
                        .replays = options.replays,
                        .run = {},
                        .checkpoint = {}};
  if (options.run && !options.run->empty()) read_named_run(*options.run, pipeline, request);
  return request;
}

ResumeChoice choose_resume(const ResumeRequest& request, const ResumePlaces& places) {
  ResumeChoice choice;
  for (std::size_t i = 0; i < places.candidates.size(); ++i) {
    const RunCandidate& each = places.candidates[i];
    choice.warnings.insert(choice.warnings.end(), each.unusable.begin(), each.unusable.end());
    if (each.checkpoint.empty()) continue;
    choice.candidate = i;
    if (i > 0) {
      choice.warnings.push_back(fmt::format("the run in '{}' has no usable checkpoint: the one in '{}' is resumed",
                                            places.candidates.front().run.string(), each.run.string()));
    }
    return choice;
  }
  if (request.replays) return choice;
  if (request.is_explicit || !choice.warnings.empty()) refuse(request, places, choice.warnings);
  // The place may be unavailable, such as an unmounted disk; a new run would then repeat all work.
  if (places.has_runs) choice.warnings.push_back("a new run begins: " + no_checkpoint_text(request, places, false));
  return choice;
}

std::optional<ResumePoint> find_resume_point(const ResumeRequest& request, const RunPlaces& places, bool rolls_back,
                                             const std::function<void(std::string)>& warn) {
  const bool may_be_gone = !places.folder().empty();  // its checkpoints lie elsewhere
  if (!request.run.empty()) require_run_folder(request.asked_by, request.run, may_be_gone);
  ResumePlaces found{places.runs(), places.folder(), !names_in(places.runs()).empty(), {}};
  std::optional<ResumePoint> point;
  const std::vector<fs::path> runs = request.run.empty() ? places.runs_with_checkpoints() : std::vector{request.run};
  for (const fs::path& run : runs) {
    RunCandidate& candidate = found.candidates.emplace_back(run);
    const auto pass_over = [&](std::string text) { candidate.unusable.push_back(std::move(text)); };
    const auto place = places.checkpoints(run);
    const auto read = [&](const std::string& name) { return place->read(name); };
    std::string latest = place->pointed_to("latest");
    auto checkpoint = request.checkpoint.empty()
                          ? place->newest(pass_over)
                          : first_whole({request.checkpoint}, places.checkpoint_folder(run), read, pass_over);
    if (!checkpoint) continue;
    candidate.checkpoint = checkpoint->path.filename().string();
    const bool was_named = !request.checkpoint.empty();
    const bool rewinds = rolls_back || (was_named && latest != candidate.checkpoint);
    point = ResumePoint{std::move(*checkpoint), run, std::move(latest), was_named, rewinds};
    break;
  }
  const ResumeChoice choice = choose_resume(request, found);
  for (const std::string& text : choice.warnings) warn(text);
  const std::string latest = latest_run(places.runs());
  for (std::size_t i = found.candidates.size(); point && i < runs.size(); ++i) {
    if (runs[i].filename() != latest) continue;
    warn(fmt::format("the newest run is resumed, '{}', but '{}' links to an older one, '{}'", point->run.string(),
                     (places.runs() / "latest").string(), runs[i].string()));
  }
  return point;
}

void share_resume_point(std::optional<ResumePoint>& point, bool failed, const RunPlaces& places, Group& group) {
  const std::string choice = failed ? "failed" : point ? fmt::format("+{}", point->path.string()) : "";
  const auto* const begin = reinterpret_cast<const std::byte*>(choice.data());
  std::vector<std::byte> bytes(begin, begin + choice.size());
  group.broadcast(Group::kRun, 0, bytes);
  if (bytes.empty()) return;
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text[0] != '+') {
    if (group.rank() != 0) group.receive(0, Group::kRun, bytes);  // throws rank 0's error if rank 0 leaves
    return;
  }
  const fs::path path = text.substr(1);
  if (group.rank() != 0) {
    try {
      const auto place = checkpoint_place(path.parent_path(), places.storage());
      point = ResumePoint{{path, place->read(path.filename().string())}, {}, {}, false, false};
    } catch (const Error& error) {
      if (lacks_memory(error)) throw;
    }
  }
  std::optional<Checkpoint> sent;
  if (point) sent = std::move(point->checkpoint);
  send_where_missing(sent, group);
  if (!point) point = ResumePoint{{path, {}}, {}, {}, false, false};
  point->checkpoint = std::move(*sent);
}

namespace {

namespace fs = std::filesystem;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) fail(ErrorKind::run, "'{}' cannot be read: {}", path.string(), std::strerror(errno));
  return bytes;
}

std::string checksum_of(const Checkpoint& checkpoint) {
  Crc64 sum;
  const auto add = [&sum](const std::string& text) { sum.add(text.data(), text.size()); };
  add(to_json(checkpoint.state));
  add(checkpoint.pipeline);
  for (const NamedTensor& tensor : checkpoint.tensors) {
    add(tensor.name);
    sum.add(tensor.values.data(), tensor.values.size() * sizeof(float));
  }
  return sum.text();
}

std::vector<std::byte> packed(const Checkpoint& checkpoint) {
  const ScratchFolder scratch("checkpoint");
  write_checkpoint(scratch.path(), checkpoint);
  const fs::path folder = scratch.path() / checkpoint_names(scratch.path()).at(0);
  WireWriter writer;
  for (const auto& entry : fs::directory_iterator(folder)) {
    writer.put(std::string_view(entry.path().filename().native())).put(std::string_view(bytes_of_file(entry.path())));
  }
  return writer.bytes();
}

Checkpoint unpacked(const std::vector<std::byte>& bytes) {
  const ScratchFolder scratch("checkpoint");
  for (WireReader reader(bytes); !reader.is_done();) {
    const fs::path name = fs::path(reader.get<std::string>()).filename();  // so that nothing is written elsewhere
    const std::string content = reader.get<std::string>();
    std::ofstream file(scratch.path() / name, std::ios::binary);
    if (!file.write(content.data(), static_cast<std::streamsize>(content.size())).flush()) {
      fail(ErrorKind::storage, "the checkpoint of rank 0 cannot be kept in '{}': {}", scratch.path().string(),
           std::strerror(errno));
    }
  }
  return read_checkpoint(scratch.path());
}

}  // namespace

void send_where_missing(std::optional<Checkpoint>& checkpoint, Group& group) {
  const std::string mine = checkpoint ? checksum_of(*checkpoint) : std::string();
  const auto all = group.all_gather(Group::kRun, std::as_bytes(std::span(mine)));
  if (std::ranges::all_of(all, [&](const auto& each) { return each == all[0]; })) return;
  std::vector<std::byte> bytes;
  if (group.rank() == 0) bytes = packed(*checkpoint);
  group.broadcast(Group::kRun, 0, bytes);
  if (all[static_cast<std::size_t>(group.rank())] != all[0]) checkpoint = unpacked(bytes);
}

}  // namespace millrace
