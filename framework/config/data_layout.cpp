#include "config/data_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "config/data_parts.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/data_names.h"
#include "millrace/util/files.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"
#include "util/shell.h"

namespace millrace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

namespace {

constexpr std::array<std::string_view, 2> kTrain = {"train", "training"};  // folders of images and masks
constexpr std::array<std::string_view, 5> kValidate = {"val", "valid", "validation", "test", "testing"};
// Folder names without case and separators: Ground_Truth is "groundtruth". If several exist, the first with images is used.
constexpr std::array<std::string_view, 9> kImageFolders = {"images", "image",  "imgs",   "img",     "jpegimages",
                                                           "rgb",    "frames", "photos", "pictures"};
constexpr std::array<std::string_view, 12> kMaskFolders = {
    "masks", "mask",          "labels",      "label",       "gt", "annotations", "segmentationclass", "segmentationclasspng",
    "annot", "segmentations", "groundtruth", "segmentation"};
constexpr std::array<std::string_view, 7> kMaskEndings = {"_mask", "_masks", "_label", "_labels", "_seg", "_gt", "_L"};
constexpr std::array<std::string_view, 5> kHolds = {"classes", "masks", "images", "numbers", "labels"};
constexpr const char* kListsOfVoc = "ImageSets/Segmentation";
// Keys of [data] for all parts; those of lists apply unless the file refers to them as its own variables.
constexpr std::array<const char*, 7> kKeysOfSources = {"classes", "label", "leave_out", "unpaired", "empty", "samples", "margin"};
constexpr std::array<const char*, 5> kKeysOfLists = {"file", "root", "ending", "format", "encoding"};

bool is_elsewhere(const std::string& path) { return url_scheme(path) != "file"; }
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}
// Removes differences of case and of word separators from a name.
std::string letters_of(std::string_view name) {
  std::string letters = lower_case(name);
  std::erase_if(letters, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return letters;
}

// Takes the longest of the words that a name begins or ends with. False: it is none of them with something more.
bool take_word(std::string& name, const auto& words) {
  std::string_view longest;
  for (const std::string_view word : words) {
    const bool is_there = name.size() > word.size() && (name.ends_with(word) || name.starts_with(word));
    if (is_there && word.size() > longest.size()) longest = word;
  }
  if (!longest.empty()) name.erase(name.ends_with(longest) ? name.size() - longest.size() : 0, longest.size());
  return !longest.empty();
}

// nnU-Net names each image after its channel, case_0000.png, and a mask after the case alone.
std::string advice_on_nnunet(const std::string& root, const std::string& images, const std::string& labels) {
  return fmt::format(
      "'{}' is laid out for nnU-Net, whose images are named after their channels, as case_0000.png of case.png. Images of one "
      "channel are read with stage = \"read_pairs\", images = \"{}\", image_suffix = \"_0000\" and labels = \"{}\" in "
      "[train.read] and [validate.read], and with part = [0, 0.9] in the first and part = [0.9, 1] in the second",
      line_text(root), line_text(images), line_text(labels));
}

// "data/train-[0-9]*.tar" of data/train-000000.tar: all shards whose names have other digits.
std::string shard_pattern(const fs::path& shard) {
  std::string pattern;
  for (const char c : shard.filename().string()) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      pattern += c;
    else if (!pattern.ends_with('*'))
      pattern += "[0-9]*";
  }
  return (shard.parent_path() / pattern).string();
}

// The content of a folder: its folders, and its files by their endings.
struct Contents {
  std::size_t folders = 0;
  std::map<std::string, std::vector<std::string>> files;

  Contents(const std::string& folder, const std::vector<DataEntry>& entries) {
    for (const DataEntry& entry : entries) {
      if (entry.is_folder)
        ++folders;
      else
        files[lower_case(fs::path(entry.name).extension().string())].push_back(join_url(folder, entry.name));
    }
  }
  // 1.jpg and 1.png: a photograph and its label image, which is never a JPEG (read_pairs).
  bool has_photographs_with_png() const {
    std::set<std::string> stems;
    for (const char* ending : {".jpg", ".jpeg"}) {
      if (!files.contains(ending)) continue;
      for (const std::string& file : files.at(ending)) stems.insert(fs::path(file).stem().string());
    }
    const auto png = files.find(".png");
    const auto is_pair = [&](const std::string& file) { return stems.contains(fs::path(file).stem().string()); };
    return png != files.end() && std::ranges::any_of(png->second, is_pair);
  }
  // The only list in it, if there is exactly one.
  std::optional<std::string> list() const {
    std::optional<std::string> found;
    for (const std::string_view ending : kListEndings) {
      const auto at = files.find(std::string(ending));
      if (at == files.end()) continue;
      if (found || at->second.size() > 1) return std::nullopt;
      found = at->second.front();
    }
    return found;
  }
};

