#include "config/data_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shell.h"
#include "millrace/storage.h"
#include "millrace/util/data_names.h"
#include "millrace/util/files.h"
#include "millrace/util/text.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 2> kTrain = {"train", "training"};  // folders of images and masks
constexpr std::array<std::string_view, 5> kValidate = {"val", "valid", "validation", "test", "testing"};
constexpr std::array<std::string_view, 5> kLists = {".csv", ".tsv", ".jsonl", ".tab", ".ndjson"};
constexpr std::array<std::string_view, 8> kImageFolders = {"images",     "image", "imgs",   "img",
                                                           "JPEGImages", "rgb",   "frames", "photos"};
constexpr std::array<std::string_view, 8> kMaskFolders = {
    "masks", "mask", "labels", "label", "gt", "annotations", "SegmentationClass", "segmentations"};
constexpr std::array<std::string_view, 7> kMaskEndings = {"_mask", "_masks", "_label", "_labels", "_seg", "_gt", "_L"};
constexpr const char* kListsOfVoc = "ImageSets/Segmentation";
constexpr std::array<const char*, 4> kKeysOfSources = {"classes", "label", "leave_out", "unpaired"};  // for all parts
constexpr std::size_t kMostLooked = 2000;  // files of a folder, for the endings of their names

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}
bool is_elsewhere(const std::string& path) { return url_scheme(path) != "file"; }
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}
bool is_list(const std::string& path) {
  return std::ranges::any_of(kLists, [name = lower_case(path)](std::string_view ending) { return name.ends_with(ending); });
}
bool is_shard(const std::string& path) { return lower_case(path).ends_with(".tar"); }

// The first of these names that a folder has as a folder.
std::optional<std::string> named_in(const fs::path& folder, const auto& names) {
  for (const std::string_view name : names) {
    if (is_folder(folder / name)) return (folder / name).string();
  }
  return std::nullopt;
}

// Names by the part of a data set that they stand for. A folder comes before a list of its name.
class Parts {
 public:
  void add(const std::string& name, const std::string& path, bool is_folder) {
    const auto part = part_name(name);
    if (!part || part->part == DataPart::other) return;
    found_.push_back({{part->rank, !is_folder, !part->is_word}, *part, path});
  }
  bool has_both() const {
    const auto has = [this](DataPart part) {
      return std::ranges::any_of(found_, [part](const Found& each) { return each.name.part == part; });
    };
    return has(DataPart::train) && has(DataPart::validate);
  }
  // The training part, and the validation part that belongs to it; "" for what is not there, or not one alone.
  std::pair<std::string, std::string> pair() const {
    const Found* const train = first(DataPart::train, nullptr);
    const Found* const validate = first(DataPart::validate, train);
    return {train == nullptr ? "" : train->path, validate == nullptr ? "" : validate->path};
  }
  // Folders for the same part beside the one that is read: train2, `test` beside `testing`, and not `test` beside `val`, which is
  // for later.
  std::vector<std::string> beside(const std::string& read) const {
    const auto chosen = std::ranges::find(found_, read, &Found::path);
    std::vector<std::string> others;
    for (const Found& each : found_) {
      const bool is_same = chosen != found_.end() && each.name.part == chosen->name.part && is_test(each) == is_test(*chosen);
      if (is_same && is_folder(each.path) && each.path != read) others.push_back(each.path);
    }
    std::ranges::sort(others);
    return others;
  }

 private:
  struct Found {
    std::tuple<int, bool, bool> order;
    PartName name;
    std::string path;
  };

  static bool is_test(const Found& found) {
    return lower_case(fs::path(found.path).filename().string()).find("test") != std::string::npos;
  }
  const Found* first(DataPart part, const Found* beside) const {
    const Found* first = nullptr;
    bool is_alone = true;  // unlike train2014 and train2017
    for (const Found& each : found_) {
      if (each.name.part != part || (beside != nullptr && each.name.rest != beside->name.rest)) continue;
      if (first == nullptr || each.order < first->order) {
        first = &each;
        is_alone = true;
      } else if (each.order == first->order) {
        is_alone = false;
      }
    }
    return is_alone ? first : nullptr;
  }

