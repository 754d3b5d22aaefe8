#include "read_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <unordered_set>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/util/colour.h"
#include "millrace/util/data_names.h"
#include "millrace/util/pattern.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

struct File {
  std::string stem;  // equals the partner's
  Storage::Object object;
};
using ByStem = std::map<std::string, Storage::Object>;

// "day/1.png" without the folder "rgb" of "day/rgb/1.png"; false if the path has no such folder.
bool take_folder(std::string& path, const std::string& folder) {
  if (folder.empty()) return true;
  const std::string inside = "/" + folder + "/", whole = "/" + path;
  const std::size_t at = whole.rfind(inside);
  if (at == whole.npos) return false;
  path.erase(at, folder.size() + 1);
  return true;
}

bool take_suffix(std::string& stem, const std::string& suffix) {
  if (!stem.ends_with(suffix)) return false;
  stem.resize(stem.size() - suffix.size());
  return true;
}

class Lister {
 public:
  // `other`: the suffix of the other folder's names, if both are one folder.
  Lister(const PairingFolder& folder, const PairingRule& rule, std::string other, LeavesOut& leaves_out)
      : folder_(folder), rule_(rule), other_(std::move(other)), leaves_out_(leaves_out) {}

  std::vector<File> list(LeftOut& not_images) {
    std::vector<File> files;
    folder_.storage.list_without(folder_.url, std::ref(leaves_out_), [&](const Storage::Object& object) {
      const std::string ends = rule_.extensions.text();
      if (!rule_.extensions.match(object.name)) {
        if (object.is_dangling) return not_images.add({"broken link", "broken links"}, object.name);
        if (object.name.ends_with('/')) return;
        if (!seems_to_be_an_image(object.name)) {
          if (others_++ == 0) other_file_ = object.name;
          return;
        }
        return not_images.add({"file without the extension " + ends, "files without the extension " + ends},
                              join_url(folder_.url, object.name));
      }
      std::string stem = object.name.substr(0, object.name.rfind('.'));
      if (!other_.empty() && stem.ends_with(other_)) return;
      if (!take_suffix(stem, folder_.suffix) || !take_folder(stem, folder_.folder)) return;
      if (rule_.by_name) stem.erase(0, stem.rfind('/') + 1);  // npos + 1 is 0
      if (!rule_.listed.empty() && !rule_.listed.contains(stem)) return;
      files.push_back({std::move(stem), object});
    });
    if (files.empty()) fail_without_images(not_images);
    return files;
  }

 private:
  [[noreturn]] void fail_without_images(const LeftOut& not_images) const {
    const std::string end =
        folder_.suffix.empty() ? "that end in" : fmt::format("whose names end in '{}' before", folder_.suffix);
    const std::string in = folder_.folder.empty() ? "" : fmt::format(", in folders called '{}',", folder_.folder);
    fail(ErrorKind::data, "no image in '{}': expected files {} {}{}{}{}", folder_.url, end, rule_.extensions.text(), in,
         rule_.listed.empty() ? "" : fmt::format(" that `list` names, such as '{}'", line_text(*rule_.listed.begin())),
         !not_images.empty() ? ", and there are " + not_images.list()
         : others_ == 0      ? ""
                             : fmt::format(", and there are {} other files, such as '{}'{}", others_, line_text(other_file_),
                                      remedy_for(other_file_).empty() ? "" : ", " + remedy_for(other_file_)));
  }

  const PairingFolder& folder_;
  const PairingRule& rule_;
  const std::string other_;
  LeavesOut& leaves_out_;
  std::size_t others_ = 0;  // files that are not images
  std::string other_file_;  // the first
};

bool is_jpeg(const Storage::Object& object) {
  static const Extensions kJpeg({"jpeg", "jpg"});
  return kJpeg.match(object.name);
}