// A part of the data: the stage that reads it, and its keys.
struct Part {
  std::string stage;
  std::vector<std::pair<std::string, std::string>> keys;
};

Part pairs(const std::string& images, const std::string& labels) {
  return {"read_pairs", {{"images", images}, {"labels", labels}}};
}

struct Layout {
  Part train, validate;
  bool is_one = false;  // both parts have the same samples, which must be split
};

class Finder {
 public:
  // `reads`: the tables of stages without a type.
  Finder(const Value& root, const std::vector<const Value*>& reads, const Registry& registry, std::set<std::string>& referred,
         Diagnostics& errors, std::vector<std::string>& warnings)
      : root_(root),
        data_(*root.find("data")),
        file_(root.at()),
        reads_(reads),
        variables_(referred),
        places_(registry),
        referred_(referred),
        errors_(errors),
        warnings_(warnings),
        holds_(text("holds")) {}

  // Empty after a mistake, which is in errors_.
  std::optional<Layout> find() {
    if (!holds_.empty() && std::ranges::find(kHolds, holds_) == kHolds.end()) {
      errors_.add(data_.find("holds")->at(),
                  fmt::format("'holds' must be one of \"{}\", found \"{}\"", fmt::join(kHolds, "\", \""), holds_));
      return std::nullopt;
    }
    const std::string path = text("path"), train = text("train"), validate = text("validate");
    referred_.insert("data.annotations");
    const Value* const annotations = data_.find("annotations");
    if (!names_targets(annotations != nullptr)) return std::nullopt;
    if (annotations != nullptr) return annotated(*annotations, path, train, validate);
    if (!train.empty() && !validate.empty()) return apart(train, validate);  // they may be derived from `path`
    if (!train.empty() && !path.empty()) {
      errors_.add(data_.find("train")->at(), "'train' and 'path' both say where the images for training are: give one of them");
      return std::nullopt;
    }
    if (!train.empty()) return shared(train);
    if (path.empty()) {
      if (report_misspelt_path()) return std::nullopt;
      errors_.add(
          file_,
          "[data] needs 'path': the folder, list, shards or URL of the images; on the command line --set data.path=photos");
      return std::nullopt;
    }
    const std::size_t before = errors_.size();
    auto found = !is_list(path) && !is_shard(path) && places_.is_folder(path) ? in_folder(path) : std::nullopt;
    if (!found && errors_.size() == before) found = shared(path);
    return found && !validate.empty() ? validated_on(validate, *found) : found;
  }

  // Keys of [data] for the source of a part.
  std::vector<Member> keys_of(const Part& part, const Registry& registry) {
    std::vector<Member> keys;
    const StageType* const type = registry.stages().find(part.stage);
    const auto add = [&](const std::string& key) {
      if (type == nullptr || std::ranges::find(type->params, key, &ParamInfo::name) == type->params.end()) return;
      referred_.insert("data." + key);
      if (const Value* const value = data_.find(key)) keys.push_back({key, value->at(), *value});
    };
    for (const char* key : kKeysOfSources) add(key);
    for (const std::string key : kKeysOfLists) {
      if (!variables_.contains("data." + key)) add(key);
    }
    return keys;
  }

  // Warns of keys that the chosen stages do not have.
  void warn_of_keys_without_effect(const Layout& layout) {
    for (const std::string key : kKeysOfLists) {
      const Value* const value = data_.find(key);
      if (value == nullptr || referred_.contains("data." + key)) continue;
      warnings_.push_back(fmt::format("{}: '{}' in [data] has no effect: {} reads the images, and only lists have this key",
                                      to_string(value->at()), key, layout.train.stage));
    }
  }

  double held_out() {
    const Value* value = data_.find("held_out");
    referred_.insert("data.held_out");
    if (value == nullptr) return 0.1;
    if (value->is_number() && value->number() > 0 && value->number() < 1) return value->number();
    errors_.add(value->at(), fmt::format("'held_out' must be a share above 0 and below 1, found {}", found(*value)));
    return 0.1;
  }

