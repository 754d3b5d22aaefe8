#include "read_cifar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/files.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::int32_t kCoarse = 20, kFine = 100;

CifarFormat cifar100(bool fine) { return {2, fine ? 1U : 0U, fine ? kFine : kCoarse}; }

// Detects the data set from the file's size; if both fit, from its name. Throws ErrorKind::data if neither fits: the file is
// truncated or of another kind. `fine`: CIFAR-100's hundred classes instead of the twenty.
CifarFormat cifar_format(std::string_view url, std::uint64_t bytes, bool fine) {
  const CifarFormat ten, hundred = cifar100(fine);
  const bool fits_ten = bytes % ten.record() == 0, fits_hundred = bytes % hundred.record() == 0;
  if (bytes == 0 || (!fits_ten && !fits_hundred)) {
    fail(ErrorKind::data,
         "'{}' has {} bytes: neither whole records of CIFAR-10 ({} bytes each) nor of CIFAR-100 ({}); is it truncated?", url,
         bytes, ten.record(), hundred.record());
  }
  if (fits_ten != fits_hundred) return fits_ten ? ten : hundred;
  return url.find("_batch") != url.npos ? ten : hundred;
}

// The class of each record; -1 if the byte is above the last class. REQUIRES: complete records.
void cifar_labels(const CifarFormat& format, std::span<const std::uint8_t> records, std::vector<std::int8_t>& labels) {
  for (std::size_t at = format.label_at; at < records.size(); at += format.record()) {
    labels.push_back(records[at] < format.classes ? static_cast<std::int8_t>(records[at]) : std::int8_t{-1});
  }
}

// (3, 32, 32) -> (32, 32, 3)
void interleave_planes(const std::uint8_t* planes, std::uint8_t* pixels) {
  constexpr std::size_t kPlane = 32 * 32;
  for (std::size_t i = 0; i < kPlane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = planes[c * kPlane + i];
  }
}

// The lines of a file of class names, without empty ones.
std::vector<std::string> name_lines(std::span<const std::uint8_t> text) {
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  std::vector<std::string> names;
  while (!rest.empty()) {
    if (const std::string_view line = next_line(rest); !line.empty()) names.push_back(utf8_text(line));
  }
  return names;
}

constexpr std::uint64_t kRecordsAtOnce = 512;  // read at once while gathering labels: 1.5 MB

constexpr int kTrainingFiles = 5;

std::string folder_of(const std::string& url) {
  const std::size_t slash = url.rfind('/');
  return slash == url.npos ? "." : url.substr(0, std::max<std::size_t>(slash, 1));
}

bool is_file(std::string_view path) { return path.ends_with(".bin"); }

bool is_of_set(std::string_view name, bool train) {
  if (name.find('/') != name.npos) return false;
  if (!train) return name == "test_batch.bin" || name == "test.bin";
  return name == "train.bin" || (name.starts_with("data_batch") && name.ends_with(".bin"));
}

}  // namespace

void ReadCifar::describe(StageDescription<Params>& d) {
  d.name("read_cifar").text("Reads the binary files of CIFAR-10 and CIFAR-100; samples are already decoded.");
  d.params.add("path", &Params::path).required().text("folder of the .bin files, or one file; a path or a URL");
  d.params.add("set", &Params::set).choices({"train", "test"}).text("files of the folder to read; default: train");
  d.params.add("labels", &Params::labels).choices({"fine", "coarse"}).text("for CIFAR-100: a hundred classes, or twenty");
  SourceParams::describe(d.params);
}

ReadCifar::ReadCifar(const Params& params, const StageSite& site)
    : Source(params),
      path_(params.path),
      train_(params.set != "test"),
      fine_(params.labels == "fine"),
      run_(site.run),
      storage_(storage_for(site, "path", params.path)) {
  if (is_file(path_) && params.set) fail(ErrorKind::usage, "set: '{}' is one file; `set` chooses among those of a folder", path_);
}

void ReadCifar::open() {
  files_.clear();
  labels_.clear();
  fingerprint_ = hash_text("read_cifar");
  for (const std::string& url : find_files()) read_labels(url);
  name_classes(folder_of(files_.front().url));
  if (run_ != nullptr) warn();
}

void ReadCifar::warn() const {
  std::vector<std::uint64_t> counts(classes_.size());
  std::uint64_t without = 0;
  for (const std::int8_t label : labels_) label < 0 ? ++without : ++counts[static_cast<std::size_t>(label)];
  if (without > 0)
    run_->warn(fmt::format("{} of the {} images in '{}' are bad samples: their label is none of the {} classes", without,
                           labels_.size(), path_, classes_.size()));
  const std::string lacking = classes_without("image", classes_, counts, path_);
  if (!lacking.empty()) run_->warn(lacking);
  warn_of_gaps();
}