// Images and targets in one folder, distinguished by their endings alone: x.jpg is a photograph, and x.png (lossless) its target.
void part_by_endings(std::vector<File>& images, std::vector<File>& targets) {
  std::set<std::string> photographs, others;
  for (const File& file : images) (is_jpeg(file.object) ? photographs : others).insert(file.stem);
  if (std::ranges::none_of(photographs, [&](const std::string& stem) { return others.contains(stem); })) return;
  std::erase_if(images, [](const File& file) { return !is_jpeg(file.object); });
  std::erase_if(targets, [](const File& file) { return is_jpeg(file.object); });
}

ByStem by_stem(std::vector<File> files, const std::string& url) {
  ByStem found;
  for (File& file : files) {
    const auto [same, is_new] = found.try_emplace(file.stem, file.object);
    if (is_new) continue;
    fail(ErrorKind::data,
         "'{}' and '{}' in '{}' have the same name. A label image must be a .png next to a .jpg, have a `suffix`, or be in its "
         "own folder; otherwise select one file with `extensions` or `leave_out`",
         line_text(same->second.name), line_text(file.object.name), url);
  }
  return found;
}

bool any_pairs(const ByStem& images, const ByStem& targets) {
  return std::any_of(images.begin(), images.end(), [&](const auto& image) { return targets.contains(image.first); });
}

// The common endings of all names, from a '_', '-' or '.' on: "_left" and "_000019_left", the shortest first. The first one is
// empty.
std::vector<std::string> common_endings(const std::vector<File>& files) {
  constexpr std::size_t kMax = 5;
  std::string common = files.front().stem.substr(files.front().stem.rfind('/') + 1);  // npos + 1 is 0
  for (const File& file : files) {
    const auto same = std::mismatch(common.rbegin(), common.rend(), file.stem.rbegin(), file.stem.rend());
    common.erase(0, static_cast<std::size_t>(same.first.base() - common.begin()));
  }
  std::vector<std::string> endings(1);
  if (files.size() == 1) return endings;  // its whole name would be one
  for (std::size_t end = common.npos; endings.size() < kMax; --end) {
    end = common.find_last_of("_-.", end);
    if (end == common.npos) break;
    endings.push_back(common.substr(end));
    if (end == 0) break;
  }
  return endings;
}

std::string shortened(const std::string& stem, const std::string& ending) { return stem.substr(0, stem.size() - ending.size()); }

// True if an image has a partner when these endings are ignored.
bool pairs_without(const std::vector<File>& images, const std::string& of_image, const std::vector<File>& targets,
                   const std::string& of_target) {
  std::unordered_set<std::string> stems;
  for (const File& target : targets) stems.insert(shortened(target.stem, of_target));
  return std::any_of(images.begin(), images.end(),
                     [&](const File& image) { return stems.contains(shortened(image.stem, of_image)); });
}

struct Suffixes {
  std::string image, target;
};

// Endings without which files pair; empty if there are none.
Suffixes find_suffixes(const std::vector<File>& images, const std::vector<File>& targets) {
  for (const std::string& of_image : common_endings(images)) {
    for (const std::string& of_target : common_endings(targets)) {
      if (pairs_without(images, of_image, targets, of_target)) return {of_image, of_target};
    }
  }
  return {};
}

std::vector<File> without(std::vector<File> files, const std::string& ending) {
  for (File& file : files) file.stem = shortened(file.stem, ending);
  return files;
}

std::string assumed_text(const Suffixes& found, const std::string& given) {
  std::string text = found.image.empty() ? "" : fmt::format("image_suffix = \"{}\"", line_text(found.image));
  if (!found.target.empty()) text += fmt::format("{}suffix = \"{}\"", text.empty() ? "" : ", ", line_text(found.target + given));
  return text;
}

void take(Pairing& pairs, const Storage::Object& object) {
  pairs.fingerprint = combine(pairs.fingerprint, fingerprint_of(object));
}