  // Position of the setting that locates a graph's images.
  Position position(bool trains = true) const {
    for (const char* key : {"validate", "path", "train"}) {
      const Value* const value = data_.find(key);
      if (value != nullptr && !(trains && key == std::string_view("validate"))) return value->at();
    }
    return data_.at();
  }

 private:
  std::string text(const char* key) {
    const Value* value = data_.find(key);
    referred_.insert(std::string("data.") + key);
    if (value == nullptr) return {};
    if (value->kind() == Value::Kind::text) return file_url_path(value->text());
    errors_.add(value->at(), fmt::format("'{}' must be text, found {}", key, found(*value)));
    return {};
  }

  // Reports a misspelt path key of [data], if there is one.
  bool report_misspelt_path() {
    for (const Member& member : data_.table()) {
      if (member.key == "path" || !nearest_name(member.key, {"path"})) continue;
      errors_.add(member.at, fmt::format("'{}' means nothing in [data]; nearest is 'path'", member.key));
      return true;
    }
    for (const Member& table : root_.table()) {
      const bool is_meant = table.key != "data" && table.value.kind() == Value::Kind::table && nearest_name(table.key, {"data"});
      if (!is_meant || (!table.value.find("path") && !table.value.find("train"))) continue;
      errors_.add(table.at, fmt::format("[{}] means nothing here; nearest is [data]", table.key));
      return true;
    }
    return false;
  }

  // The key's value in [data], or in the table of a stage without a type.
  const Value* setting(const char* key) const {
    const Value* const value = data_.find(key);
    if (value != nullptr && !variables_.contains(std::string("data.") + key)) return value;
    for (const Value* const table : reads_) {
      if (const Value* const setting = table->find(key)) return setting;
    }
    return nullptr;
  }

  Parts parts_in(const std::string& folder) { return parts_of(folder, places_.in(folder)); }
  Contents contents_of(const std::string& folder) { return {folder, places_.in(folder)}; }

  // The first of these names that is a subfolder; one with images or folders in it is preferred.
  std::optional<std::string> named_in(const std::string& folder, const auto& names) {
    std::optional<std::string> first;
    for (const std::string_view name : names) {
      for (const DataEntry& entry : places_.in(folder)) {
        if (!entry.is_folder || letters_of(entry.name) != name) continue;
        const std::string path = join_url(folder, entry.name);
        const auto is_data = [](const DataEntry& each) { return each.is_folder || usual_images().match(each.name); };
        if (std::ranges::any_of(places_.in(path), is_data)) return path;
        if (!first) first = path;
      }
    }
    return first;
  }

  // An existing part that cannot be read must not be replaced silently by a share of the others. Returns true if it is an error.
  bool report_unread(const Parts& parts, const std::string& train, const std::string& validate) {
    const bool has_train = !train.empty();
    if (!has_train && validate.empty()) return false;
    const Unread* const unread =
        has_train ? parts.meant(DataPart::validate, validate, train) : parts.meant(DataPart::train, train, validate);
    if (unread == nullptr || (has_train && !text("validate").empty())) return false;
    const std::string what = fmt::format("'{}' {}. It seems to hold images for {}", line_text(unread->path), unread->why,
                                         has_train ? "validation" : "training");
    if (unread->sort == Unread::Sort::text) {
      warnings_.push_back(fmt::format("{}: {}, and is not read", to_string(position()), what));
      return false;
    }
    const std::string instead = !has_train ? "" : validate.empty() ? "; without it a share of '" + train + "' validates" : "";
    errors_.add(position(),
                fmt::format("{}: repair or move it{}, or name both parts with data.train and data.validate instead of data.path",
                            what, line_text(instead)));
    return true;
  }

  // Whether [data] names the classes that masks need, or the columns of a list. Base files have empty ones.
  bool names_targets(bool is_annotated) {
    const bool lacks_names = holds_ == "masks" && !is_annotated;  // annotations name their classes
    const char* const key = lacks_names ? "classes" : holds_numbers() ? "columns" : nullptr;
    const Value* const names = key != nullptr ? data_.find(key) : nullptr;
    if (names == nullptr || names->kind() != Value::Kind::array || !names->array().empty()) return true;
    errors_.add(
        file_,
        holds_ == "masks"
            ? R"([data] needs 'classes': what masks tell apart, by their values, such as classes = [{ name = "road" }, { name = "car", ids = [7] }])"
            : R"([data] needs 'columns': those of the list that are learned, such as columns = ["age"]; on the command line --set 'data.columns=["age"]')");
    return false;
  }