// CIFAR-10's training images come in five files, some of which a download may lack.
void ReadCifar::warn_of_gaps() const {
  if (is_file(path_) || files_.front().url.find("data_batch_") == std::string::npos) return;
  std::vector<std::string> missing;
  for (int number = 1; number <= kTrainingFiles; ++number) {
    const std::string name = fmt::format("data_batch_{}.bin", number);
    const auto is_it = [&](const File& file) { return file.url.ends_with(name); };
    if (std::ranges::none_of(files_, is_it)) missing.push_back(name);
  }
  if (!missing.empty())
    run_->warn(
        fmt::format("'{}' holds {} of {} files: it has no {}", path_, files_.size(), kTrainingFiles, fmt::join(missing, ", ")));
}

std::vector<std::string> ReadCifar::find_files() const {
  if (is_file(path_)) return {path_};
  std::vector<std::string> urls;
  storage_.list(path_, [&](const Storage::Object& object) {
    if (is_of_set(object.name, train_)) urls.push_back(join_url(path_, object.name));
  });
  if (urls.empty()) {
    fail(ErrorKind::data, "folder '{}' holds no {}", path_,
         train_ ? "data_batch_*.bin and no train.bin" : "test_batch.bin and no test.bin");
  }
  return urls;
}

void ReadCifar::read_labels(const std::string& url) {
  const Storage::Object object = storage_.stat(url);
  const CifarFormat format = cifar_format(url, object.bytes, fine_);
  if (!files_.empty() && format.label_bytes != format_.label_bytes) {
    fail(ErrorKind::data, "'{}' belongs to CIFAR-{}, '{}' to the other: set path to one of them", url,
         format.label_bytes == 1 ? 10 : 100, files_.front().url);
  }
  if (!fine_ && format.label_bytes == 1)
    fail(ErrorKind::data, "labels: \"coarse\" needs CIFAR-100, and '{}' is CIFAR-10, which has one kind of labels", url);
  format_ = format;
  const std::uint64_t records = object.bytes / format.record();
  ByteBuffer bytes;
  for (std::uint64_t first = 0; first < records; first += kRecordsAtOnce) {
    const auto size = static_cast<std::size_t>(std::min(kRecordsAtOnce, records - first) * format.record());
    storage_.read(url, first * format.record(), size, bytes.resize(size));
    cifar_labels(format, {bytes.data(), size}, labels_);
  }
  files_.push_back({url, labels_.size()});
  fingerprint_ = combine(combine(combine(fingerprint_, hash_text(url)), object.bytes), hash_text(object.version));
}

void ReadCifar::name_classes(const std::string& folder) {
  const std::string url = join_url(folder, format_.label_bytes == 1 ? "batches.meta.txt"
                                           : fine_                  ? "fine_label_names.txt"
                                                                    : "coarse_label_names.txt");
  classes_.clear();
  ByteBuffer text;
  try {
    storage_.read(url, text);
  } catch (const Error& error) {
    if (!means_absent(error, url)) throw;
    for (std::int32_t label = 0; label < format_.classes; ++label) classes_.push_back(std::to_string(label));  // there is none
    return;
  }
  classes_ = name_lines({text.data(), text.size()});
  if (classes_.size() != static_cast<std::size_t>(format_.classes)) {
    fail(ErrorKind::data, "'{}' names {} classes, expected {}", url, classes_.size(), format_.classes);
  }
}

bool ReadCifar::place(std::uint64_t index, SampleOrigin& origin) const {
  const auto file =
      std::upper_bound(files_.begin(), files_.end(), index, [](std::uint64_t i, const File& f) { return i < f.end; });
  const std::uint64_t first = file == files_.begin() ? 0 : std::prev(file)->end;
  origin.url.assign(file->url);
  origin.offset = (index - first) * format_.record();
  return true;
}

void ReadCifar::read(Sample& sample) {
  const std::uint64_t index = sample.key.index;
  place(index, sample);
  sample.label = labels_[index];
  if (sample.label < 0)
    fail(ErrorKind::content, "the label of the record at byte {} is none of the {} classes", sample.offset, format_.classes);
  std::uint8_t record[CifarFormat::kMaxRecord];
  storage_.read(sample.url, sample.offset, format_.record(), record);
  if (record[format_.label_at] != sample.label) {
    fail(ErrorKind::data,
         "'{}' has changed since it was listed: the label of the record at byte {} was {}, and now is {}; run again", sample.url,
         sample.offset, sample.label, record[format_.label_at]);
  }
  interleave_planes(record + format_.label_bytes, sample.encoded.resize(kCifarImage.bytes()));
  sample.decoded = kCifarImage;
}

}  // namespace millrace

MILLRACE_PLUGIN("read_cifar", "1.0", "The binary files of CIFAR-10 and CIFAR-100.") { registry.add_stage<millrace::ReadCifar>(); }