// Moves matching files into `pairs`.
void match(const ByStem& of_images, ByStem& of_targets, const PairingFolder& images, const PairingFolder* targets,
           Pairing& pairs) {
  std::vector<const ByStem::value_type*> in_order;
  for (const auto& entry : of_images) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(), [](auto* a, auto* b) { return a->second.name < b->second.name; });
  for (const auto* entry : in_order) {
    const auto& [stem, image] = *entry;
    std::uint64_t bytes = image.bytes;
    if (targets != nullptr) {
      const auto partner = of_targets.find(stem);
      if (partner == of_targets.end()) {
        pairs.left_out.push_back(join_url(images.url, image.name));
        continue;
      }
      pairs.targets.add(partner->second.name);
      take(pairs, partner->second);
      bytes += partner->second.bytes;
      of_targets.erase(partner);
    }
    pairs.images.add(image.name);
    pairs.bytes.push_back(saturated_size(image.bytes));
    take(pairs, image);
    pairs.largest = std::max(pairs.largest, static_cast<std::size_t>(bytes));
  }
  for (const auto& [stem, target] : of_targets) pairs.left_out.push_back(join_url(targets->url, target.name));
}

// An image and its partner have the same path below their folders, except for suffix, extension and `folder`. If no image has a
// partner, no suffix is given, and all names of a folder share an ending such as "_leftImg8bit", it becomes the suffix. In one
// folder without suffixes, x.jpg is the image and x.png its target. Files that are not listed are ignored. Throws ErrorKind::data
// without an image, or if two files of one folder differ only in the extension.
Pairing pair_files(const PairingFolder& images, const std::optional<PairingFolder>& targets, const PairingRule& rule) {
  Pairing pairs;
  const bool is_one_folder = targets && targets->url == images.url;
  const std::string other = is_one_folder && images.suffix.empty() ? targets->suffix : "";
  const std::string other_of_targets = is_one_folder && targets->suffix.empty() ? images.suffix : "";
  LeavesOut leaves_out(rule.leave_out);
  std::vector<File> image_files = Lister(images, rule, other, leaves_out).list(pairs.not_images), target_files;
  if (targets) target_files = Lister(*targets, rule, other_of_targets, leaves_out).list(pairs.not_images);
  pairs.unused_patterns = leaves_out.unused(images.url);
  if (is_one_folder && images.suffix.empty() && targets->suffix.empty() && images.folder == targets->folder)
    part_by_endings(image_files, target_files);
  ByStem of_images = by_stem(image_files, images.url), of_targets;
  if (targets) {
    of_targets = by_stem(target_files, targets->url);
    if (rule.detects_suffixes && !any_pairs(of_images, of_targets)) {
      const Suffixes found = find_suffixes(image_files, target_files);
      pairs.assumed = assumed_text(found, targets->suffix);
      of_images = by_stem(without(image_files, found.image), images.url);
      of_targets = by_stem(without(target_files, found.target), targets->url);
    }
  }
  for (const std::string& name : rule.listed) {
    if (!of_images.contains(name)) pairs.not_found.push_back(name);
  }
  match(of_images, of_targets, images, targets ? &*targets : nullptr, pairs);
  pairs.images.finish();
  pairs.bytes.shrink_to_fit();
  pairs.targets.finish();
  return pairs;
}

constexpr std::uint8_t kIgnored = 255;

// Maps the ids of label images to classes.
TargetSpec class_target(const ReadPairs::Params& params) {
  TargetSpec target{.kind = TargetSpec::Kind::classes, .ignored = kIgnored};
  target.classes.fill(kIgnored);
  std::array<std::string, 256> owners;
  const auto own = [&](std::int64_t id, const std::string& owner, const std::string& key) {
    if (id < 0 || id > 255) fail(ErrorKind::usage, "{}: expected ids from 0 to 255, found {}", key, id);
    std::string& present = owners[static_cast<std::size_t>(id)];
    if (!present.empty()) fail(ErrorKind::usage, "{}: id {} belongs to {} and to {}", key, id, present, owner);
    present = owner;
  };
  if (params.classes.size() > kIgnored) {
    fail(ErrorKind::usage, "classes: expected at most {}, found {}", kIgnored, params.classes.size());
  }
  for (std::size_t number = 0; number < params.classes.size(); ++number) {
    const ReadPairs::Class& entry = params.classes[number];
    const std::vector<std::int64_t> own_number{static_cast<std::int64_t>(number)};
    for (const std::int64_t id : entry.ids.empty() ? own_number : entry.ids) {
      own(id, fmt::format("class '{}'", entry.name), fmt::format("classes[{}].ids", number));
      target.classes[static_cast<std::size_t>(id)] = static_cast<std::uint8_t>(number);
    }
  }
  for (const std::int64_t id : params.ignored) own(id, "`ignored`", "ignored");
  return target;
}