  std::vector<Found> found_;
};

// The folders and lists of a folder that are named after parts.
Parts parts_in(const fs::path& folder) {
  Parts parts;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    const bool folder_here = entry.is_directory(ignored);  // the listing says so: there may be a million images
    if (path.filename().string().starts_with('.') || (!folder_here && !is_list(path.filename().string()))) continue;
    parts.add((folder_here ? path.filename() : path.stem()).string(), path.string(), folder_here);
  }
  return parts;
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

// What lies in a folder: its folders, and its files by their endings.
struct Contents {
  std::size_t folders = 0;
  std::map<std::string, std::vector<std::string>> files;

  explicit Contents(const fs::path& folder) {
    std::error_code ignored;
    std::size_t looked = 0;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (++looked > kMostLooked) break;
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.') || is_system_folder(name)) continue;
      if (entry.is_directory(ignored))
        ++folders;
      else
        files[lower_case(entry.path().extension().string())].push_back(entry.path().string());
    }
  }
  // The only list in it, where there is one.
  std::optional<std::string> list() const {
    std::optional<std::string> found;
    for (const std::string_view ending : kLists) {
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

struct Layout {
  Part train, validate;
  bool is_one = false;  // both are of the same samples, which have to be shared out
};

class Finder {
 public:
  Finder(const Value& root, std::set<std::string>& referred, Diagnostics& errors, std::vector<std::string>& warnings)
      : data_(*root.find("data")),
        file_(root.at()),
        referred_(referred),
        errors_(errors),
        warnings_(warnings),
        holds_(text("holds")) {}

  // Nothing, once the mistake is in errors_.
  std::optional<Layout> find() {
    if (!holds_.empty() && holds_ != "classes" && holds_ != "masks" && holds_ != "images" && holds_ != "numbers") {
      errors_.add(data_.find("holds")->at(),
                  fmt::format("'holds' must be \"classes\", \"masks\", \"images\" or \"numbers\", found \"{}\"", holds_));
      return std::nullopt;
    }
    const std::string path = text("path"), train = text("train"), validate = text("validate");
    if (!names_targets()) return std::nullopt;
    if (!train.empty() && !validate.empty()) return apart(train, validate);  // they may be made of `path`
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
    auto found = !is_elsewhere(path) && is_folder(path) ? in_folder(path) : std::nullopt;
    if (!found && errors_.size() == before) found = shared(path);
    return found && !validate.empty() ? validated_on(validate, *found) : found;
  }

  // What [data] says to the source of a part.
  std::vector<Member> keys_of(const Part& part, const Registry& registry) {
    std::vector<Member> keys;
    const StageType* const type = registry.stages().find(part.stage);
    for (const char* key : kKeysOfSources) {
      if (type == nullptr || std::ranges::find(type->params, key, &ParamInfo::name) == type->params.end()) continue;
      referred_.insert(std::string("data.") + key);
      if (const Value* const value = data_.find(key)) keys.push_back({key, value->at(), *value});
    }
    return keys;
  }

  double held_out() {
    const Value* value = data_.find("held_out");
    referred_.insert("data.held_out");
    if (value == nullptr) return 0.1;
    if (value->is_number() && value->number() > 0 && value->number() < 1) return value->number();
    errors_.add(value->at(), fmt::format("'held_out' must be a share above 0 and below 1, found {}", found(*value)));
    return 0.1;
  }

  // Of what says where a graph's images are.
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
    constexpr std::string_view kFile = "file://";
    if (value->kind() == Value::Kind::text)
      return value->text().starts_with(kFile) ? value->text().substr(kFile.size()) : value->text();
    errors_.add(value->at(), fmt::format("'{}' must be text, found {}", key, found(*value)));
    return {};
  }

  // Whether [data] has a key that is likely meant.
  bool report_misspelt_path() {
    for (const Member& member : data_.table()) {
      if (member.key == "path" || !nearest_name(member.key, {"path"})) continue;
      errors_.add(member.at, fmt::format("'{}' means nothing in [data]; nearest is 'path'", member.key));
      return true;
    }
    return false;
  }

  // Masks need names of classes, and lists say nothing of which columns are meant: whether [data] does. A base file has empty
  // ones.
  bool names_targets() {
    const char* const key = holds_ == "masks" ? "classes" : holds_ == "numbers" ? "columns" : nullptr;
    const Value* const names = key != nullptr ? data_.find(key) : nullptr;
    if (names == nullptr || names->kind() != Value::Kind::array || !names->array().empty()) return true;
    errors_.add(
        file_,
        holds_ == "masks"
            ? R"([data] needs 'classes': what masks tell apart, by their values, such as classes = [{ name = "road" }, { name = "car", ids = [7] }])"
            : R"([data] needs 'columns': those of the list that are learned, such as columns = ["age"]; on the command line --set 'data.columns=["age"]')");
    return false;
  }

  // Parts with folders, or lists, of their own.
  std::optional<Layout> in_folder(const std::string& path) {
    if (holds_ == "masks") return masks_in(path);
    const Parts parts = parts_in(path);
    const auto [train, validate] = parts.pair();
    if (!train.empty() && is_list_of_a_folder(train)) return std::nullopt;
    if (!train.empty() && !validate.empty()) {
      warn_of_folders_beside(train, validate, parts);
      return has_no_labels(validate) ? held_out_beside(train, validate) : apart(train, validate);
    }
    const Contents contents(path);
    // A folder beside others may be a class: bus, car, train.
    if (!train.empty() && contents.folders <= 1) return shared(train);
    if (contents.folders == 0 && contents.files.contains(".tar")) return shards_of_parts(path);
    return std::nullopt;
  }

  void warn_of_folders_beside(const std::string& train, const std::string& validate, const Parts& parts) {
    warn_of_folders_beside(train, "is trained on", "that are to be trained on as well", parts);
    warn_of_folders_beside(validate, "validates", "that are to validate as well", parts);
  }
  void warn_of_folders_beside(const std::string& read, const char* what_it_does, const char* which, const Parts& parts) {
    const std::vector<std::string> others = parts.beside(read);
    if (others.empty() || !is_folder(read)) return;
    warnings_.push_back(fmt::format("{}: '{}' alone {}, and '{}' {} left out: move images into it {}", to_string(position()),
                                    line_text(read), what_it_does, line_text(fmt::format("{}", fmt::join(others, "', '"))),
                                    others.size() == 1 ? "is" : "are", which));
  }

  // Whether a folder holds images, and neither folders of classes nor a list.
  bool has_no_labels(const std::string& path) const {
    if (holds_ == "images" || !is_folder(path)) return false;
    const Contents contents(path);
    const auto are_images = [](const auto& alike) { return usual_images().match(alike.second.front()); };
    return contents.folders == 0 && std::ranges::any_of(contents.files, are_images) && !contents.list();
  }

  // `test` has images without labels, as in Kaggle's competitions: a part of `train` validates instead.
  std::optional<Layout> held_out_beside(const std::string& train, const std::string& test) {
    warnings_.push_back(fmt::format(
        "{}: '{}' holds images without folders of classes, so that nothing says what they are: a part of '{}' is kept "
        "for validation, and pipeline-run --predict {} --weights RUN_FOLDER says what the others are",
        to_string(position()), line_text(test), line_text(train), shell_word(test)));
    return shared(train);
  }

  // Kaggle's train.csv beside the folder train, which holds images and no folders of classes.
  bool is_list_of_a_folder(const std::string& train) {
    if (!has_no_labels(train)) return false;
    for (const std::string_view ending : kLists) {
      const std::string list = train + std::string(ending);
      if (!is_file(list)) continue;
      errors_.add(position(),
                  fmt::format("'{0}' holds images and no folders of classes, and '{1}' is a list beside it: data.path "
                              "= \"{1}\" reads it, with root = \"{0}\" in [train.read] and [validate.read] where its "
                              "files are named without the folder",
                              line_text(train), line_text(list)));
      return true;
    }
    return false;
  }

  // Shards of both parts in one folder: train-000000.tar, val-000000.tar.
  std::optional<Layout> shards_of_parts(const std::string& path) {
    std::set<std::string> patterns;
    bool all_are_parts = true;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && is_shard(name)) patterns.insert(shard_pattern(entry.path()));
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
    errors_.add(position(),
                fmt::format("'{}' holds shards of several parts, '{}': say which are meant, as data.train = \"{}\" and "
                            "data.validate = \"...\" in place of data.path",
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
  // With images for validation that `path` does not hold, or instead of those that it does.
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

  // What reads a path.
  std::optional<Part> part(const std::string& path) {
    if (holds_ == "masks") return masks_side_by_side(path);
    if (holds_ == "images") return Part{"read_pairs", {{"images", path}}};
    if (is_list(path)) return Part{"read_list", {{"path", path}}};
    if (lower_case(path).find(".tar") != std::string::npos) return Part{"read_tar", {{"path", path}}};
    if (!is_elsewhere(path) && is_file(path)) {
      const std::string remedy = remedy_for(path);
      errors_.add(
          position(),
          fmt::format("'{}' is {}; what is read is a folder, a list (.csv, .tsv, .jsonl), shards (.tar) or a URL of these",
                      line_text(path), remedy.empty() ? "a file, and no list" : remedy));
      return std::nullopt;
    }
    if (is_elsewhere(path) || !is_folder(path)) {
      return Part{holds_ == "numbers" ? "read_list" : "read_folder", {{"path", path}}};
    }
    const Contents contents(path);
    if (contents.files.contains(".tar") && contents.folders == 0) return Part{"read_tar", {{"path", path}}};
    const auto list = contents.list();
    if (list && (holds_ == "numbers" || contents.folders == 0 || fs::path(*list).stem() == "metadata"))
      return Part{"read_list", {{"path", *list}}};
    return Part{holds_ == "numbers" ? "read_list" : "read_folder", {{"path", path}}};
  }

  // ---- Images and their masks ----

  static Part pairs(const std::string& images, const std::string& labels) {
    return {"read_pairs", {{"images", images}, {"labels", labels}}};
  }

  std::optional<Layout> masks_in(const std::string& path) {
    const fs::path root = path;
    if (auto found = cityscapes(root)) return found;
    const auto train = named_in(root, kTrain), validate = named_in(root, kValidate);
    if (train && validate) {
      for (const char* ending : {"annot", "_labels", "_masks", "_mask"}) {  // train, trainannot
        if (!is_folder(*train + ending) || !is_folder(*validate + ending)) continue;
        return Layout{pairs(*train, *train + ending), pairs(*validate, *validate + ending), false};
      }
    }
    if (train) {
      warn_of_folders_beside(*train, validate.value_or(""), parts_in(root));
      return validate ? apart(*train, *validate) : shared(*train);
    }
    const auto images = named_in(root, kImageFolders), labels = named_in(root, kMaskFolders);
    if (!images || !labels) return std::nullopt;
    const auto listed = listed_parts(root / kListsOfVoc, pairs(*images, *labels));
    return listed ? listed : parts_of_pairs(*images, *labels);
  }

  // PASCAL VOC: train.txt and val.txt name images of folders that hold those of all parts, and images without masks.
  static std::optional<Layout> listed_parts(const fs::path& lists, const Part& all) {
    Parts parts;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(lists, ignored)) {
      const fs::path& path = entry.path();
      if (path.extension() == ".txt") parts.add(path.stem().string(), path.string(), false);
    }
    const auto [train, validate] = parts.pair();
    if (train.empty()) return std::nullopt;
    Layout layout{all, all, validate.empty()};
    layout.train.keys.emplace_back("list", train);
    layout.validate.keys.emplace_back("list", validate.empty() ? train : validate);
    return layout;
  }

  // images/train and masks/train, images/val and masks/val. Where it is not clear which are meant, nothing is shared out: what is
  // kept for validation would be trained on.
  std::optional<Layout> parts_of_pairs(const std::string& images, const std::string& labels) {
    const Parts of_images = parts_in(images), of_labels = parts_in(labels);
    if (!of_images.has_both() || !of_labels.has_both()) return std::nullopt;
    const auto [train_images, validate_images] = of_images.pair();
    const auto [train_labels, validate_labels] = of_labels.pair();
    if (is_folder(train_images) && is_folder(validate_images) && is_folder(train_labels) && is_folder(validate_labels))
      return Layout{pairs(train_images, train_labels), pairs(validate_images, validate_labels), false};
    errors_.add(position(), fmt::format("'{}' and '{}' hold several parts for training or validation: say which are meant, "
                                        "[train.read] and [validate.read] with stage = \"read_pairs\", images, labels",
                                        line_text(images), line_text(labels)));
    return std::nullopt;
  }

  static std::optional<Layout> cityscapes(const fs::path& root) {
    const fs::path images = root / "leftImg8bit", labels = root / "gtFine";
    if (!is_folder(images / "train") || !is_folder(labels / "train")) return std::nullopt;
    const auto of = [&](const char* name) {
      Part part = pairs((images / name).string(), (labels / name).string());
      part.keys.insert(part.keys.end(), {{"image_suffix", "_leftImg8bit"}, {"suffix", "_gtFine_labelIds"}});
      return part;
    };
    return Layout{of("train"), of("val"), false};
  }

  // Folders of images and masks in a folder, or both in one, where names of masks end as they usually do.
  std::optional<Part> masks_side_by_side(const std::string& path) {
    const auto images = named_in(path, kImageFolders), labels = named_in(path, kMaskFolders);
    if (images && labels) return pairs(*images, *labels);
    if (is_elsewhere(path) || !is_folder(path)) return pairs(path + "/images", path + "/masks");  // cannot be looked at
    const Contents contents(path);
    for (const std::string_view ending : kMaskEndings) {
      for (const auto& [extension, files] : contents.files) {
        const auto ends = [&](const std::string& file) { return fs::path(file).stem().string().ends_with(ending); };
        if (std::ranges::none_of(files, ends)) continue;
        Part part = pairs(path, path);
        part.keys.emplace_back("suffix", ending);
        return part;
      }
    }
    errors_.add(position(),
                fmt::format("'{}' holds no images with masks in a layout that is known here: folders images and masks, train and "
                            "val with such folders, or masks beside their images under names such as x_mask.png. Say where they "
                            "are: [train.read] and [validate.read] with stage = \"read_pairs\", images, labels",
                            path));
    return std::nullopt;
  }

  const Value& data_;
  const Position file_;  // the user's, and not the one that it extends
  std::set<std::string>& referred_;
  Diagnostics& errors_;
  std::vector<std::string>& warnings_;
  const std::string holds_;
};

constexpr const char* kRead = "read";

// Whether a graph's `read` is left to us.
bool is_open(const Member& graph, const Registry& registry) {
  const Value* const flow = graph.value.find("flow");
  if (flow == nullptr || flow->kind() != Value::Kind::array || registry.stages().find(kRead) != nullptr) return false;
  const auto is_read = [](const Value& stage) { return stage.kind() == Value::Kind::text && stage.text() == kRead; };
  if (std::ranges::none_of(flow->array(), is_read)) return false;
  const Value* const table = graph.value.find(kRead);
  if (table == nullptr) return true;
  if (table->kind() != Value::Kind::table) return false;
  const auto is_type = [](const Member& member) { return nearest_name(member.key, {"stage"}).has_value(); };
  return std::ranges::none_of(table->table(), is_type);  // a misspelt one is said with the stage
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
  if (std::ranges::none_of(root.table(), [&](const Member& member) { return is_open(member, registry); })) return true;
  Finder finder(root, referred, errors, warnings);
  std::optional<Layout> layout = finder.find();
  const double held_out = finder.held_out();
  if (!layout || errors.size() != before) return false;
  if (whole) layout->is_one = false;
  for (Member& member : root.table()) {
    if (is_open(member, registry)) complete(member.value, *layout, finder, registry, held_out);
  }
  return true;
}

}  // namespace millrace
