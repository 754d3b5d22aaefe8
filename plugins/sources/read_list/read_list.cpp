#include "read_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/stage.h"
#include "millrace/storage.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr const char* kNamesInFolder[] = {"metadata.csv", "metadata.tsv", "metadata.jsonl"};

// A word that tools write for a missing value and that is a class here; "" if none.
std::string no_value_of(const std::vector<std::string>& classes) {
  for (const char* word : {"nan", "NaN", "NAN", "<NA>", "NA", "N/A", "null", "NULL"}) {
    if (std::ranges::find(classes, word) != classes.end()) return word;
  }
  return {};
}

bool ends_in(std::string_view path, std::initializer_list<std::string_view> extensions) {
  const std::string name = lower_case(path);
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view end) { return name.ends_with(end); });
}

TableFormat::Kind kind_of(const std::string& format, const std::string& path) {
  if (format == "csv" || (format == "auto" && ends_in(path, {".csv"}))) return TableFormat::Kind::csv;
  if (format == "tsv" || (format == "auto" && ends_in(path, {".tsv", ".tab"}))) return TableFormat::Kind::tsv;
  if (format == "jsonl" || ends_in(path, {".jsonl", ".ndjson"})) return TableFormat::Kind::json_lines;
  fail(ErrorKind::usage, "path: the name '{}' does not tell the format: say `format`, one of \"csv\", \"tsv\", \"jsonl\"", path);
}

// "" if no column is listed twice.
std::string listed_twice(const std::vector<std::string>& columns) {
  std::set<std::string> listed;
  for (const std::string& each : columns) {
    if (!listed.insert(each).second) return each;
  }
  return {};
}

std::vector<std::string> classes_used(const FileList& list) {
  std::vector<std::string> used;
  for (std::size_t label = 0; label < list.classes.size(); ++label) {
    if (list.counts[label] > 0) used.push_back(list.classes[label]);
  }
  return used;
}

// Postal codes and years: most numbers up to the largest are not the label of any file.
bool seem_values(const FileList& list, std::size_t used) {
  constexpr std::size_t kMany = 1000, kRare = 10;
  return list.classes.size() >= kMany && used * kRare <= list.classes.size() && list.classes.front() == "0" &&
         list.classes.back() == std::to_string(list.classes.size() - 1);
}

}  // namespace

void ReadList::describe(StageDescription<Params>& d) {
  d.name("read_list").text("Reads the image files in a list, with their labels or numbers.");
  d.params.add("path", &Params::path)
      .required()
      .text("the list: .csv, .tsv or .jsonl; or a folder with metadata.csv, metadata.tsv or metadata.jsonl");
  d.params.add("root", &Params::root).text("base folder of the list's paths; default: the list's folder");
  d.params.add("format", &Params::format).choices({"auto", "csv", "tsv", "jsonl"}).text("list format; auto: by its extension");
  d.params.add("encoding", &Params::encoding)
      .choices({"utf-8", "cp1252"})
      .text("text encoding of the list; cp1252: Windows in Western Europe, nearly Latin-1");
  d.params.add("file", &Params::file).text("column of file names");
  d.params.add("ending", &Params::ending).text("appended to paths that lack it, such as \".jpg\"");
  d.params.add("label", &Params::label)
      .text("class column, by name or number; default: \"label\", or none if `numbers` are given");
  d.params.add("labels", &Params::labels)
      .choices({"column", "none"})
      .text("source of classes: the column `label`; none: no classes, `classes` only names the network's");
  d.params.add("numbers", &Params::numbers).text("columns of numbers to predict");
  d.params.add("classes", &Params::classes)
      .text(
          "names and order of the classes; labels are all names or all positions; default: the list's, sorted bytewise, or as "
          "many as the numbers imply");
  d.params.add("columns", &Params::columns).text("column names of a .csv or .tsv without a header row");
  d.params.add("join", &Params::join)
      .text("lines of the same file form one sample with as many rows of numbers (its class first): boxes, several labels");
  SourceParams::describe(d.params);
}