TargetSpec target_kind_of(const ReadPairs::Params& params) {
  const bool classes = params.target == "classes" || (params.target == "auto" && params.labels);
  if (classes) {
    if (!params.labels) fail(ErrorKind::usage, "target: \"classes\" needs `labels`, the folder of label images");
    if (params.classes.empty()) {
      fail(ErrorKind::usage,
           "classes: expected the classes of the label images, such as [{{ name = \"sky\", ids = [0] }}]; for target images set "
           "target = \"image\"");
    }
    return class_target(params);
  }
  if (!params.classes.empty() || !params.ignored.empty()) {
    fail(ErrorKind::usage, "{}: the target is an image, which has no classes", params.classes.empty() ? "ignored" : "classes");
  }
  TargetSpec target;
  target.kind = TargetSpec::Kind::image;
  return target;
}

TargetSpec target_of(const ReadPairs::Params& params) {
  TargetSpec target = target_kind_of(params);
  target.scale = static_cast<int>(params.target_scale);
  return target;
}

// In lower case, so that equal colours are equal texts.
std::vector<std::string> colours_of(const std::vector<ReadPairs::Class>& classes) {
  std::vector<std::string> colours;
  for (std::size_t number = 0; number < classes.size(); ++number) {
    const ReadPairs::Class &entry = classes[number], &first = classes.front();
    const std::string key = fmt::format("classes[{}].colour", number);
    if (entry.colour.empty() != first.colour.empty()) {
      fail(ErrorKind::usage, "{}: '{}' has {}, and '{}' has {}: name those of all classes, or of none", key, entry.name,
           entry.colour.empty() ? "no colour" : "a colour", first.name, first.colour.empty() ? "none" : "one");
    }
    if (entry.colour.empty()) continue;
    const auto [red, green, blue] = parse_colour(entry.colour, fmt::format("{}: class '{}'", key, entry.name));
    colours.push_back(fmt::format("#{:02x}{:02x}{:02x}", red, green, blue));
  }
  return colours;
}

void require_labels(const ReadPairs::Params& params) {
  if (params.labels) return;
  const char* key = !params.suffix.empty()         ? "suffix"
                    : !params.image_suffix.empty() ? "image_suffix"
                    : !params.label_folder.empty() ? "label_folder"
                    : params.unpaired != "fail"    ? "unpaired"
                    : params.pair != "path"        ? "pair"
                                                   : nullptr;
  if (key) fail(ErrorKind::usage, "{}: without `labels` each image is its own target", key);
}

// The names in a list, with or without an image's extension.
std::set<std::string> listed_names(Storage& storage, const std::string& url, const Extensions& extensions) {
  ByteBuffer bytes;
  storage.read(url, bytes);
  std::set<std::string> names;
  for (std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size()); !text.empty();) {
    const std::string_view name = trimmed(next_line(text));
    if (!name.empty()) names.emplace(name.substr(0, extensions.match(name) ? name.rfind('.') : name.npos));
  }
  if (names.empty()) fail(ErrorKind::data, "list: '{}' names no image", url);
  return names;
}

void refuse_choices_by_class(const SourceParams& sampling) {
  const char* key = !sampling.only.empty()            ? "only"
                    : sampling.balance                ? "balance"
                    : !sampling.class_weights.empty() ? "class_weights"
                                                      : nullptr;
  if (key) fail(ErrorKind::usage, "{}: pixels have classes here, images do not", key);
}

}  // namespace

