#include "pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/data_names.h"
#include "millrace/util/file_sizes.h"
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
        if (object.is_dangling) return not_images.add({"link that leads nowhere", "links that lead nowhere"}, object.name);
        if (object.name.ends_with('/')) return;
        if (!seems_to_be_an_image(object.name)) {
          if (others_++ == 0) other_file_ = object.name;
          return;
        }
        return not_images.add({"file that ends in none of " + ends, "files that end in none of " + ends},
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
    fail(ErrorKind::data, "no image in '{}': files {} {}{} are looked for{}{}", folder_.url, end, rule_.extensions.text(), in,
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
    fail(
        ErrorKind::data,
        "'{}' and '{}' in '{}' have the same name: which is it? Where one is the label image of the other, it is a .png beside a "
        ".jpg, has a `suffix`, or lies in a folder of its own; else `extensions` and `leave_out` choose",
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
  constexpr std::size_t kMost = 5;
  std::string common = files.front().stem.substr(files.front().stem.rfind('/') + 1);  // npos + 1 is 0
  for (const File& file : files) {
    const auto same = std::mismatch(common.rbegin(), common.rend(), file.stem.rbegin(), file.stem.rend());
    common.erase(0, static_cast<std::size_t>(same.first.base() - common.begin()));
  }
  std::vector<std::string> endings(1);
  if (files.size() == 1) return endings;  // its whole name would be one
  for (std::size_t end = common.npos; endings.size() < kMost; --end) {
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

}  // namespace

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
    if (rule.finds_suffixes && !any_pairs(of_images, of_targets)) {
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

}  // namespace millrace
