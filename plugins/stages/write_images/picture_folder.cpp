#include "picture_folder.h"

#include <fmt/format.h>
#include <png_file.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "millrace/storage.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr std::size_t kLongestName = 255 - 12;  // limit of Linux's file systems, minus OutputFile's addition during writing

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // none: rfind() + 1 is 0

// Without its extension.
std::string_view stem_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 || name[dot - 1] == '/' ? name : name.substr(0, dot);
}

// A path that stays within the folder.
std::string inside(const std::string& path) {
  std::filesystem::path kept;
  for (const auto& part : std::filesystem::path(path).lexically_normal().relative_path()) {
    if (part != ".." && part != ".") kept /= part;
  }
  return kept.string();
}

}  // namespace

void PictureFolder::check_names(const NamesFilesAfterSamples::NextSample& next) const {
  Names taken;
  Predictions::Sample sample;
  while (next(sample)) {
    const std::size_t bytes = last_of(file_of(sample, taken)).size();
    if (bytes <= kLongestName) continue;
    std::string place;
    sample.append_place(place);
    fail(ErrorKind::usage,
         "the picture of '{}' would have a name of {} bytes, and files may have {}: give the image a shorter one", place, bytes,
         kLongestName);
  }
}

void PictureFolder::open(const DataContext& context) {
  folder_ = output_folder(context, "folder", params_.folder, "1.png");
  run_ = context.run;
  images_ = context.samples_per_epoch;
}

void PictureFolder::write(const Predictions::Sample& sample, const ImageView& image, const std::uint8_t* palette) {
  OutputFile file(folder_ + '/' + file_of(sample, taken_), OutputFile::Sync::later);
  file.write(png_bytes(image, palette));
  file.commit();
  ++written_;
}

void PictureFolder::end_pass() {
  taken_.clear();
  if (std::exchange(written_, 0) > 0) sync_files(folder_);
}

void PictureFolder::stop() noexcept {
  if (written_ == 0 || run_ == nullptr) return;
  try {
    run_->warn(fmt::format("'{}' is incomplete: {} pictures{} were written", folder_, written_,
                           images_ > 0 ? fmt::format(" of {} images", images_) : ""));
  } catch (...) {  // the run has already ended with another error
  }
  written_ = 0;
}

// The name of a file or an archive member.
std::string PictureFolder::name_of(const Predictions::Sample& sample) const {
  const std::string& place = sample.member.empty() ? sample.url : sample.member;
  if (params_.names != "path") return std::string(last_of(place));
  const std::string below = join_url(params_.below, "");
  if (sample.member.empty() && !params_.below.empty() && place.starts_with(below)) return inside(place.substr(below.size()));
  const std::size_t scheme = place.find("://");
  return inside(scheme == std::string::npos ? place : place.substr(scheme + 3));
}

std::string PictureFolder::file_of(const Predictions::Sample& sample, Names& taken) const {
  const std::string name = name_of(sample);
  const std::string_view stem = stem_of(name);
  if (params_.names == "number") return fmt::format("{:08}-{}.png", sample.key.index, stem);
  std::string file = fmt::format("{}.png", stem);
  if (taken.insert(hash_text(stem)).second) return file;
  if (params_.names == "path" && taken.insert(hash_text(name)).second) return fmt::format("{}.png", name);
  std::string place;
  sample.append_place(place);
  fail(ErrorKind::usage, "'{}' and a sample before it would both be written as '{}/{}': set names = \"number\"{}", place,
       folder_.empty() ? params_.folder : folder_, file, params_.names == "stem" ? " or \"path\"" : "");
}

}  // namespace millrace