void ReadPairs::describe(StageDescription<Params>& d) {
  d.name("read_pairs").text("Reads images with their label or target images.");
  d.params.add("images", &Params::images).required().text("folder of the images; a path or a URL");
  d.params.add("labels", &Params::labels)
      .text("folder of their labels or targets, under the same names; without it, each image is its own target");
  d.params.add("target", &Params::target)
      .choices({"auto", "classes", "image"})
      .text("content of `labels`: class numbers, or target images; auto: class numbers if there are `labels`");
  d.params.add("target_scale", &Params::target_scale)
      .range(1, TargetSpec::kMaxScale)
      .text(
          "target size relative to its image's: super-resolution. If images are their own targets, `shrink` of decode_image "
          "shrinks the input");
  d.params
      .add_list("classes", &Params::classes,
                [](ParamSet<Class>& c) {
                  c.add("name", &Class::name).required().text("class name");
                  c.add("ids", &Class::ids).range(0, 255).text("its values in label images; default: its position in the list");
                  c.add("colour", &Class::colour)
                      .text(
                          "\"#rrggbb\": its colour in RGB label images, in palettes if no class has `ids`, and in pictures; for "
                          "all classes or none");
                })
      .text("classes, in the network's order");
  d.params.add("ignored", &Params::ignored).range(0, 255).text("label values to ignore; unnamed ones are ignored too");
  d.params.add("suffix", &Params::suffix).text("suffix of names in `labels`, before the extension, that `images` lack");
  d.params.add("image_suffix", &Params::image_suffix)
      .text(
          "suffix of names in `images`, before the extension, that `labels` lack; default: if no image has a partner, their "
          "common one");
  d.params.add("image_folder", &Params::image_folder)
      .text("a folder in image paths that label paths lack: \"rgb\" in day/rgb/1.png");
  d.params.add("label_folder", &Params::label_folder)
      .text("a folder in label paths that image paths lack: \"mask\" in day/mask/1.png");
  d.params.add("list", &Params::list)
      .text(
          "file with a name per line, as in PASCAL VOC's ImageSets: reads only these images; names without suffix, extension "
          "optional");
  d.params.add("pair", &Params::pair)
      .choices({"path", "name"})
      .text("pairs images by the path below their folders, or by the name alone");
  d.params.add("unpaired", &Params::unpaired).choices({"fail", "skip"}).text("files without a partner: an error, or skipped");
  d.params.add("extensions", &Params::extensions).text("extensions of image files, in any case; jpeg includes .jpe and .jfif");
  d.params.add("leave_out", &Params::leave_out)
      .text("files and folders to skip, by path below `images` and `labels`; * and ? as in read_folder");
  SourceParams::describe(d.params);
}

ReadPairs::ReadPairs(const Params& params, const StageSite& site)
    : Source(params),
      run_(site.run),
      table_(fmt::format("{}.{}", site.graph, site.name)),
      images_{storage_for(site, "images", params.images, Storage::Kind::folder), params.images, params.image_suffix,
              params.image_folder},
      rule_{Extensions(params.extensions), params.leave_out, params.pair == "name", params.image_suffix.empty(), {}},
      skip_unpaired_(params.unpaired == "skip"),
      image_root_(join_url(params.images, "")),
      target_root_(join_url(params.labels.value_or(""), "")),
      colours_(colours_of(params.classes)),
      target_(target_of(params)),
      ignored_(params.ignored.begin(), params.ignored.end()) {
  require_labels(params);
  refuse_choices_by_class(params);
  if (params.labels) {
    targets_.emplace(PairingFolder{storage_for(site, "labels", *params.labels, Storage::Kind::folder), *params.labels,
                                   params.suffix, params.label_folder});
  }
  if (params.list) {
    list_ = *params.list;
    list_storage_ = &storage_for(site, "list", list_, Storage::Kind::object);
  }
  for (const Class& entry : params.classes) classes_.push_back(entry.name);
  const ClassNumbers twice(classes_);  // throws
}

