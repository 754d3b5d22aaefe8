#include "read_tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/class_labels.h"
#include "millrace/util/files.h"
#include "millrace/util/on_threads.h"
#include "millrace/util/text.h"
#include "shards.h"
#include "tar_reader.h"

namespace millrace {

namespace {

std::vector<std::string> read_names(Storage& storage, const std::string& url) {
  ByteBuffer bytes;
  try {
    storage.read(url, bytes);
  } catch (const Error& error) {
    if (means_absent(error, url)) return {};  // there is none
    throw;
  }
  std::vector<std::string> names;
  std::map<std::string, std::size_t> known;  // with their lines
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text = text.substr(0, text.find_last_not_of("\r\n") + 1);  // npos + 1 is 0; ignores blank lines at the end
  while (!text.empty()) {
    const std::string line = utf8_text(next_line(text));
    const std::size_t number = names.size() + 1;
    if (line.empty()) fail(ErrorKind::data, "{}:{}: the line is empty: expected the name of class {}", url, number, names.size());
    const auto [before, is_new] = known.emplace(line, number);
    if (!is_new) fail(ErrorKind::data, "{}:{}: class '{}' is in line {} already", url, number, line_text(line), before->second);
    names.push_back(line);
  }
  return names;
}

// The lines of classes.txt next to the shards, as `pipeline-data pack` writes it: names by label. Empty if there is none. Throws
// ErrorKind::data for an empty line, a duplicate name, and if two of these files differ; with `may_differ`, differing files are
// ignored instead.
std::vector<std::string> listed_classes(const std::vector<Shard>& shards, bool may_differ) {
  std::vector<std::string> classes;
  std::string listed_in;
  std::set<std::string> folders;
  for (const Shard& shard : shards) {
    const std::string folder(folder_of(shard.url));
    if (!folders.insert(folder).second) continue;
    const std::string url = join_url(folder, "classes.txt");
    std::vector<std::string> names = read_names(*shard.storage, url);
    if (names.empty()) continue;
    if (classes.empty()) {
      classes = std::move(names);
      listed_in = url;
    } else if (names != classes) {
      if (may_differ) return {};
      fail(ErrorKind::data,
           "'{}' and '{}' name different classes: read the folders as two sources of a `mix`, which unites classes by name, or "
           "set `classes` if the labels mean the same in both",
           url, listed_in);
    }
  }
  return classes;
}

constexpr std::size_t kIndexThreads = 8;                      // they mostly wait for the storage
constexpr std::uint64_t kEmptyArchive = 10'240;               // size of an archive without members
constexpr std::uint64_t kMaxZeros = std::uint64_t{1} << 20;  // at the end of an archive: tar writes at most 10 KiB

std::string target_name(const ReadTar::Params& params) {
  if (params.target == "none") return {};
  if (!params.target_name.empty()) return params.target_name;
  return params.target == "classes" ? "label" : "target";
}

TargetSpec target_spec(const std::string& kind, const std::vector<std::string>& classes) {
  TargetSpec target;
  if (kind == "image") target.kind = TargetSpec::Kind::image;
  if (kind != "classes") return target;
  target.kind = TargetSpec::Kind::classes;
  target.classes.fill(target.ignored);
  if (classes.empty()) {
    fail(ErrorKind::usage,
         "classes: expected names for the numbers in the label images: classes.txt is missing next to the shards");
  }
  if (classes.size() > target.ignored)
    fail(ErrorKind::usage, "classes: label images can hold {}, found {}", target.ignored, classes.size());
  for (std::size_t number = 0; number < classes.size(); ++number) target.classes[number] = static_cast<std::uint8_t>(number);
  return target;
}

// Also reads the header before it: if it differs, the shard was replaced, and its bytes belong to other labels.
void read_member(const Shard& shard, const TarIndex::Member& member, ByteBuffer& out) {
  const std::size_t size = kTarBlock + member.bytes;
  std::uint8_t* const bytes = out.resize(size);
  shard.storage->read(shard.url, member.offset - kTarBlock, size, bytes);
  if (!is_header_of({bytes, kTarBlock}, member.bytes)) {
    fail(ErrorKind::data,
         "shard '{}' has changed since it was listed: no member of {} bytes begins at byte {} any more; run again", shard.url,
         member.bytes, member.offset);
  }
  std::memmove(bytes, bytes + kTarBlock, member.bytes);
  out.resize(member.bytes);
}

// True if the shard still has the same members, labels and numbers.
bool is_index_of(const TarIndex& index, const Shard& shard, const IndexSettings& settings) {
  Window window(
      [&](std::uint64_t offset, std::size_t size, std::uint8_t* out) { shard.storage->read(shard.url, offset, size, out); },
      shard.bytes);
  return std::ranges::equal(build_index(window, index_key(shard.bytes, shard.version, settings), settings).bytes(),
                            index.bytes());
}

// Members next to the first images that may hold their classes: ".txt", or ".json" with its fields.
std::string other_label_of(const Shard& shard) {
  constexpr int kLooked = 100;
  constexpr std::size_t kMaxBytes = 1 << 20, kMaxFields = 8;
  Window window(
      [&](std::uint64_t offset, std::size_t size, std::uint8_t* out) { shard.storage->read(shard.url, offset, size, out); },
      shard.bytes);
  TarReader reader(window);
  TarMember member;
  std::string text;
  for (int i = 0; i < kLooked && reader.next(member); ++i) {
    const std::string name = lower_case(member.name);
    if (text.empty() && name.ends_with(".txt")) text = fmt::format("'{}'", line_text(member.name));
    if (!name.ends_with(".json") || member.kind != TarMember::Kind::file || member.bytes > kMaxBytes) continue;
    const auto fields = fields_of_json(window.at(member.offset, static_cast<std::size_t>(member.bytes)), kMaxFields);
    if (fields.empty()) continue;
    return fmt::format("'{}' with '{}'", line_text(member.name), line_text(fmt::format("{}", fmt::join(fields, "', '"))));
  }
  return text;
}

bool has_unreadable_label(const TarIndex& index) {
  for (std::size_t at = 0; at < index.size(); ++at) {
    if (index.label(at) == TarIndex::kUnreadable) return true;
  }
  return false;
}

}  // namespace

void ReadTar::describe(StageDescription<Params>& d) {
  d.name("read_tar").text("Reads samples from tar archives in WebDataset's layout.");
  d.params.add("path", &Params::path).text("shards: \"shards/*.tar\", a folder of .tar files, or names with {000..127} or {a,b}");
  d.params.add("paths", &Params::paths).text("several, instead of `path`");
  d.params.add("classes", &Params::classes).text("class names, by label; default: classes.txt next to the shards, or the labels");
  d.params.add("labels", &Params::labels)
      .choices({"shards", "none"})
      .text("shards: .cls or .json members; none: no classes, `classes` only names the network's");
  d.params.add("label", &Params::label).text(".json field of the class; default: the .cls members");
  d.params.add("numbers", &Params::numbers).text(".json field of a number, or a list of numbers, to predict");
  d.params.add("target", &Params::target)
      .choices({"none", "classes", "image"})
      .text("target of each image: none, class numbers of its pixels, or an image");
  d.params.add("target_name", &Params::target_name)
      .text("name of target members before their extension; default: label for classes, target for images");
  d.params.add("target_scale", &Params::target_scale)
      .range(1, TargetSpec::kMaxScale)
      .text("target size relative to its image's: super-resolution");
  d.params.add("key_ends", &Params::key_ends)
      .choices({"first-dot", "last-dot"})
      .text(
          "where a sample's name ends in member names: at the first dot, as in WebDataset, or at the last, for images such as "
          "photo.1.jpg");
  SourceParams::describe(d.params);
}

ReadTar::ReadTar(const Params& params, const StageSite& site)
    : Source(params),
      settings_{params.label, params.numbers, target_name(params), params.key_ends == "last-dot"},
      classes_(params.classes),
      registry_(site.registry),
      run_(site.run),
      labels_(params.labels != "none") {
  if (params.path.empty() == params.paths.empty()) {
    fail(ErrorKind::usage, "path: expected shards in one of `path` and `paths`, found {}",
         params.path.empty() ? "neither" : "both");
  }
  if (params.target == "none" && !params.target_name.empty())
    fail(ErrorKind::usage, "target_name: there are no targets: set target = \"classes\" or \"image\"");
  if (params.target == "none" && params.target_scale != 1)
    fail(ErrorKind::usage, "target_scale: there are no targets: set target = \"classes\" or \"image\"");
  if (!labels_ && !params.label.empty())
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: remove one of them");
  if (settings_.last_dot && params.target != "none")
    fail(ErrorKind::usage, "key_ends: the text between two dots identifies target images; it must be \"first-dot\"");
  const auto exists = [&](const std::string& path) {
    try {
      return storage_of(*registry_, path).kind(path) != Storage::Kind::unknown;
    } catch (const Error&) {
      return false;
    }
  };
  for (const std::string& path : params.paths.empty() ? std::vector<std::string>{params.path} : params.paths) {
    for (ShardPath& expanded : shard_paths(path, exists)) paths_.push_back(std::move(expanded));
  }
  const ClassNumbers twice(classes_);  // throws
  const char* key = params.path.empty() ? "paths" : "path";
  for (const ShardPath& path : paths_) storage_for(site, key, std::string(searched_folder(path)));
  // target() is called before open().
  if (params.target == "classes") {
    LeftOut ignored;
    name_numbers(find(ignored));
  }
  target_ = target_spec(params.target, classes_);
  if (params.target == "classes") number_by_lines();
  target_.scale = static_cast<int>(params.target_scale);
}

std::vector<Shard> ReadTar::find(LeftOut& left_out) const {
  return find_shards(
      paths_, [this](const std::string& url) -> Storage& { return storage_of(*registry_, url); }, left_out);
}

void ReadTar::open() {
  LeftOut left_out;
  std::vector<Shard> shards = find(left_out);
  const bool given = !classes_.empty();
  if (labels_ && target_.kind != TargetSpec::Kind::classes) name_numbers(shards);
  if (const std::string missing = missing_numbers(shards); run_ != nullptr && !missing.empty())
    run_->warn(fmt::format("the numbers of shards have gaps: {}; the existing shards are read", missing));
  read_indices(std::move(shards));
  for (const Indexed& indexed : shards_) {
    const PassedOver& passed_over = indexed.index.passed_over();
    const PassedOver::Members &dots = passed_over.members[PassedOver::dots],
                              &others = passed_over.members[PassedOver::other_images];
    left_out.add({"image whose name has a dot before its ending", "images whose names have a dot before their ending"},
                 dots.example, dots.count);
    const PassedOver::Members& parted = passed_over.members[PassedOver::unlabelled_dots];
    left_out.add({"image whose name is longer than its label's; both need the same name (a.jpg and a.cls)",
                  "images whose names are longer than their labels'; both need the same name (a.jpg and a.cls)"},
                 parted.example, parted.count);
    left_out.add({"image without the extension .jpg, .jpeg or .png", "images without the extension .jpg, .jpeg or .png"},
                 others.example, others.count);
    const bool has_members = passed_over.zeros < indexed.shard.bytes;
    if (indexed.index.size() == 0 && has_members)
      left_out.add({"shard without a sample", "shards without a sample"}, indexed.shard.url);
  }
  if (size() == 0)
    fail(ErrorKind::data, "no image (.jpg, .jpeg, .png) in the {} shards from '{}' on{}", shards_.size(),
         shards_.front().shard.url, left_out.empty() ? "" : ", and there are " + left_out.list() + advice_on_dots());
  warn_of_shards(left_out);
  if (!labels_) return;
  name_classes();
  map_labels();
  if (run_ != nullptr && given && !labelled_ && target_.kind != TargetSpec::Kind::classes)
    run_->warn(fmt::format("`classes` is set, but no sample in the {} shards from '{}' on has a label: .cls members name classes",
                           shards_.size(), shards_.front().shard.url));
  warn_of_samples();
  warn_of_classes();
  warn_of_other_labels();
}

// Warns early of samples that are bad regardless of their bytes.
void ReadTar::warn_of_samples() const {
  if (run_ == nullptr) return;
  std::uint64_t without_image = 0, without_label = 0;
  std::string found;
  for (const Indexed& indexed : shards_) {
    const PassedOver::Members& labels = indexed.index.passed_over().members[PassedOver::labels];
    if (found.empty() && labels.count > 0) found = labels.example;
    for (std::size_t at = 0; at < indexed.index.size(); ++at) {
      without_image += indexed.index.image(at).offset == 0 ? 1 : 0;
      without_label += labelled_ && label_of(indexed, at) < 0 ? 1 : 0;
    }
  }
  const std::string where(folder_of(shards_.front().shard.url));
  if (without_image > 0)
    run_->warn(fmt::format("{} of the {} samples in '{}' have no image (.jpg, .jpeg, .png), and are bad samples", without_image,
                           size(), where));
  if (without_label > 0)
    run_->warn(fmt::format("{} of the {} samples in '{}' have no label, and are bad samples{}", without_label, size(), where,
                           found.empty() ? "" : fmt::format(": {} where a name or a whole number from 0 on is expected", found)));
}

std::string ReadTar::advice_on_dots() const {
  const bool has_dots = std::any_of(shards_.begin(), shards_.end(), [](const Indexed& indexed) {
    return indexed.index.passed_over().members[PassedOver::dots].count > 0;
  });
  return has_dots ? "; key_ends = \"last-dot\" reads names up to their last dot" : "";
}

// Detects downloads that stopped between two members, or into preallocated space.
void ReadTar::warn_of_shards(const LeftOut& left_out) const {
  if (run_ == nullptr) return;
  const std::string where = shards_.front().shard.url;
  if (!left_out.empty()) run_->warn(left_out.text(folder_of(where)) + advice_on_dots());
  LeftOut broken;
  for (const Indexed& indexed : shards_) {
    const std::uint64_t zeros = indexed.index.passed_over().zeros;
    const bool is_zeros_alone = zeros == indexed.shard.bytes;
    if (zeros == 0) broken.add({"shard has no end (zeros)", "shards have no end (zeros)"}, indexed.shard.url);
    if (is_zeros_alone && zeros > kEmptyArchive)
      broken.add({"shard contains only zeros", "shards contain only zeros"}, indexed.shard.url);
    if (!is_zeros_alone && zeros > kMaxZeros)
      broken.add({"shard ends in more than a megabyte of zeros", "shards end in more than a megabyte of zeros"},
                 indexed.shard.url);
  }
  if (!broken.empty()) run_->warn(broken.list() + ": are they truncated?");
}

// Many shards have classes in .json members; texts are mostly captions.
void ReadTar::warn_of_other_labels() const {
  if (run_ == nullptr || labelled_ || numbers() > 0 || target_.kind != TargetSpec::Kind::none) return;
  const std::string found = other_label_of(shards_.front().shard);
  if (found.empty()) return;
  run_->warn(
      fmt::format("no sample in '{}' has a label in a .cls member, but there is {}: label = \"FIELD\" reads a field of the "
                  ".json members, with data.path --set data.label=FIELD; no key reads .txt members",
                  folder_of(shards_.front().shard.url), found));
}

void ReadTar::warn_of_classes() const {
  if (run_ == nullptr || !labelled_ || classes_.empty()) return;
  std::vector<std::uint64_t> counts(classes_.size());
  for (const Indexed& indexed : shards_) {
    for (std::size_t at = 0; at < indexed.index.size(); ++at) {
      const std::int32_t label = label_of(indexed, at);
      if (label >= 0) ++counts[static_cast<std::size_t>(label)];
    }
  }
  const std::string lacking = classes_without("sample", classes_, counts, folder_of(shards_.front().shard.url));
  if (!lacking.empty()) run_->warn(lacking);
}

void ReadTar::read_indices(std::vector<Shard> shards) {
  std::mutex mutex;
  bool warned = false;
  const IndexStore store(settings_, [&](const std::string& why) {
    const std::lock_guard lock(mutex);
    if (run_ != nullptr && !warned) run_->warn("the shards' indices cannot be cached, so every run rebuilds them: " + why);
    warned = true;
  });
  shards_.clear();
  shards_.resize(shards.size());
  on_threads(shards.size(), kIndexThreads, [&](std::size_t i) {
    Shard& shard = shards[i];
    try {
      if (!shard.known) {
        const Storage::Object object = shard.storage->stat(shard.url);
        shard.bytes = object.bytes;
        shard.version = object.version;
        shard.known = true;
      }
      if (shard.bytes == 0) fail(ErrorKind::data, "it is empty, and not an archive: was its download interrupted?");
      shards_[i].index = store.open(shard);
    } catch (Error& error) {
      throw error.in("shard '" + shard.url + "'");
    }
    shards_[i].shard = std::move(shard);
  });

  std::uint64_t end = 0;
  largest_ = memory_ = 0;
  fingerprint_ = combine(hash_text("read_tar"), hash_text(settings_.target));  // the listing's hash covers labels and numbers
  labelled_ = !settings_.label.empty();                                        // otherwise depends on the shards
  for (Indexed& indexed : shards_) {
    const TarIndex& index = indexed.index;
    indexed.end = end += index.size();
    Storage::Object listed;
    listed.bytes = indexed.shard.bytes;
    listed.version = indexed.shard.version;
    indexed.watch = std::make_unique<ChangeWatch>(std::move(listed), index.size());
    largest_ = std::max(largest_, kTarBlock + index.largest());
    memory_ += index.bytes().size();
    labelled_ = labelled_ || index.largest_label() >= 0 || !index.class_names().empty() || has_unreadable_label(index);
    fingerprint_ = combine(combine(combine(fingerprint_, hash_text(indexed.shard.url)), indexed.shard.bytes),
                           hash_text(indexed.shard.version));
    if (index.size() > 0 && shards_.front().index.numbers() != index.numbers()) {
      fail(ErrorKind::data, "shard '{}' has {} numbers for each sample, '{}' has {}", indexed.shard.url, index.numbers(),
           shards_.front().shard.url, shards_.front().index.numbers());
    }
  }
  labelled_ = labelled_ && labels_;
}

// If classes.txt has other names than all given classes, they rename its lines one by one.
void ReadTar::name_numbers(const std::vector<Shard>& shards) {
  std::vector<std::string> listed = listed_classes(shards, !classes_.empty());
  if (listed.empty()) return;
  if (classes_.empty()) classes_ = listed;
  const std::set<std::string_view> known(classes_.begin(), classes_.end());
  if (std::ranges::any_of(listed, [&](const std::string& name) { return known.contains(name); })) {
    listed_ = std::move(listed);
  } else if (run_ != nullptr) {
    run_->warn(fmt::format(
        "'{}' names none of the `classes`: numbers in the shards are positions in `classes`, so that '{}' is "
        "class '{}'",
        join_url(folder_of(shards.front().url), "classes.txt"), line_text(listed.front()), line_text(classes_.front())));
  }
}

// Pixels hold line numbers, whose order may differ from `classes`.
void ReadTar::number_by_lines() {
  if (listed_.empty()) return;
  target_.classes.fill(target_.ignored);
  for (std::size_t line = 0; line < std::min<std::size_t>(listed_.size(), target_.ignored); ++line) {
    const auto found = std::ranges::find(classes_, listed_[line]);
    if (found != classes_.end()) target_.classes[line] = static_cast<std::uint8_t>(found - classes_.begin());
  }
}

void ReadTar::name_classes() {
  if (!classes_.empty()) return;
  std::set<std::string> names;
  std::int32_t largest = -1;
  for (const Indexed& indexed : shards_) {
    for (const std::string& name : indexed.index.class_names()) {
      const auto number = position_of_label(name);
      if (number)
        largest = std::max(largest, *number);
      else
        names.insert(utf8_text(name));
    }
    largest = std::max(largest, indexed.index.largest_label());
  }
  if (!names.empty() && largest >= 0) {
    fail(ErrorKind::data, "some labels are numbers, up to {}, and some are names, such as '{}': write all as names", largest,
         *names.begin());
  }
  classes_.assign(names.begin(), names.end());
  for (std::int32_t label = 0; label <= largest; ++label) classes_.push_back(std::to_string(label));
}

void ReadTar::map_labels() {
  std::vector<std::string> labels;
  std::vector<const Shard*> first;  // by label: a shard that contains it
  std::map<std::string, std::int32_t> known;
  const auto add = [&](const Indexed& indexed, const std::string& label) {
    const auto [at, is_new] = known.emplace(label, static_cast<std::int32_t>(labels.size()));
    if (is_new) labels.push_back(label), first.push_back(&indexed.shard);
    return at->second;
  };
  std::int32_t largest = -1;
  for (const Indexed& indexed : shards_) {
    largest = std::max(largest, indexed.index.largest_label());
    for (const std::string& name : indexed.index.class_names()) largest = std::max(largest, position_of_label(name).value_or(-1));
  }
  const bool by_line = !listed_.empty() && largest < static_cast<std::int64_t>(listed_.size());
  class_of_number_.assign(static_cast<std::size_t>(largest) + 1, -1);
  for (Indexed& indexed : shards_) {
    for (const std::string& text : indexed.index.class_names()) {
      const auto number = position_of_label(text);
      indexed.labels.push_back(add(indexed, number && by_line ? listed_[static_cast<std::size_t>(*number)] : utf8_text(text)));
    }
    for (std::size_t at = 0; at < indexed.index.size(); ++at) {
      const std::int32_t number = indexed.index.label(at);
      if (number < 0) continue;
      std::int32_t& label = class_of_number_[static_cast<std::size_t>(number)];
      if (label < 0) label = add(indexed, by_line ? listed_[static_cast<std::size_t>(number)] : std::to_string(number));
    }
  }
  const LabelMeaning meaning = meaning_of_labels(labels, classes_, by_line ? LabelsAre::names : LabelsAre::positions_first);
  if (meaning.unknown) {
    const std::string& label = labels[*meaning.unknown];
    fail(ErrorKind::data, "shard '{}' has samples with the label {}, and the {} classes are {}{}{}", first[*meaning.unknown]->url,
         position_of_label(label) ? label : "'" + line_text(label) + "'", classes_.size(),
         fmt::join(classes_.begin(), classes_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(classes_.size(), 10)),
                   ", "),
         classes_.size() > 10 ? ", ..." : "", meaning.advice);
  }
  const auto become_classes = [&](std::vector<std::int32_t>& of) {
    for (std::int32_t& label : of) label = label < 0 ? label : meaning.classes[static_cast<std::size_t>(label)];
  };
  become_classes(class_of_number_);
  for (Indexed& indexed : shards_) become_classes(indexed.labels);
  if (run_ != nullptr && !meaning.doubt.empty())
    run_->warn(fmt::format("'{}': {}", folder_of(shards_.front().shard.url), meaning.doubt));
}

