#include "read_idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/class_labels.h"
#include "millrace/util/files.h"

namespace millrace {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24U | static_cast<std::uint32_t>(bytes[1]) << 16U |
         static_cast<std::uint32_t>(bytes[2]) << 8U | bytes[3];
}

constexpr std::uint32_t kLargestExtent = 1U << 15U;  // pixels, per side of an image

// True if `path` is a file of images, not their folder.
bool is_file(const ReadIdx::Params& params, Storage& storage) {
  if (!params.labels.empty()) return true;
  const Storage::Kind kind = storage.kind(params.path);
  if (kind != Storage::Kind::unknown) return kind == Storage::Kind::object;
  return params.path.find("idx3", params.path.rfind('/') + 1) != params.path.npos;  // npos + 1 is 0
}

}  // namespace

IdxHeader read_idx_header(std::span<const std::uint8_t> bytes, std::uint64_t file_bytes) {
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
    fail(ErrorKind::data, "the file is compressed: unpack it first (gunzip)");
  if (bytes.size() < 8 || bytes[0] != 0 || bytes[1] != 0)
    fail(ErrorKind::data, "this is not an IDX file: it does not begin with two zeros, a type and a count");
  if (bytes[2] != kUnsignedBytes)
    fail(ErrorKind::data, "its elements are of type {:#04x}, expected {:#04x}: unsigned bytes", bytes[2], kUnsignedBytes);
  const std::size_t count = bytes[3];
  if (count < 1 || count > 4) fail(ErrorKind::data, "it has {} extents, expected 1 to 4", count);
  IdxHeader header;
  header.extents.resize(count);
  if (bytes.size() < header.bytes()) fail(ErrorKind::data, "truncated: it ends within its header, at byte {}", file_bytes);
  std::uint64_t wanted = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t extent = header.extents[i] = big_endian(bytes.data() + 4 + 4 * i);
    if (extent == 0) fail(ErrorKind::data, "one of its extents is 0");
    // No file is that long; and the remaining product stays within 64 bits.
    if (wanted > (std::numeric_limits<std::uint64_t>::max() >> 1U) / extent) fail(ErrorKind::data, "its extents are invalid");
    wanted *= extent;
  }
  const std::uint64_t have = file_bytes - header.bytes();
  if (have < wanted) fail(ErrorKind::data, "truncated: its header announces {} bytes, and {} follow", wanted, have);
  if (have > wanted) fail(ErrorKind::data, "its header announces {} bytes, and {} follow", wanted, have);
  return header;
}

std::uint64_t IdxHeader::element() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < extents.size(); ++i) product *= extents[i];
  return product;
}

void ReadIdx::describe(StageDescription<Params>& d) {
  d.name("read_idx").text("Reads MNIST's IDX files; samples are already decoded.");
  d.params.add("path", &Params::path)
      .required()
      .text("folder of train-images-idx3-ubyte and its companions, or a file of images; a path or a URL");
  d.params.add("set", &Params::set)
      .choices({"train", "test"})
      .text("files of the folder to read; default: train. test: t10k-...");
  d.params.add("labels", &Params::labels)
      .text("label file if `path` is an image file; default: ...labels-idx1... next to ...images-idx3...");
  d.params.add("classes", &Params::classes).text("class names, by label; default: the numbers");
  SourceParams::describe(d.params);
}

ReadIdx::ReadIdx(const Params& params, const StageSite& site)
    : Source(params),
      path_(params.path),
      run_(site.run),
      set_(params.set == "test" ? "t10k" : "train"),
      labels_path_(params.labels),
      storage_(storage_for(site, "path", params.path, params.labels.empty() ? Storage::Kind::unknown : Storage::Kind::object)),
      is_file_(is_file(params, storage_)),
      classes_(params.classes) {
  if (is_file_ && params.set) fail(ErrorKind::usage, "set: '{}' is one file; `set` chooses among those of a folder", path_);
  const ClassNumbers twice(classes_);  // throws
  if (!labels_path_.empty() && &storage_for(site, "labels", labels_path_, Storage::Kind::object) != &storage_) {
    fail(ErrorKind::usage, "labels: '{}' and path '{}' must have the same scheme", labels_path_, path_);
  }
}

void ReadIdx::open() {
  fingerprint_ = hash_text("read_idx");
  images_ = is_file_ ? path_ : find_file("images-idx3");
  const Storage::Object object = storage_.stat(images_);
  const IdxHeader header = read_header(images_, object);
  const std::vector<std::uint32_t>& extents = header.extents;
  const bool sane = (extents.size() == 3 || extents.size() == 4) &&
                    *std::max_element(extents.begin() + 1, extents.end()) <= kLargestExtent &&
                    (extents.size() == 3 || extents[3] <= 4);
  if (!sane)
    fail(ErrorKind::data, "'{}' holds no images: its extents are {}, expected count x height x width, and perhaps x channels",
         images_, fmt::join(extents, " x "));
  header_bytes_ = header.bytes();
  shape_ = {static_cast<std::int32_t>(extents[1]), static_cast<std::int32_t>(extents[2]),
            extents.size() == 4 ? static_cast<std::int32_t>(extents[3]) : 1};
  read_labels(!labels_path_.empty() ? labels_path_ : is_file_ ? find_adjacent_labels() : find_file("labels-idx1"));
  if (labels_.size() != extents[0])
    fail(ErrorKind::data, "'{}' has {} images, and there are {} labels", images_, extents[0], labels_.size());
  first_bytes_ = hash_of_first_bytes(object.bytes);
  watch_ = std::make_unique<ChangeWatch>(object, labels_.size());
  const std::uint8_t largest = *std::max_element(labels_.begin(), labels_.end());
  if (classes_.empty()) {
    for (int label = 0; label <= largest; ++label) classes_.push_back(std::to_string(label));
  }
  number_by_classes();
  std::vector<std::uint64_t> counts(classes_.size());
  for (const std::uint8_t label : labels_) ++counts[static_cast<std::size_t>(class_of_[label])];
  const std::string lacking = classes_without("image", classes_, counts, images_);
  if (run_ != nullptr && !lacking.empty()) run_->warn(lacking);
}

