#include "checkpoint/checkpoint_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/text.h"
#include "util/crc64.h"
#include "util/json.h"
#include "weights/safetensors.h"

namespace millrace {

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kDigits = 9;  // at least

// A file whose checksum is computed while it is written.
class SummedFile {
 public:
  SummedFile(const char* name, const MakeWriter& make) : found_{name, 0, {}}, writer_(make(name)) {}
  void write(const void* data, std::size_t bytes) {
    writer_->write(data, bytes);
    sum_.add(data, bytes);
    found_.bytes += bytes;
  }
  FileSum commit() {
    writer_->commit();
    found_.crc64 = sum_.text();
    return found_;
  }

 private:
  FileSum found_;
  const std::unique_ptr<Storage::Writer> writer_;
  Crc64 sum_;
};

FileSum write_text(const char* name, const std::string& text, const MakeWriter& make) {
  SummedFile file(name, make);
  file.write(text.data(), text.size());
  return file.commit();
}

FileSum write_tensors(const Checkpoint& checkpoint, const MakeWriter& make) {
  SummedFile file(kTensorsFile, make);
  write_safetensors([&](const void* data, std::size_t bytes) { file.write(data, bytes); }, checkpoint.tensors);
  return file.commit();
}

std::set<std::string> first_of_periods(const std::vector<std::string>& names, const RetentionPeriod& period) {
  std::set<std::string> kept;
  std::uint64_t last = 0;
  for (auto name = names.rbegin(); period && name != names.rend(); ++name) {
    const std::uint64_t at = period(step_of_checkpoint(*name));
    if (at > last) kept.insert(*name);
    last = std::max(last, at);
  }
  return kept;
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) { return fmt::format("{}{:0{}}", kPrefix, step, kDigits); }

std::string lost_latest(const std::string& place, const std::string& name) {
  const std::string file = join_url(place, "latest");
  if (is_checkpoint_name(name)) return fmt::format("the checkpoint '{}' is gone", join_url(place, name));
  return fmt::format("'{}' is damaged: it names no checkpoint; the newest valid one is used", file);
}

bool is_checkpoint_name(std::string_view name) {
  const auto are_digits = [](std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; };
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const std::string_view step = name.substr(0, name.find('.'));
  const std::string_view attempt = name.substr(step.size());  // "", ".2"
  return step.size() >= kDigits && are_digits(step) && attempt != "." && (attempt.empty() || are_digits(attempt.substr(1)));
}

std::uint64_t step_of_checkpoint(const std::string& name) { return std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10); }

std::pair<std::uint64_t, std::uint64_t> order_of_checkpoint(const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::uint64_t attempt = dot == std::string::npos ? 1 : std::strtoull(name.c_str() + dot + 1, nullptr, 10);
  return {step_of_checkpoint(name), attempt};
}

std::vector<FileSum> write_files(const Checkpoint& checkpoint, const MakeWriter& make) {
  std::vector<FileSum> files;
  files.push_back(write_tensors(checkpoint, make));
  files.push_back(write_text(kStateFile, to_json(checkpoint.state), make));
  files.push_back(write_text(kPipelineFile, checkpoint.pipeline, make));
  Json list = Json::array();
  for (const FileSum& file : files) list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc64", file.crc64}});
  const Json manifest = {{"format", SavedState::kFormat}, {"checksum", "CRC-64/XZ"}, {"files", list}};
  files.push_back(write_text(kManifestFile, manifest.dump(2) + "\n", make));
  return files;
}

std::vector<FileSum> read_manifest(const std::string& text) {
  std::vector<FileSum> files;
  try {
    const Json manifest = Json::parse(text);
    for (const Json& file : manifest.at("files")) {
      files.push_back(
          {file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(), file.at("crc64").get<std::string>()});
    }
  } catch (const Json::exception& error) {
    fail(ErrorKind::data, "its {} is damaged: {}", kManifestFile, error.what());
  }
  // Only these names: one such as "../other" would lead out of the checkpoint.
  const std::initializer_list<std::string_view> names = {kTensorsFile, kStateFile, kPipelineFile};
  for (const std::string_view name : names) {
    const auto count = std::ranges::count(files, name, &FileSum::name);
    if (count == 0) fail(ErrorKind::data, "its {} does not name '{}'", kManifestFile, name);
    if (count > 1) fail(ErrorKind::data, "its {} names '{}' twice", kManifestFile, name);
  }
  for (const FileSum& file : files) {
    if (std::ranges::find(names, file.name) != names.end()) continue;
    fail(ErrorKind::data, "its {} names '{}', which is not a file of a checkpoint", kManifestFile, shown(file.name));
  }
  return files;
}

void check_sum(const FileSum& found, const FileSum& expected) {
  if (found.bytes != expected.bytes) {
    fail(ErrorKind::data, "'{}' has {} bytes, and should have {}", expected.name, found.bytes, expected.bytes);
  }
  if (found.crc64 != expected.crc64) {
    fail(ErrorKind::data, "'{}' has checksum {}, and should have {}", expected.name, found.crc64, expected.crc64);
  }
}

std::vector<std::string> checkpoints_to_remove(const std::vector<std::string>& names, const std::string& name,
                                               const std::string& best, std::size_t keep, const RetentionPeriod& period) {
  std::vector<std::string> gone;
  const std::set<std::string> for_ever = first_of_periods(names, period);
  std::size_t kept = 0;
  for (const std::string& each : names) {
    if (order_of_checkpoint(each) <= order_of_checkpoint(name) && (kept++ < keep || for_ever.contains(each))) continue;
    if (each != best) gone.push_back(each);
  }
  return gone;
}

std::optional<FoundCheckpoint> first_whole(const std::vector<std::string>& names, const std::filesystem::path& folder,
                                           const std::function<Checkpoint(const std::string& name)>& read,
                                           const std::function<void(std::string)>& warn) {
  for (const std::string& name : names) {
    try {
      return FoundCheckpoint{folder / name, read(name)};
    } catch (Error& error) {
      if (error.kind() != ErrorKind::data) throw error.in(fmt::format("'{}'", (folder / name).string()));
      warn(fmt::format("the checkpoint '{}' cannot be used: {}", (folder / name).string(), error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace millrace