const ReadTar::Indexed& ReadTar::at(std::uint64_t& index) const {
  const auto found = std::upper_bound(shards_.begin(), shards_.end(), index,
                                      [](std::uint64_t i, const Indexed& indexed) { return i < indexed.end; });
  index -= found->end - found->index.size();
  return *found;
}

std::uint32_t ReadTar::file_bytes(std::uint64_t index) const {
  const Indexed& indexed = at(index);
  return indexed.index.image(static_cast<std::size_t>(index)).bytes;
}

std::int32_t ReadTar::label_of(const Indexed& indexed, std::size_t at) const {
  const std::int32_t label = labels_ ? indexed.index.label(at) : -1;
  if (label >= 0) return class_of_number_[static_cast<std::size_t>(label)];
  return label <= TarIndex::kFirstName ? indexed.labels[static_cast<std::size_t>(TarIndex::kFirstName - label)] : -1;
}

std::int32_t ReadTar::label(std::uint64_t index) const {
  const Indexed& indexed = at(index);
  return label_of(indexed, index);
}

std::uint64_t ReadTar::listing_hash() const {
  std::uint64_t hash = Source::listing_hash();
  std::vector<float> numbers;
  for (const Indexed& indexed : shards_) {
    const std::string& url = indexed.shard.url;
    hash = combine(hash, hash_text(url.substr(url.rfind('/') + 1)));  // npos + 1 is 0
    for (std::size_t at = 0; at < indexed.index.size(); ++at) {
      indexed.index.numbers(at, numbers);
      hash = combine(hash, hash_bytes(numbers.data(), numbers.size() * sizeof(float), hash_text(indexed.index.name(at))));
    }
  }
  return hash;
}

