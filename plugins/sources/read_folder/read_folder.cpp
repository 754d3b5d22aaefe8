#include "read_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <ranges>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/util/data_names.h"
#include "millrace/util/pattern.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

// The parsed name of a label image: "1" for "1_mask_2.png", and "*_mask_?.*" for all with this ending.
struct MaskName {
  std::string photograph, pattern;
};
std::optional<MaskName> mask_name(std::string_view path) {
  constexpr std::array<std::string_view, 7> kEndings = {"_mask",  "_masks",  "_seg",        "_segmentation",
                                                        "_label", "_labels", "_groundtruth"};
  constexpr std::string_view kDigits = "0123456789";
  std::string stem(path.substr(0, path.rfind('.'))), number;
  const std::size_t end = stem.find_last_not_of(kDigits);
  if (end != stem.npos && end + 1 < stem.size() && stem[end] == '_') {
    number = "_" + std::string(stem.size() - end - 1, '?');
    stem.resize(end);
  }
  const std::string name = lower_case(stem);
  for (const std::string_view ending : kEndings) {
    if (!name.ends_with(ending)) continue;
    const std::size_t at = stem.size() - ending.size();
    return MaskName{stem.substr(0, at), fmt::format("*{}{}.*", stem.substr(at), number)};
  }
  return std::nullopt;
}

// True if the sorted paths contain this name with any extension.
bool has_stem(const PathList& paths, const std::string& stem) {
  const std::string begin = stem + '.';
  const auto all = std::views::iota(std::size_t{0}, paths.size());
  const auto first = std::ranges::partition_point(all, [&](std::size_t i) { return paths[i] < begin; });
  return first != all.end() && paths[*first].starts_with(begin);
}

class Lister {
 public:
  explicit Lister(const ListingOptions& options) : options_(options), numbers_(options.classes) {}

  void add(const Storage::Object& object) {
    if (object.has_hidden && by_folder())
      return listing_.left_out.add({"folder with only hidden files", "folders with only hidden files"}, object.name);
    const bool image = options_.extensions.match(object.name);
    if (by_folder()) enter(object.name, image);
    if (!image) return leave_out(object);
    if (!stray_image_.empty()) return;
    if (options_.label) match(object.name);
    listing_.paths.add(object.name);
    listing_.labels.push_back(number_);
    listing_.bytes.push_back(saturated_size(object.bytes));
    listing_.fingerprint = combine(listing_.fingerprint, fingerprint_of(object));
    listing_.largest = std::max(listing_.largest, static_cast<std::size_t>(object.bytes));
    if (options_.labelled && mask_name(object.name)) listing_.masks.push_back(object.name);
  }

  ImageListing finish() {
    leave_folder();
    if (!stray_image_.empty()) fail_with_stray_image();
    if (!unknown_.empty()) fail_with_unknown();
    const std::string& root = options_.root;
    if (by_folder() && class_folders_ == 0 && !stray_file_.empty()) {
      const std::string remedy = remedy_for(stray_file_);
      fail(
          ErrorKind::data,
          "folder '{}' has no class folders, but {} file{} such as '{}'{}; expected one folder for each class, with images in it",
          root, stray_files_, stray_files_ == 1 ? "" : "s", line_text(stray_file_), remedy.empty() ? "" : ", " + remedy);
    }
    if (by_folder() && class_folders_ == 0) {
      fail(ErrorKind::data, "folder '{}' is empty: expected one folder for each class, with images in it", root);
    }
    if (listing_.labels.empty()) fail_without_images();
    listing_.paths.finish();
    keep_masks_of_photographs();
    listing_.labels.shrink_to_fit();
    listing_.bytes.shrink_to_fit();
    numbers_.finish(listing_.labels);
    listing_.classes = numbers_.names();
    listing_.counts = numbers_.counts();
    return std::move(listing_);
  }

 private:
  bool by_folder() const { return options_.labelled && !options_.label; }