  bool holds_numbers() const { return holds_ == "numbers" || holds_ == "labels"; }

  // Annotations next to the images: of all parts, or of each part. A folder may have a file or folder for each part.
  std::optional<Layout> annotated(const Value& annotations, const std::string& path, const std::string& train,
                                  const std::string& validate) {
    if (holds_ == "images") {
      errors_.add(annotations.at(), "'annotations' has no effect: the targets are images");
      return std::nullopt;
    }
    const auto part_of = [&](const char* key) -> std::optional<std::string> {
      const Value* const value = annotations.kind() == Value::Kind::table ? annotations.find(key) : &annotations;
      if (value != nullptr && value->kind() == Value::Kind::text) return file_url_path(value->text());
      errors_.add(annotations.at(),
                  fmt::format("'annotations' must be a file or folder, or {{ train = \"...\", validate = \"...\" }}, found {}",
                              value != nullptr ? found(*value) : found(annotations)));
      return std::nullopt;
    };
    auto first = part_of("train");
    auto second = first ? part_of("validate") : std::nullopt;
    if (!second) return std::nullopt;
    const std::string& images = train.empty() ? path : train;
    const std::string& others = validate.empty() ? images : validate;
    if (images.empty()) {
      errors_.add(file_, "[data] needs 'path': the folder of the images that 'annotations' names");
      return std::nullopt;
    }
    if (*first == *second && places_.is_folder(*first)) {
      const Parts parts = annotations_of_parts(*first);
      const auto [of_train, of_validate] = parts.pair();
      if (!of_train.empty() && !of_validate.empty()) {
        first = of_train;
        second = of_validate;
      }
    }
    const std::string target = holds_ == "masks"     ? "map"
                               : holds_ == "labels"  ? "labels"
                               : holds_ == "numbers" ? "counts"
                                                     : "class";
    const auto of = [&](const std::string& in, const std::string& from) {
      return Part{"read_annotations", {{"images", in}, {"annotations", from}, {"target", target}}};
    };
    Layout layout{of(images, *first), of(others, *second), *first == *second && images == others};
    const auto [of_train, of_validate] = layout.is_one ? parts_in(images).pair() : std::pair<std::string, std::string>();
    const auto is_folder = [&](const std::string& each) { return !each.empty() && places_.is_folder(each); };
    if (!is_folder(of_train) || !is_folder(of_validate)) return layout;
    layout.train.keys.emplace_back("folder", of_train.substr(of_train.rfind('/') + 1));
    layout.validate.keys.emplace_back("folder", of_validate.substr(of_validate.rfind('/') + 1));
    layout.is_one = false;
    return layout;
  }

  // Files and folders named after parts, also behind another word: instances_train2017.json.
  Parts annotations_of_parts(const std::string& folder) {
    Parts parts;
    for (const DataEntry& entry : places_.in(folder)) {
      const fs::path name = entry.name;
      const bool may_be =
          entry.is_folder || name.extension() == ".json" || name.extension() == ".xml" || name.extension() == ".csv";
      if (!may_be || !entry.fault.empty()) continue;
      std::string stem = name.stem().string();
      constexpr std::string_view kInstances = "instances_";
      if (stem.starts_with(kInstances)) stem.erase(0, kInstances.size());
      parts.add(stem, join_url(folder, entry.name), entry.is_folder);
    }
    return parts;
  }

  // Parts with folders, or lists, of their own.
  std::optional<Layout> in_folder(const std::string& path) {
    if (holds_ == "masks") return masks_in(path);
    const Parts parts = parts_in(path);
    const auto [train, validate] = parts.pair();
    if (!train.empty() && is_list_of_a_folder(train, parts.list_next_to(train))) return std::nullopt;
    if (report_unread(parts, train, validate)) return std::nullopt;
    if (!train.empty() && !validate.empty()) {
      warn_of_unused_folders(train, validate, parts);
      return has_no_labels(validate) ? held_out_next_to(train, validate) : apart(train, validate);
    }
    const Contents contents = contents_of(path);
    // A folder among others may be a class: bus, car, train.
    if (!train.empty() && contents.folders <= 1) return shared(train);
    if (contents.folders == 0 && contents.files.contains(".tar")) return shards_of_parts(path);
    return std::nullopt;
  }