bool ReadTar::place(std::uint64_t index, SampleOrigin& origin) const {
  const Indexed& indexed = at(index);
  origin.url.assign(indexed.shard.url);
  origin.member.assign(indexed.index.name(index));
  return true;
}

void ReadTar::read(Sample& sample) {
  place(sample.key.index, sample);
  std::uint64_t within = sample.key.index;
  const Indexed& indexed = at(within);
  const TarIndex& index = indexed.index;
  const TarIndex::Member image = index.image(within);
  sample.offset = image.offset;
  sample.label = label_of(indexed, within);
  if (image.offset == 0) fail(ErrorKind::content, "the sample has no image: no member that ends in .jpg, .jpeg or .png");
  if (image.bytes == 0) fail(ErrorKind::content, "the image is empty");
  if (labelled_ && sample.label < 0) {
    const std::string where = settings_.label.empty() ? ".cls" : "'" + settings_.label + "' of its .json";
    fail(ErrorKind::content, "the sample has no label: {}",
         index.label(within) == TarIndex::kUnreadable ? (settings_.label.empty() ? "its " : "") + where + " is none"
                                                      : "no " + where);
  }
  const TarIndex::Member target = index.target(within);
  if (!settings_.target.empty() && target.bytes == 0) {
    fail(ErrorKind::content, "the sample has no target: no member that ends in .{}.png, or an empty one", settings_.target);
  }
  if (index.numbers() > 0) index.numbers(within, sample.numbers);
  read_member(indexed.shard, image, sample.encoded);
  if (target.bytes > 0) read_member(indexed.shard, target, sample.encoded_target);
  indexed.watch->check(*indexed.shard.storage, indexed.shard.url, [&] { return is_index_of(index, indexed.shard, settings_); });
}

}  // namespace millrace

MILLRACE_PLUGIN("read_tar", "1.0", "Samples in tar shards in WebDataset's layout.") { registry.add_stage<millrace::ReadTar>(); }