  // A name alone proves nothing: photographs of faces with and without masks have such names too.
  void keep_masks_of_photographs() {
    std::erase_if(listing_.masks, [&](const std::string& path) {
      const auto name = mask_name(path);
      if (!has_stem(listing_.paths, name->photograph)) return true;
      listing_.mask_names.insert(name->pattern);
      return false;
    });
  }

  [[noreturn]] void fail_without_images() const {
    const std::string where =
        !by_folder() ? "" : fmt::format("the {} class folder{} of ", class_folders_, class_folders_ == 1 ? "" : "s");
    fail(ErrorKind::data, "no image in {}'{}': expected files that end in {}{}", where, options_.root, options_.extensions.text(),
         listing_.left_out.empty() ? "" : ", and there are " + listing_.left_out.list() + "; `extensions` selects others");
  }

  [[noreturn]] void fail_with_stray_image() const {
    const std::string remedy =
        "set `label` to the part of a path that names the class; labels = \"none\" reads images without classes";
    if (class_folders_ > 0) {
      fail(ErrorKind::data, "image '{}' is next to the class folders: move it into the folder of its class, or {}",
           line_text(join_url(options_.root, stray_image_)), remedy);
    }
    fail(ErrorKind::data,
         "'{0}' has images, such as '{1}', but no class folders, so they have no labels: pipeline-run --predict '{0}' --weights "
         "RUN_FOLDER predicts their classes. Or {2}",
         options_.root, line_text(stray_image_), remedy);
  }

  // Reports all at once, so that one fix suffices.
  [[noreturn]] void fail_with_unknown() const {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> folders, names;
    for (std::size_t i = 0; i < std::min(kNamed, unknown_.size()); ++i) {
      folders.push_back(fmt::format("'{}'{}", line_text(join_url(options_.root, unknown_[i])), numbers_.hint(unknown_[i])));
      names.push_back(fmt::format("\"{}\"", line_text(unknown_[i])));
    }
    const bool is_one = unknown_.size() == 1;
    const std::string more = unknown_.size() > kNamed ? fmt::format(" and {} more", unknown_.size() - kNamed) : "";
    const std::string list = fmt::format("[{}{}]", fmt::join(names, ", "), more.empty() ? "" : ", ...");
    fail(ErrorKind::data, "{}; leave_out = {} in [{}], or --set '{}.leave_out={}', leaves {} out",
         is_one ? fmt::format("folder '{}' is not among `classes`{}", line_text(join_url(options_.root, unknown_[0])),
                              numbers_.hint(unknown_[0]))
                : fmt::format("the folders {}{} are not among `classes`", fmt::join(folders, ", "), more),
         list, options_.table, options_.table, list, is_one ? "it" : "them");
  }

  // Notes the class folder that an object lies in; folders count as classes even without images.
  void enter(const std::string& name, bool image) {
    const std::size_t slash = name.find('/');
    if (slash == name.npos) {
      const bool has_better_remedy = stray_file_.empty() || (remedy_for(stray_file_).empty() && !remedy_for(name).empty());
      if (!image && ++stray_files_ > 0 && has_better_remedy) stray_file_ = name;
      if (image && stray_image_.empty()) stray_image_ = name;
      return;
    }
    if (name.compare(0, slash, folder_) != 0) {  // files of a folder are consecutive
      leave_folder();
      folder_.assign(name, 0, slash);
      ++class_folders_;
      number_ = numbers_.add(folder_);
      if (number_ < 0) {
        unknown_.push_back(folder_);
        return;
      }
      const auto [of, is_new] = folder_of_.try_emplace(number_, folder_);
      if (!is_new && of->second != folder_) {
        fail(ErrorKind::data, "two folders of '{}' are both '{}' as text: rename one", options_.root, line_text(folder_));
      }
    }
    if (!image) return;
    const std::size_t below = name.find('/', slash + 1);
    (below == name.npos ? has_images_ : has_folders_) = true;
    if (below != name.npos && folder_below_.empty()) folder_below_ = name.substr(0, below);
  }

  void leave_folder() {
    listing_.folders += has_images_ || has_folders_ ? 1 : 0;
    if (has_folders_ && !has_images_ && listing_.folders_of_folders++ == 0) listing_.folder_of_folders = folder_below_;
    has_images_ = has_folders_ = false;
    folder_below_.clear();
  }