  void warn_of_unused_folders(const std::string& train, const std::string& validate, const Parts& parts) {
    warn_of_unused_folders(train, "is trained on", "to train on them too", parts);
    warn_of_unused_folders(validate, "validates", "to validate with them too", parts);
  }
  void warn_of_unused_folders(const std::string& read, const char* what_it_does, const char* which, const Parts& parts) {
    const std::vector<std::string> others = parts.siblings(read);
    if (others.empty() || !places_.is_folder(read)) return;
    warnings_.push_back(fmt::format("{}: only '{}' {}, and '{}' {} left out: move images into it {}", to_string(position()),
                                    line_text(read), what_it_does, line_text(fmt::format("{}", fmt::join(others, "', '"))),
                                    others.size() == 1 ? "is" : "are", which));
  }

  // Whether a folder has images, and neither folders of classes nor a list.
  bool has_no_labels(const std::string& path) {
    const Value* const label = setting("label");  // an expression derives classes from any paths
    const bool has_expression =
        label != nullptr && label->kind() == Value::Kind::text && label->text().find('(') != std::string::npos;
    if (holds_ == "images" || has_expression || is_list(path) || !places_.is_folder(path)) return false;
    const Contents contents = contents_of(path);
    const auto are_images = [](const auto& alike) { return usual_images().match(alike.second.front()); };
    return contents.folders == 0 && std::ranges::any_of(contents.files, are_images) && !contents.list();
  }

  // `test` has images without labels, as in Kaggle's competitions: a part of `train` validates instead.
  std::optional<Layout> held_out_next_to(const std::string& train, const std::string& test) {
    warnings_.push_back(
        fmt::format("{}: '{}' holds images without folders of classes, so their classes are unknown: a part of '{}' is kept for "
                    "validation, and pipeline-run --predict {} --weights RUN_FOLDER predicts them",
                    to_string(position()), line_text(test), line_text(train), shell_word(test)));
    return shared(train);
  }

  // Kaggle's train.csv next to the folder train, or train_images, with images and no folders of classes. `list`: for the same
  // part; "": none, and another may be meant.
  bool is_list_of_a_folder(const std::string& images, std::string list) {
    if (!has_no_labels(images)) return false;
    const std::string folder = images.substr(0, images.rfind('/'));
    for (const DataEntry& entry : places_.in(folder)) {
      const auto part = part_name(fs::path(entry.name).stem().string());
      const bool is_other = (part && part->part != DataPart::train) || entry.name.find("submission") != std::string::npos;
      const bool may_be = list.empty() && !entry.is_folder && is_list(entry.name) && !is_other;
      if (may_be) list = join_url(folder, entry.name);
    }
    if (list.empty()) return false;
    errors_.add(position(),
                fmt::format("'{0}' holds images and no folders of classes, and '{1}' next to it is a list: data.path = \"{1}\" "
                            "reads it, with data.root = \"{0}\" if its file names lack the folder; data.file and data.label name "
                            "its columns, and data.ending = \".jpg\" adds a missing ending",
                            line_text(images), line_text(list)));
    return true;
  }

  // Shards of both parts in one folder: train-000000.tar, val-000000.tar.
  std::optional<Layout> shards_of_parts(const std::string& path) {
    std::set<std::string> patterns;
    bool all_are_parts = true;
    for (const DataEntry& entry : places_.in(path)) {
      if (is_shard(entry.name)) patterns.insert(shard_pattern(join_url(path, entry.name)));
    }
    Parts parts;
    bool has_part = false;
    for (const std::string& pattern : patterns) {
      const std::string name = fs::path(pattern).stem().string();
      has_part = has_part || part_name(name);
      all_are_parts = all_are_parts && part_name(name);
      parts.add(name, pattern, false);
    }
    if (patterns.size() < 2 || !has_part) return std::nullopt;
    const auto [train, validate] = parts.pair();
    if (all_are_parts && !train.empty() && !validate.empty())
      return Layout{Part{"read_tar", {{"path", train}}}, Part{"read_tar", {{"path", validate}}}, false};
    errors_.add(position(), fmt::format("'{}' holds shards of several parts, '{}': choose with data.train = \"{}\" and "
                                        "data.validate = \"...\" instead of data.path",
                                        line_text(path), line_text(fmt::format("{}", fmt::join(patterns, "', '"))),
                                        line_text(train.empty() ? *patterns.begin() : train)));
    return std::nullopt;
  }