// Maps labels to classes: labels are class indices, or else class names, such as 1 ... 26.
void ReadIdx::number_by_classes() {
  const std::set<std::uint8_t> found(labels_.begin(), labels_.end());
  std::vector<std::string> labels;
  for (const std::uint8_t label : found) labels.push_back(std::to_string(label));
  const LabelMeaning meaning = meaning_of_labels(labels, classes_, LabelsAre::positions_first);
  if (meaning.unknown) fail(ErrorKind::data, "classes: {} names, but the largest label is {}", classes_.size(), labels.back());
  if (run_ != nullptr && !meaning.doubt.empty()) run_->warn(fmt::format("'{}': {}", images_, meaning.doubt));
  std::size_t at = 0;
  for (const std::uint8_t label : found) class_of_[label] = meaning.classes[at++];
}

// '-' or '.' before "idx": both occur.
std::string ReadIdx::find_file(const std::string& kind) const {
  const std::string name = set_ + "-" + kind + "-ubyte";
  std::string dotted = name;
  dotted[name.find("-idx")] = '.';
  std::string found, compressed;
  storage_.list(path_, [&](const Storage::Object& object) {
    if (object.name == name || object.name == dotted) found = object.name;
    if (object.name == name + ".gz" || object.name == dotted + ".gz") compressed = object.name;
  });
  if (found.empty() && !compressed.empty())
    fail(ErrorKind::data, "'{}' is compressed: unpack it first (gunzip)", join_url(path_, compressed));
  if (found.empty()) fail(ErrorKind::data, "folder '{}' holds no file '{}'", path_, name);
  return join_url(path_, found);
}

std::string ReadIdx::find_adjacent_labels() const {
  const std::size_t slash = path_.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t images = path_.find("images", slash), idx = path_.find("idx3", slash);
  if (images == path_.npos || idx == path_.npos) fail(ErrorKind::usage, "labels: expected the file of the labels of '{}'", path_);
  std::string url = path_;
  url.replace(idx, 4, "idx1").replace(images, 6, "labels");
  try {
    storage_.stat(url);
  } catch (Error& error) {
    if (!means_absent(error, url)) throw;
    fail(ErrorKind::usage, "labels: expected the file of the labels of '{}'; it is not '{}', which does not exist", path_, url);
  }
  return url;
}

IdxHeader ReadIdx::read_header(const std::string& url, const Storage::Object& object) {
  std::uint8_t bytes[IdxHeader::kMax];
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(object.bytes, sizeof(bytes)));
  storage_.read(url, 0, size, bytes);
  fingerprint_ = combine(combine(combine(fingerprint_, hash_text(url)), object.bytes), hash_text(object.version));
  try {
    return read_idx_header({bytes, size}, object.bytes);
  } catch (Error& error) {
    throw error.in("'" + url + "'");
  }
}

void ReadIdx::read_labels(const std::string& url) {
  const IdxHeader header = read_header(url, storage_.stat(url));
  if (header.extents.size() != 1)
    fail(ErrorKind::data, "'{}' holds no labels: it has {} extents, expected 1", url, header.extents.size());
  labels_.resize(header.extents[0]);
  storage_.read(url, header.bytes(), labels_.size(), labels_.data());
}

// Distinguishes two files with the same number of images.
std::uint64_t ReadIdx::hash_of_first_bytes(std::uint64_t bytes) const {
  constexpr std::uint64_t kEnough = 1 << 16;
  std::vector<std::uint8_t> first(static_cast<std::size_t>(std::min(bytes, kEnough)));
  storage_.read(images_, 0, first.size(), first.data());
  return hash_bytes(first.data(), first.size());
}

bool ReadIdx::place(std::uint64_t /*index*/, SampleOrigin& origin) const {
  origin.url.assign(images_);
  return true;
}

void ReadIdx::read(Sample& sample) {
  place(sample.key.index, sample);
  sample.offset = header_bytes_ + sample.key.index * shape_.bytes();
  sample.label = label(sample.key.index);
  storage_.read(images_, sample.offset, shape_.bytes(), sample.encoded.resize(shape_.bytes()));
  watch_->check(storage_, images_,
                [this] { return hash_of_first_bytes(header_bytes_ + labels_.size() * shape_.bytes()) == first_bytes_; });
  sample.decoded = shape_;
}

}  // namespace millrace

MILLRACE_PLUGIN("read_idx", "1.0", "MNIST's IDX files.") { registry.add_stage<millrace::ReadIdx>(); }
