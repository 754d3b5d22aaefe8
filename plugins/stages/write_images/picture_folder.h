#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "millrace/batch.h"
#include "millrace/params.h"
#include "millrace/stage.h"

namespace millrace {

// Parameters of stages that write a PNG file for each sample.
struct PictureParams {
  std::string folder;
  std::string names = "stem";
  std::string below;

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("folder", &Params::folder).text("folder in the run's folder, or an absolute path");
    set.add("names", &Params::names)
        .choices({"stem", "number", "path"})
        .text(
            "file names. stem: a/7.jpg becomes 7.png; number: 00000041-7.png, with the sample's number in the source; path: "
            "a/7.png, in folders as below `below`")
        .in_recipes();
    set.add("below", &Params::below)
        .text("names = \"path\": folder or URL whose subfolders are kept; images elsewhere keep their path");
  }
};

// A folder of PNG files, one for each sample. A file appears under its name when it is complete; a pass's files are synced to
// disk together at its end. Errors name the file, or the sample with a duplicate name; with names = "path" and 7.jpg and 7.png in
// one folder, the second becomes 7.png.png. Memory: about 40 bytes for each file of a pass. Not thread-safe.
class PictureFolder {
 public:
  explicit PictureFolder(const PictureParams& params) : params_(params) {}

  // Throws Error(usage) if two samples of a pass would use one file; see NamesFilesAfterSamples.
  void check_names(const NamesFilesAfterSamples::NextSample& next) const;
  void open(const DataContext& context);  // throws if the folder is not writable; creates nothing
  // `palette`: 256 colours of three bytes if the image's values index them, else null.
  void write(const Predictions::Sample& sample, const ImageView& image, const std::uint8_t* palette = nullptr);
  void end_pass();
  void stop() noexcept;  // called when the stage stops; warns if pictures of a pass are missing

 private:
  using Names = std::unordered_set<std::uint64_t>;  // hashes

  // The path within the folder. `taken`: names of earlier samples.
  std::string file_of(const Predictions::Sample& sample, Names& taken) const;
  std::string name_of(const Predictions::Sample& sample) const;  // with folders and extension

  const PictureParams params_;
  std::string folder_;
  RunServices* run_ = nullptr;
  std::uint64_t images_ = 0;   // images in the source; 0 if unknown
  std::uint64_t written_ = 0;  // in this pass
  Names taken_;                // in this pass
};

}  // namespace millrace