  std::optional<Layout> apart(const std::string& train, const std::string& validate) {
    const auto first = part(train);
    const auto second = first ? part(validate) : std::nullopt;
    if (!second) return std::nullopt;
    return Layout{*first, *second, false};
  }
  // With images for validation outside `path`, which replace those in it.
  std::optional<Layout> validated_on(const std::string& validate, const Layout& found) {
    const auto second = part(validate);
    if (!second) return std::nullopt;
    return Layout{found.train, *second, false};
  }
  std::optional<Layout> shared(const std::string& path) {
    const auto all = part(path);
    if (!all) return std::nullopt;
    return Layout{*all, *all, true};
  }

  // The stage for a path.
  std::optional<Part> part(const std::string& path) {
    if (holds_ == "masks") return masks_side_by_side(path);
    if (holds_ == "images") return Part{"read_pairs", {{"images", path}}};
    if (is_list(path) || setting("format") != nullptr) return Part{"read_list", {{"path", path}}};
    if (lower_case(path).find(".tar") != std::string::npos) return Part{"read_tar", {{"path", path}}};
    if (!is_elsewhere(path) && is_file(path)) {
      const std::string remedy = remedy_for(path);
      errors_.add(position(),
                  fmt::format("'{}' is {}; expected a folder, a list (.csv, .tsv, .jsonl), shards (.tar) or a URL of these",
                              line_text(path), remedy.empty() ? "a file, but not a list" : remedy));
      return std::nullopt;
    }
    const Contents contents = contents_of(path);
    if (contents.files.contains(".tar") && contents.folders == 0) return Part{"read_tar", {{"path", path}}};
    const auto list = contents.list();
    if (list && (holds_numbers() || contents.folders == 0 || fs::path(*list).stem() == "metadata"))
      return Part{"read_list", {{"path", *list}}};
    if (contents.folders == 1 && !holds_numbers()) {
      const auto only = std::ranges::find_if(places_.in(path), [](const DataEntry& entry) { return entry.is_folder; });
      if (is_list_of_a_folder(join_url(path, only->name), "")) return std::nullopt;
    }
    return Part{holds_numbers() ? "read_list" : "read_folder", {{"path", path}}};
  }

  // ---- Images and their masks ----

  std::optional<Layout> masks_in(const std::string& root) {
    if (auto found = cityscapes(root)) return found;
    const auto raw = named_in(root, std::array{"imagestr"sv}), raw_labels = named_in(root, std::array{"labelstr"sv});
    if (raw && raw_labels) {
      errors_.add(position(), advice_on_nnunet(root, *raw, *raw_labels));
      return std::nullopt;
    }
    const auto train = named_in(root, kTrain), validate = named_in(root, kValidate);
    const Parts parts = parts_in(root);
    if (train && report_unread(parts, *train, validate.value_or(""))) return std::nullopt;
    if (auto found = parts_by_name(root)) return found;
    if (train) {
      warn_of_unused_folders(*train, validate.value_or(""), parts);
      return validate ? apart(*train, *validate) : shared(*train);
    }
    const auto images = named_in(root, kImageFolders), labels = named_in(root, kMaskFolders);
    if (!images || !labels) return std::nullopt;
    const auto listed = listed_parts(join_url(root, kListsOfVoc), pairs(*images, *labels));
    return listed ? listed : parts_of_pairs(*images, *labels);
  }

  // PASCAL VOC: train.txt and val.txt list images in folders shared by all parts, which also contain images without masks.
  std::optional<Layout> listed_parts(const std::string& lists, const Part& all) {
    Parts parts;
    for (const DataEntry& entry : places_.in(lists)) {
      const fs::path name = entry.name;
      if (name.extension() == ".txt") parts.add(name.stem().string(), join_url(lists, entry.name), false);
    }
    const auto [train, validate] = parts.pair();
    if (train.empty()) return std::nullopt;
    Layout layout{all, all, validate.empty()};
    layout.train.keys.emplace_back("list", train);
    layout.validate.keys.emplace_back("list", validate.empty() ? train : validate);
    return layout;
  }

