#include "checkpoint/checkpoint_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/checkpoint_format.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "util/crc64.h"
#include "weights/safetensors.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

class CheckpointFolder final : public CheckpointPlace {
 public:
  explicit CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {}

  void open() override {}
  Written write(const Checkpoint& checkpoint) override {
    const std::uint64_t bytes = write_checkpoint(folder_, checkpoint);
    return {checkpoint_name(checkpoint.state.step), bytes};
  }
  void point_to(const std::string& pointer, const std::string& name) override { millrace::point_to(folder_, pointer, name); }
  std::string pointed_to(const std::string& pointer) override { return millrace::pointed_to(folder_, pointer); }
  void tidy(const std::string& name, std::size_t keep, const RetentionPeriod& period) override {
    tidy_checkpoints(folder_, name, keep, period);
  }
  void remove_unfinished(const std::string& used) override { millrace::remove_unfinished(folder_, folder_ / used); }
  std::vector<std::string> names() override { return checkpoint_names(folder_); }
  Checkpoint read(const std::string& name) override { return read_checkpoint(folder_ / name); }
  std::optional<FoundCheckpoint> newest(const std::function<void(std::string)>& warn) override {
    return newest_checkpoint(folder_, warn);
  }

 private:
  const fs::path folder_;
};

// The files are objects, which cannot be renamed. So the manifest, written last, makes a checkpoint whole, and none is
// overwritten: if a step has objects already, as after a kill, the next checkpoint is named "step-000001200.2".
class CheckpointObjects final : public CheckpointPlace {
 public:
  CheckpointObjects(std::string url, Storage& storage) : url_(std::move(url)), storage_(storage) {}

  // Detects a wrong URL or a key without write permission before the first step.
  void open() override {
    try {
      put("about", "Checkpoints of a run of Millrace. The object `latest` names the newest one.\n");
    } catch (const Error& error) {
      fail(error.kind(), "no checkpoint can be written to '{}': {}; choose another place with checkpoint.folder", url_,
           error.what());
    }
  }

  Written write(const Checkpoint& checkpoint) override {
    const std::string plain = checkpoint_name(checkpoint.state.step);
    const Objects there = objects();
    Written written{plain};
    for (int attempt = 2; there.folders.contains(written.name); ++attempt) written.name = fmt::format("{}.{}", plain, attempt);
    const auto make = [&](const std::string& file) { return storage_.write(url_of(written.name, file)); };
    for (const FileSum& file : write_files(checkpoint, make)) {
      const std::string url = url_of(written.name, file.name);
      if (sum_of(url, file.name) != file) {
        storage_.remove(url_of(written.name, kManifestFile));  // makes it incomplete
        fail(ErrorKind::storage, "'{}' differs from what was written", url);
      }
      written.bytes += file.bytes;
    }
    return written;
  }

  void point_to(const std::string& pointer, const std::string& name) override { put(pointer, name + "\n"); }

  std::string pointed_to(const std::string& pointer) override { return pointed_to(pointer, objects()); }

  void tidy(const std::string& name, std::size_t keep, const RetentionPeriod& period) override {
    const Objects there = objects();
    const std::string best = pointed_to("best", there);
    const std::uint64_t step = step_of_checkpoint(name);
    std::vector<std::string> gone;  // unfinished ones, and those that `name` replaces
    for (const auto& [each, files] : there.folders) {
      if (each != name && each != best && (!is_whole(files) || step_of_checkpoint(each) == step)) gone.push_back(each);
    }
    std::vector<std::string> names = whole_names(there);
    std::erase_if(names, [&](const std::string& each) { return std::ranges::find(gone, each) != gone.end(); });
    for (std::string& each : checkpoints_to_remove(names, name, best, keep, period)) gone.push_back(std::move(each));
    for (const std::string& each : gone) remove(each, there.folders.at(each));
  }

  void remove_unfinished(const std::string&) override {
    for (const auto& [name, files] : objects().folders) {
      if (!is_whole(files)) remove(name, files);
    }
  }

  std::vector<std::string> names() override { return whole_names(objects()); }