  void leave_out(const Storage::Object& object) {
    if (object.is_dangling) return listing_.left_out.add({"broken link", "broken links"}, object.name);
    if (object.name.ends_with('/') || !seems_to_be_an_image(object.name)) return;
    const std::string ends = options_.extensions.text();
    listing_.left_out.add({"file without the extension " + ends, "files without the extension " + ends}, object.name);
  }

  void match(const std::string& name) {
    re2::StringPiece parts[2];  // the whole, and the first group; null if it is not in the match
    if (!options_.label->Match(name, 0, name.size(), RE2::UNANCHORED, parts, 2) || parts[1].data() == nullptr) {
      fail(ErrorKind::data, "label: the path '{}' in '{}' does not match", line_text(name), options_.root);
    }
    const std::string found(parts[1]);
    number_ = numbers_.add(found);
    if (number_ < 0) {
      fail(ErrorKind::data, "'{}' is of class '{}', which is not among `classes`{}", line_text(join_url(options_.root, name)),
           line_text(found), numbers_.hint(found));
    }
  }

  const ListingOptions& options_;
  ClassNumbers numbers_;
  ImageListing listing_;
  std::string folder_, folder_below_;              // the class folder, and the first folder in it
  bool has_images_ = false, has_folders_ = false;  // images in the class folder, and in folders below
  std::size_t class_folders_ = 0, stray_files_ = 0;
  std::vector<std::string> unknown_;               // class folders that are not among the given classes
  std::string stray_image_;                        // the first image next to class folders
  std::string stray_file_;                         // the most telling one of the files next to class folders
  std::map<std::int32_t, std::string> folder_of_;  // by class: names may be equal as text though their bytes differ
  std::int32_t number_ = -1;
};

// Throws ErrorKind::data if there is nothing to train on, and the errors of Storage::list().
ImageListing list_images(Storage& storage, const ListingOptions& options) {
  Lister lister(options);
  LeavesOut leaves_out(options.leave_out);
  storage.list_without(options.root, std::ref(leaves_out), [&lister](const Storage::Object& object) { lister.add(object); });
  ImageListing listing = lister.finish();
  listing.unused_patterns = leaves_out.unused(options.root);
  return listing;
}

// Describes an error in a pattern: its place, and advice if other dialects accept it.
std::string fault_of(const RE2& pattern) {
  std::string text = pattern.error();
  if (pattern.error_arg() != pattern.pattern())
    text += fmt::format(" at character {}", pattern.pattern().find(pattern.error_arg()) + 1);
  if (pattern.error_code() == RE2::ErrorBadPerlOp || pattern.error_code() == RE2::ErrorBadEscape)
    text += "; lookahead, lookbehind and backreferences are not supported, and a named group is (?P<name>...)";
  return text;
}

// RE2 is linear in the path's length: no pattern can make a listing hang.
std::unique_ptr<const RE2> label_pattern(const std::optional<std::string>& text) {
  if (!text) return nullptr;
  auto pattern = std::make_unique<const RE2>(*text, RE2::Quiet);
  if (!pattern->ok()) fail(ErrorKind::usage, "label: '{}' is not a regular expression: {}", *text, fault_of(*pattern));
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
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: remove one of them");
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
  run_->warn(fmt::format(
      "{} in '{}' {} only folders, such as '{}': {} label = '^([^/]+)/' makes them classes", which, options_.root,
      number == 1 ? "holds" : "hold", line_text(listing_.folder_of_folders),
      number < folders ? "`leave_out` skips folders that are not classes, and" : "is `path` one level too high? If not,"));
}

void ReadFolder::warn_of_masks() const {
  const std::string names = fmt::format("[\"{}\"]", line_text(fmt::format("{}", fmt::join(listing_.mask_names, "\", \""))));
  run_->warn(
      fmt::format("'{0}' has {1} files named like masks of other photographs, such as '{2}', which are read as photographs: "
                  "leave_out = {3} skips them; with data.path, --set 'data.leave_out={3}' does",
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