  // images/train and masks/train, images/val and masks/val. If it is unclear which are meant, nothing is split: validation images
  // could otherwise be trained on.
  std::optional<Layout> parts_of_pairs(const std::string& images, const std::string& labels) {
    const Parts of_images = parts_in(images), of_labels = parts_in(labels);
    for (const Parts* each : {&of_images, &of_labels}) {
      const auto [train, validate] = each->pair();
      if (report_unread(*each, train, validate)) return std::nullopt;
    }
    if (!of_images.has_both() || !of_labels.has_both()) return std::nullopt;
    const auto [train_images, validate_images] = of_images.pair();
    const auto [train_labels, validate_labels] = of_labels.pair();
    const auto is_folder = [&](const std::string& each) { return !each.empty() && places_.is_folder(each); };
    if (is_folder(train_images) && is_folder(validate_images) && is_folder(train_labels) && is_folder(validate_labels))
      return Layout{pairs(train_images, train_labels), pairs(validate_images, validate_labels), false};
    errors_.add(position(), fmt::format("'{}' and '{}' hold several parts for training or validation: name them in [train.read] "
                                        "and [validate.read] with stage = \"read_pairs\", images, labels",
                                        line_text(images), line_text(labels)));
    return std::nullopt;
  }

  std::optional<Layout> cityscapes(const std::string& root) {
    const auto has = [&](const std::string& folder, const char* name) {
      return std::ranges::any_of(places_.in(folder), [&](const DataEntry& each) { return each.is_folder && each.name == name; });
    };
    const std::string images = join_url(root, "leftImg8bit"), labels = join_url(root, "gtFine");
    if (!has(root, "leftImg8bit") || !has(images, "train") || !has(labels, "train")) return std::nullopt;
    const auto of = [&](const char* name) {
      Part part = pairs(join_url(images, name), join_url(labels, name));
      part.keys.insert(part.keys.end(), {{"image_suffix", "_leftImg8bit"}, {"suffix", "_gtFine_labelIds"}});
      return part;
    };
    return Layout{of("train"), of("val"), false};
  }

  // Parts and what they hold in one name: train_images and train_masks, images_train and labels_train, train and trainannot.
  std::optional<Layout> parts_by_name(const std::string& root) {
    std::map<std::pair<DataPart, bool>, std::pair<int, std::string>> found;  // by part, and whether masks: rank, path
    for (const DataEntry& entry : places_.in(root)) {
      std::string name = letters_of(entry.name);
      const bool is_mask = take_word(name, kMaskFolders);
      if (!is_mask) take_word(name, kImageFolders);
      const auto part = part_name(name);
      if (!entry.is_folder || !part || !part->rest.empty()) continue;
      const auto [first, is_new] = found.try_emplace({part->part, is_mask}, part->rank, join_url(root, entry.name));
      if (!is_new && part->rank < first->second.first) first->second = {part->rank, join_url(root, entry.name)};
    }
    const auto path = [&](DataPart part, bool is_mask) {
      return found.contains({part, is_mask}) ? found[{part, is_mask}].second : "";
    };
    const std::string train = path(DataPart::train, false), masks = path(DataPart::train, true);
    const std::string validate = path(DataPart::validate, false), others = path(DataPart::validate, true);
    if (train.empty() || masks.empty()) return std::nullopt;
    if (validate.empty() != others.empty() && !places_.in(validate.empty() ? others : validate).empty()) {
      warnings_.push_back(fmt::format("{}: '{}' has no folder of {} next to it: a share of '{}' validates", to_string(position()),
                                      line_text(validate.empty() ? others : validate), validate.empty() ? "images" : "masks",
                                      line_text(train)));
    }
    if (validate.empty() || others.empty()) return Layout{pairs(train, masks), pairs(train, masks), true};
    return Layout{pairs(train, masks), pairs(validate, others), false};
  }