  Checkpoint read(const std::string& name) override {
    Checkpoint checkpoint;
    for (const FileSum& file : read_manifest(text_of(url_of(name, kManifestFile)))) {
      ByteBuffer bytes;
      storage_.read(url_of(name, file.name), bytes);
      Crc64 sum;
      sum.add(bytes.data(), bytes.size());
      check_sum({file.name, bytes.size(), sum.text()}, file);
      if (file.name == kTensorsFile) checkpoint.tensors = read_safetensors(std::span(bytes.data(), bytes.size())).tensors;
      if (file.name == kStateFile) checkpoint.state = read_saved_state(text_of(bytes));
      if (file.name == kPipelineFile) checkpoint.pipeline = text_of(bytes);
    }
    return checkpoint;
  }

  std::optional<FoundCheckpoint> newest(const std::function<void(std::string)>& warn) override {
    const Objects there = objects();
    std::vector<std::string> names = whole_names(there);
    const std::string latest = pointed_to("latest", there);
    const auto first = std::ranges::find(names, latest);
    if (first != names.end()) {
      std::rotate(names.begin(), first, std::next(first));
    } else if (!latest.empty()) {
      warn(lost_latest(url_, latest));
    }
    return first_whole(
        names, url_, [this](const std::string& name) { return read(name); }, warn);
  }

 private:
  using Files = std::set<std::string>;
  struct Objects {
    std::map<std::string, Files> folders;  // by checkpoint
    Files files;                           // next to the folders
  };

  static bool is_whole(const Files& files) { return files.contains(kManifestFile); }
  static std::vector<std::string> whole_names(const Objects& there) {  // newest first
    std::vector<std::string> names;
    for (const auto& [name, files] : there.folders) {
      if (is_whole(files)) names.push_back(name);
    }
    std::ranges::sort(names, std::greater(), order_of_checkpoint);
    return names;
  }
  static std::string text_of(const ByteBuffer& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  FileSum sum_of(const std::string& url, const std::string& name) const {
    constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;
    FileSum found{name, storage_.stat(url).bytes, {}};
    std::vector<std::uint8_t> piece(std::min(found.bytes, kPiece));
    Crc64 sum;
    for (std::uint64_t at = 0; at < found.bytes; at += piece.size()) {
      const auto size = static_cast<std::size_t>(std::min(found.bytes - at, kPiece));
      storage_.read(url, at, size, piece.data());
      sum.add(piece.data(), size);
    }
    found.crc64 = sum.text();
    return found;
  }

  std::string url_of(const std::string& name, const std::string& file) const { return join_url(join_url(url_, name), file); }

  std::string text_of(const std::string& url) const {
    ByteBuffer bytes;
    storage_.read(url, bytes);
    return text_of(bytes);
  }

  void put(const std::string& file, const std::string& text) const {
    const auto writer = storage_.write(join_url(url_, file));
    writer->write(text.data(), text.size());
    writer->commit();
  }

  Objects objects() const {
    Objects there;
    if (storage_.is_empty(url_)) return there;
    storage_.list(url_, [&](const Storage::Object& object) {
      const std::size_t slash = object.name.find('/');
      const std::string folder = object.name.substr(0, slash);
      if (slash == std::string::npos) {
        there.files.insert(object.name);
      } else if (is_checkpoint_name(folder)) {
        there.folders[folder].insert(object.name.substr(slash + 1));
      }
    });
    return there;
  }

  std::string pointed_to(const std::string& pointer, const Objects& there) const {
    if (!there.files.contains(pointer)) return {};
    const std::string text = text_of(join_url(url_, pointer));
    return text.substr(0, text.find('\n'));
  }

  // The manifest goes first, so that a half-removed checkpoint never looks whole.
  void remove(const std::string& name, const Files& files) const {
    if (is_whole(files)) storage_.remove(url_of(name, kManifestFile));
    for (const std::string& file : files) {
      if (file != kManifestFile) storage_.remove(url_of(name, file));
    }
  }

  const std::string url_;
  Storage& storage_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> checkpoint_place(const fs::path& where, Storage* storage) {
  if (storage == nullptr) return std::make_unique<CheckpointFolder>(where);
  return std::make_unique<CheckpointObjects>(where.string(), *storage);
}

}  // namespace millrace