void ReadPairs::open() {
  if (list_storage_ != nullptr) rule_.listed = listed_names(*list_storage_, list_, rule_.extensions);
  pairs_ = pair_files(images_, targets_, rule_);
  rule_.listed = {};
  const std::vector<std::string>& alone = pairs_.left_out;
  if (size() == 0) {
    fail(ErrorKind::data,
         "no file in '{}' has a partner in '{}': '{}' and '{}' do not belong together. Where their names differ, `suffix` and "
         "`image_suffix` name the endings, `label_folder` and `image_folder` the folders; pair = \"name\" compares names alone",
         images_.url, targets_->url, line_text(alone.front()), line_text(alone.back()));
  }
  judge_files_without_a_partner();
  judge_names_without_a_file();
  if (run_ && !pairs_.not_images.empty()) run_->warn(pairs_.not_images.text(images_.url));
  if (run_ && !pairs_.unused_patterns.empty()) run_->warn(pairs_.unused_patterns);
  if (run_ && !pairs_.assumed.empty())
    run_->warn(
        fmt::format("names in '{}' and '{}' pair with {}: set it in [{}]", images_.url, targets_->url, pairs_.assumed, table_));
  pairs_.left_out = {};
  pairs_.not_found = {};
}

void ReadPairs::judge_files_without_a_partner() const {
  const std::vector<std::string>& alone = pairs_.left_out;
  if (alone.empty()) return;
  if (!skip_unpaired_) {
    const std::string others = alone.size() > 1 ? fmt::format(" (one of {} such files)", alone.size()) : "";
    fail(ErrorKind::data,
         "'{0}' has no partner{1}; unpaired = \"skip\" in [{2}] skips such files, --set {2}.unpaired=skip; with data.path, "
         "--set data.unpaired=skip does so in all parts",
         line_text(alone.front()), others, table_);
  }
  if (run_ == nullptr) return;
  const std::string what = alone.size() == 1 ? "1 file has no partner and is left out:"
                                             : fmt::format("{} files have no partner and are left out, such as", alone.size());
  run_->warn(fmt::format("{} '{}'", what, line_text(alone.front())));
}

void ReadPairs::judge_names_without_a_file() const {
  const std::vector<std::string>& names = pairs_.not_found;
  if (names.empty()) return;
  const std::string others = names.size() > 1 ? fmt::format(", one of {} such names", names.size()) : "";
  const std::string found =
      fmt::format("'{}' names '{}', which has no matching image in '{}'{}", list_, line_text(names.front()), images_.url, others);
  if (!skip_unpaired_)
    fail(ErrorKind::data, "{0}; unpaired = \"skip\" in [{1}] skips such names, --set {1}.unpaired=skip", found, table_);
  if (run_ != nullptr) run_->warn(found);
}

// Colours distinguish classes in RGB label images.
std::uint64_t ReadPairs::fingerprint() const {
  std::uint64_t fingerprint = pairs_.fingerprint;
  for (const std::string& colour : colours_) fingerprint = combine(fingerprint, hash_text(colour));
  return fingerprint;
}

std::uint64_t ReadPairs::listing_hash() const { return combine(pairs_.images.hash(), pairs_.targets.hash()); }

bool ReadPairs::place(std::uint64_t index, SampleOrigin& origin) const {
  origin.url.assign(image_root_);
  pairs_.images.append(index, origin.url);
  return true;
}

void ReadPairs::read(Sample& sample) {
  const std::uint64_t index = sample.key.index;
  place(index, sample);
  read_sample_file(images_.storage, sample.url, sample.encoded);
  if (!targets_) {
    std::memcpy(sample.encoded_target.resize(sample.encoded.size()), sample.encoded.data(), sample.encoded.size());
    return;
  }
  sample.target_url.assign(target_root_);
  pairs_.targets.append(index, sample.target_url);
  try {
    read_sample_file(targets_->storage, sample.target_url, sample.encoded_target);
  } catch (Error& error) {
    throw error.in(fmt::format("target '{}'", sample.target_url));
  }
}

}  // namespace millrace

MILLRACE_PLUGIN("read_pairs", "1.0", "Images with label or target images.") { registry.add_stage<millrace::ReadPairs>(); }