  // Subfolders of images and masks, or one folder with both, in which names of masks have a usual ending.
  std::optional<Part> masks_side_by_side(const std::string& path) {
    const auto images = named_in(path, kImageFolders), labels = named_in(path, kMaskFolders);
    if (images && labels) return pairs(*images, *labels);
    if (!places_.is_folder(path)) return pairs(path + "/images", path + "/masks");  // not accessible
    const Contents contents = contents_of(path);
    for (const std::string_view ending : kMaskEndings) {
      for (const auto& [extension, files] : contents.files) {
        const auto ends = [&](const std::string& file) { return fs::path(file).stem().string().ends_with(ending); };
        if (std::ranges::none_of(files, ends)) continue;
        Part part = pairs(path, path);
        part.keys.emplace_back("suffix", ending);
        return part;
      }
    }
    if (contents.has_photographs_with_png()) return pairs(path, path);
    std::vector<std::string> names;
    for (const DataEntry& entry : places_.in(path)) {
      if (entry.is_folder || !entry.fault.empty())
        names.push_back(fmt::format("'{}'{}", line_text(entry.name), entry.fault.empty() ? "" : ", which " + entry.fault));
    }
    errors_.add(position(),
                fmt::format("'{}' holds no images with masks in a known layout: folders images and masks, train and val with "
                            "such folders, or masks next to their images under names such as x_mask.png{}. Name their folders in "
                            "[train.read] and [validate.read] with stage = \"read_pairs\", images, labels",
                            path, names.empty() ? "" : fmt::format("; its folders are {}", fmt::join(names, ", "))));
    return std::nullopt;
  }

  const Value& root_;
  const Value& data_;
  const Position file_;  // the user's file, not the one it extends
  const std::vector<const Value*> reads_;
  const std::set<std::string> variables_;  // keys of [data] that the file itself refers to
  DataPlaces places_;
  std::set<std::string>& referred_;
  Diagnostics& errors_;
  std::vector<std::string>& warnings_;
  const std::string holds_;
};

constexpr const char* kRead = "read";

// Whether the type of a graph's `read` is not given.
bool is_open(const Member& graph, const Registry& registry) {
  const Value* const flow = graph.value.find("flow");
  if (flow == nullptr || flow->kind() != Value::Kind::array || registry.stages().find(kRead) != nullptr) return false;
  const auto is_read = [](const Value& stage) { return stage.kind() == Value::Kind::text && stage.text() == kRead; };
  if (std::ranges::none_of(flow->array(), is_read)) return false;
  const Value* const table = graph.value.find(kRead);
  if (table == nullptr) return true;
  if (table->kind() != Value::Kind::table) return false;
  const auto is_type = [](const Member& member) { return nearest_name(member.key, {"stage"}).has_value(); };
  return std::ranges::none_of(table->table(), is_type);  // a misspelt type is reported with the stage
}

bool trains(const Value& graph) { return graph.find("every") == nullptr; }

void complete(Value& graph, const Layout& layout, Finder& finder, const Registry& registry, double held_out) {
  const bool is_training = trains(graph);
  const Position at = finder.position(is_training);
  if (graph.find(kRead) == nullptr) graph.set(kRead, Value(Table{}, at));
  Value& table = *graph.find(kRead);
  const Part& part = is_training ? layout.train : layout.validate;
  const auto add = [&](const std::string& key, Value value) {
    if (table.find(key) == nullptr) table.table().push_back({key, table.at(), std::move(value)});
  };
  add("stage", Value(part.stage, at));
  for (const auto& [key, text] : part.keys) add(key, Value(text, at));
  for (const Member& member : finder.keys_of(part, registry)) add(member.key, member.value);
  if (!layout.is_one) return;
  const double kept = 1 - held_out;
  add("part", Value(is_training ? Array{Value(0.0, at), Value(kept, at)} : Array{Value(kept, at), Value(1.0, at)}, at));
}

}  // namespace

bool place_data(Value& root, const Registry& registry, bool whole, std::set<std::string>& referred, Diagnostics& errors,
                std::vector<std::string>& warnings) {
  const std::size_t before = errors.size();
  const Value* const data = root.find("data");
  if (data == nullptr || (data->find("path") == nullptr && data->find("holds") == nullptr)) return true;
  bool has_open = false;
  std::vector<const Value*> reads;
  for (const Member& member : root.table()) {
    if (!is_open(member, registry)) continue;
    has_open = true;
    if (const Value* const table = member.value.find(kRead)) reads.push_back(table);
  }
  if (!has_open) return true;
  Finder finder(root, reads, registry, referred, errors, warnings);
  std::optional<Layout> layout;
  try {
    layout = finder.find();
  } catch (Error& error) {
    throw error.in(to_string(finder.position()));
  }
  const double held_out = finder.held_out();
  if (!layout || errors.size() != before) return false;
  if (whole) layout->is_one = false;
  for (Member& member : root.table()) {
    if (is_open(member, registry)) complete(member.value, *layout, finder, registry, held_out);
  }
  finder.warn_of_keys_without_effect(*layout);
  return true;
}

}  // namespace millrace