ReadList::ReadList(const Params& params, const StageSite& site)
    : Source(params),
      registry_(site.registry),
      run_(site.run),
      path_(params.path),
      root_(join_url(params.root.value_or(""), "")),
      format_(params.format),
      is_cp1252_(params.encoding == "cp1252"),
      columns_{params.file, params.label, params.numbers, params.join, params.ending},
      header_(params.columns),
      given_classes_(params.classes),
      storage_(storage_for(site, "path", params.path)) {
  const bool labelled = params.labels == "column";
  if (!labelled && columns_.label) {
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: take one of them out");
  }
  if (labelled && !columns_.label && columns_.numbers.empty()) columns_.label = "label";
  if (labelled && !columns_.label && !given_classes_.empty()) {
    fail(ErrorKind::usage, "classes: there are none without `label`, the column that tells them");
  }
  const ClassNumbers twice(given_classes_);  // throws
  if (const std::string column = listed_twice(columns_.numbers); !column.empty())
    fail(ErrorKind::usage, "numbers: column '{}' is listed twice", column);
  if (params.root) storage_for(site, "root", *params.root, Storage::Kind::folder);
  if (storage_.look(path_) == Storage::Kind::object) kind_of(format_, path_);
}

// The list itself if `path` is its folder.
std::string ReadList::find_list() const {
  const Storage::Kind kind = storage_.look(path_);
  const bool named_as_list = ends_in(path_, {".csv", ".tsv", ".tab", ".jsonl", ".ndjson"});
  if (kind == Storage::Kind::object || (kind == Storage::Kind::unknown && named_as_list)) return path_;
  for (const char* name : kNamesInFolder) {
    const std::string url = join_url(path_, name);
    try {
      storage_.stat(url);
      return url;
    } catch (const Error& error) {
      if (!means_absent(error, url)) throw;
    }
  }
  fail(ErrorKind::data, "path: there is none of {} in the folder '{}'", fmt::join(kNamesInFolder, ", "), path_);
}

