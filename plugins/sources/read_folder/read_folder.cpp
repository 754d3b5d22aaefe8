#include "read_folder.h"

#include <fmt/format.h>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

// Describes an error in a pattern: its place, and advice if other dialects accept it.
std::string fault_of(const RE2& pattern) {
  std::string text = pattern.error();
  if (pattern.error_arg() != pattern.pattern())
    text += fmt::format(" at character {}", pattern.pattern().find(pattern.error_arg()) + 1);
  if (pattern.error_code() == RE2::ErrorBadPerlOp || pattern.error_code() == RE2::ErrorBadEscape)
    text += "; lookahead, lookbehind and backreferences are not known, and a named group is (?P<name>...)";
  return text;
}

// RE2 is linear in the path's length: no pattern can make a listing hang.
std::unique_ptr<const RE2> label_pattern(const std::optional<std::string>& text) {
  if (!text) return nullptr;
  auto pattern = std::make_unique<const RE2>(*text, RE2::Quiet);
  if (!pattern->ok()) fail(ErrorKind::usage, "label: '{}' is no regular expression: {}", *text, fault_of(*pattern));
  if (pattern->NumberOfCapturingGroups() == 0) {
    fail(ErrorKind::usage, "label: '{}' has no group: put parentheses around the part that names the class, as in '(cat|dog)'",
         *text);
  }
  return pattern;
}

}  // namespace

void ReadFolder::describe(StageDescription<Params>& d) {
  d.name("read_folder").text("Reads image files; their folder, or a part of their path, is their class.");
  d.params.add("path", &Params::path).required().text("folder with one subfolder per class; a path or a URL");
  d.params.add("extensions", &Params::extensions).text("extensions of image files, in any case; jpeg includes .jpe and .jfif");
  d.params.add("classes", &Params::classes)
      .text(
          "names and order of the classes; default: folder names, sorted bytewise. Required if a data set lacks folders of "
          "another");
  d.params.add("label", &Params::label)
      .text("regular expression (RE2 syntax); its first group in the path below the folder is the class");
  d.params.add("labels", &Params::labels)
      .choices({"path", "none"})
      .text("source of classes: path (its first folder, or `label`); none: images lie anywhere, without class");
  d.params.add("leave_out", &Params::leave_out)
      .text("files and folders to skip, by path below the folder: \"drafts\", \"*/thumbs\"; * matches any text, ? any character");
  SourceParams::describe(d.params);
}

ReadFolder::ReadFolder(const Params& params, const StageSite& site)
    : Source(params),
      options_{params.path,
               Extensions(params.extensions),
               params.classes,
               label_pattern(params.label),
               params.labels == "path",
               params.leave_out,
               fmt::format("{}.{}", site.graph, site.name)},
      root_(join_url(params.path, "")),
      run_(site.run),
      storage_(storage_for(site, "path", params.path, Storage::Kind::folder)) {
  ClassNumbers twice(params.classes);  // throws
  if (!options_.labelled && options_.label) {
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: take one of them out");
  }
}

void ReadFolder::open() {
  listing_ = list_images(storage_, options_);
  if (run_ == nullptr) return;
  if (!listing_.left_out.empty()) run_->warn(listing_.left_out.text(options_.root));
  if (!listing_.unused_patterns.empty()) run_->warn(listing_.unused_patterns);
  if (listing_.folders_of_folders > 0) warn_of_folders();
  if (!options_.labelled) return;
  if (!listing_.masks.empty()) warn_of_masks();
  listing_.masks = {};
  const std::string lacking = classes_without("image", listing_.classes, listing_.counts, options_.root);
  if (!lacking.empty()) run_->warn(lacking);
}

// Happens if `path` is the folder above `train` and `val`: these would become classes.
void ReadFolder::warn_of_folders() const {
  const std::size_t number = listing_.folders_of_folders, folders = listing_.folders;
  const std::string which = number < folders ? fmt::format("{} of the {} class folders", number, folders)
                            : folders == 1   ? "the one class folder"
                                             : fmt::format("all {} class folders", folders);
  run_->warn(
      fmt::format("{} in '{}' {} folders alone, such as '{}': {} label = '^([^/]+)/' says that they are classes", which,
                  options_.root, number == 1 ? "holds" : "hold", line_text(listing_.folder_of_folders),
                  number < folders ? "`leave_out` leaves out what is no class, and" : "is `path` one level too high? If not,"));
}

void ReadFolder::warn_of_masks() const {
  const std::string names = fmt::format("[\"{}\"]", line_text(fmt::format("{}", fmt::join(listing_.mask_names, "\", \""))));
  run_->warn(
      fmt::format("'{0}' has files named as masks of photographs beside them, {1} in all, such as '{2}', which are read as "
                  "photographs: leave_out = {3} leaves them out, with data.path --set 'data.leave_out={3}'",
                  options_.root, listing_.masks.size(), line_text(listing_.masks.front()), names));
}

std::uint64_t ReadFolder::listing_hash() const { return combine(listing_.paths.hash(), Source::listing_hash()); }

bool ReadFolder::place(std::uint64_t index, SampleOrigin& origin) const {
  origin.url.assign(root_);
  listing_.paths.append(index, origin.url);
  return true;
}

void ReadFolder::read(Sample& sample) {
  sample.label = listing_.labels[sample.key.index];
  place(sample.key.index, sample);
  read_sample_file(storage_, sample.url, sample.encoded);
}

}  // namespace millrace

MILLRACE_PLUGIN("read_folder", "1.1", "Images in folders named after their classes.") {
  registry.add_stage<millrace::ReadFolder>();
}