void ReadList::open() {
  const std::string url = find_list();
  if (root_.empty()) root_ = url.substr(0, url.rfind('/') + 1);  // npos + 1 is 0
  const TableFormat format{kind_of(format_, url), header_, is_cp1252_};
  if (format.kind == TableFormat::Kind::json_lines && !header_.empty()) {
    fail(ErrorKind::usage, "columns: the lines of '{}' name their values themselves", url);
  }
  ByteBuffer bytes;
  storage_.read(url, bytes);
  list_ = millrace::read_list({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, format, url, columns_, given_classes_);
  measure_ = measure(list_, root_, *registry_, url);
  if (measure_.fingerprint != 0) measure_.fingerprint = hash_bytes(bytes.data(), bytes.size(), measure_.fingerprint);
  list_.lines = {};
  if (run_ && !measure_.missing.empty()) {
    run_->warn(fmt::format("{} of the {} files in '{}' cannot be read, and are bad samples; the first: {}",
                           measure_.missing.size(), size(), url, measure_.first_missing));
  }
  if (run_ == nullptr) return;
  if (!is_cp1252_ && !is_utf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    run_->warn(fmt::format(
        "'{}' is no UTF-8: names of files and classes are taken byte for byte, and others than they look; if a program for "
        "Windows wrote it, encoding = \"cp1252\", with data.path --set data.encoding=cp1252, with --predict --set "
        "predict.read.encoding=cp1252",
        url));
  }
  if (!list_.part_column.empty() && (columns_.label || !columns_.numbers.empty())) {
    run_->warn(fmt::format(
        "'{}' has a column '{}' that says to which part of the data a file belongs, and all files are read: where it is "
        "meant, give each part a list of its own, as data.train and data.validate",
        url, line_text(list_.part_column)));
  }
  if (columns_.label) warn_of_labels(url);
  if (!columns_.join) warn_of_numbers(url);
  const Range part = sampling().part;
  if (!list_.repeated.empty() && (part.low > 0 || part.high < 1)) {
    run_->warn(list_.repeated + ", and `part` divides files: all lines of a file are in one part, and each of them counts");
  }
}

// Warns of numbers that are equal for all files, and numbers that make a loss huge.
void ReadList::warn_of_numbers(const std::string& url) const {
  constexpr float kHuge = 10'000;
  const std::size_t width = columns_.numbers.size(), all = list_.numbers.size();
  for (std::size_t column = 0; column < width; ++column) {
    const std::string name = line_text(columns_.numbers[column]);
    const float first = list_.numbers[column];
    float largest = first;
    bool differs = false;
    for (std::size_t at = column; at < all; at += width) {
      const float number = list_.numbers[at];
      differs = differs || number != first;
      if (std::abs(number) > std::abs(largest)) largest = number;
    }
    if (!differs && all > width)
      run_->warn(fmt::format("column '{}' of '{}' is {} in all {} rows, and tells nothing apart", name, url, first, size()));
    if (std::abs(largest) >= kHuge)
      run_->warn(
          fmt::format("column '{}' of '{}' has numbers as large as {:g}, of which losses and gradients are huge or infinite: "
                      "subtract the mean in the list, and divide by the deviation",
                      name, url, largest));
  }
}

// Warns if labels are probably misread.
void ReadList::warn_of_labels(const std::string& url) const {
  if (!list_.contradictions.empty()) run_->warn(list_.contradictions);
  if (!list_.doubt.empty()) run_->warn(fmt::format("'{}': {}", url, list_.doubt));
  if (const std::string word = no_value_of(list_.classes); !word.empty() && given_classes_.empty()) {
    run_->warn(
        fmt::format("'{}' has '{}' among its labels, which is a class here, and which tools write where a label is missing: take "
                    "such lines out, or say `classes` if it is one",
                    url, word));
  }
  if (const std::vector<std::string> used = classes_used(list_); given_classes_.empty() && seem_values(list_, used.size())) {
    run_->warn(
        fmt::format("'{}' has {} different integers among its {} labels, up to {}, and each up to it is a class: if they are "
                    "values, such as prices, `numbers` = [\"{}\"] learns them; if they are names, such as years, {}",
                    url, used.size(), size(), list_.classes.size() - 1, *columns_.label, classes_key(used)));
    return;
  }
  const std::string lacking = classes_without("file", list_.classes, list_.counts, url);
  if (!lacking.empty()) run_->warn(lacking);
}

std::uint64_t ReadList::listing_hash() const {
  const std::uint64_t rows = hash_bytes(list_.rows.data(), list_.rows.size() * sizeof(std::uint64_t));
  const std::uint64_t numbers = hash_bytes(list_.numbers.data(), list_.numbers.size() * sizeof(float), rows);
  return combine(combine(list_.paths.hash(), numbers), Source::listing_hash());
}

bool ReadList::place(std::uint64_t index, SampleOrigin& origin) const {
  resolve(list_, root_, index, origin.url);
  return true;
}

void ReadList::read(Sample& sample) {
  const std::uint64_t index = sample.key.index;
  sample.label = label(index);
  const std::size_t width = numbers();
  const std::uint64_t begin = columns_.join ? list_.rows[index] : index, end = columns_.join ? list_.rows[index + 1] : index + 1;
  sample.numbers.assign(list_.numbers.data() + begin * width, list_.numbers.data() + end * width);
  place(index, sample);
  read_sample_file(storage_of(*registry_, sample.url), sample.url, sample.encoded);
}

}  // namespace millrace

MILLRACE_PLUGIN("read_list", "1.0", "Image files named in lists.") { registry.add_stage<millrace::ReadList>(); }
