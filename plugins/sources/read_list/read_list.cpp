#include "read_list.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/data_names.h"
#include "millrace/util/on_threads.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool is_absolute(std::string_view path) { return path.starts_with('/') || path.find("://") != path.npos; }

// The URL of a file in the list. `root`: ends in '/', or is empty.
void resolve(const FileList& list, const std::string& root, std::uint64_t index, std::string& url) {
  url.clear();
  list.paths.append(index, url);
  if (!is_absolute(url)) url.insert(0, root);
}

constexpr std::size_t kManyEnough = 1000;  // this many missing files and none present: not worth checking a million more

class Measurer {
 public:
  Measurer(const FileList& list, const std::string& root, const Registry& registry, const std::string& name)
      : list_(list), root_(root), registry_(registry), name_(name) {}

  Measure measure() {
    measure_.bytes.assign(list_.paths.size(), 0);
    std::string url;
    Rows local, remote;  // below the root
    for (std::uint32_t row = 0; row < list_.paths.size(); ++row) {
      resolve(list_, root_, row, url);
      if (url_scheme(url) == "file") {
        local.push_back(row);
      } else if (!is_absolute(list_.paths[row])) {
        remote.push_back(row);
      }
    }
    const std::span<const std::uint32_t> local_rows(local);
    const std::span<const std::uint32_t> first = local_rows.first(std::min(local_rows.size(), kManyEnough));
    stat_files(first);
    if (measure_.missing.size() == kManyEnough && first.back() + 1 == kManyEnough) fail_without_any();
    stat_files(local_rows.subspan(first.size()));
    const bool is_listed = remote.empty() || find_in_listing(remote);
    if (!is_listed || local.size() + remote.size() < list_.paths.size()) measure_.fingerprint = 0;
    if (measure_.missing.size() == list_.paths.size()) fail_without_any();
    std::ranges::sort(measure_.missing);
    return measure_;
  }

 private:
  using Rows = std::vector<std::uint32_t>;
  struct Answer {
    std::uint64_t bytes = 0, fingerprint = 0;
    bool is_missing = false;
  };

  void take(std::uint32_t row, const Answer& answer) {
    measure_.bytes[row] = saturated_size(answer.bytes);
    measure_.largest = std::max(measure_.largest, static_cast<std::size_t>(answer.bytes));
    measure_.fingerprint = combine(measure_.fingerprint, answer.fingerprint);
    if (answer.is_missing) measure_.missing.push_back(row);
  }

  // Checks each file on its own, on threads; results are used in the order of the rows.
  void stat_files(std::span<const std::uint32_t> rows) {
    constexpr std::size_t kTogether = 64;
    std::vector<Answer> answers(rows.size());
    on_threads((rows.size() + kTogether - 1) / kTogether, kAskingThreads, [&](std::size_t part) {
      std::string url;
      for (std::size_t i = part * kTogether; i < std::min((part + 1) * kTogether, rows.size()); ++i) {
        resolve(list_, root_, rows[i], url);
        answers[i] = answer_of(url, rows[i]);
      }
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (answers[i].is_missing && measure_.missing.empty()) note_first_missing(rows[i]);
      take(rows[i], answers[i]);
    }
  }

  Error in_list(Error error, std::uint32_t row) const { return error.in(fmt::format("{}:{}", name_, list_.lines[row])); }

  Answer answer_of(const std::string& url, std::uint32_t row) const {
    try {
      const Storage::Object object = storage_of(registry_, url).stat(url);
      return {object.bytes, fingerprint_of(object), false};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw in_list(error, row);
      return {0, hash_text(url), true};
    }
  }

  void note_first_missing(std::uint32_t row) {
    std::string url;
    resolve(list_, root_, row, url);
    try {
      storage_of(registry_, url).stat(url);
      measure_.first_missing = fmt::format("{}:{}: '{}' did not exist a moment ago", name_, list_.lines[row], line_text(url));
    } catch (const Error& error) {
      measure_.first_missing = in_list(error, row).what();
    }
    find_hint(row, url);
    if (!hint_.empty()) measure_.first_missing += "; " + hint_;
  }

  [[noreturn]] void fail_without_any() const {
    const std::string question = fmt::format(": are its paths relative to '{}', or to another `root`?", root_);
    fail(ErrorKind::data, "none of the first {} files of '{}' can be read{} The first: {}", measure_.missing.size(), name_,
         hint_.empty() ? question : ".", measure_.first_missing);
  }

  // Looks for the file that a list names without its ending, or with another system's path separators.
  void find_hint(std::uint32_t row, const std::string& url) {
    const auto is_there = [&](const std::string& other) {
      try {
        storage_of(registry_, other).stat(other);
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    const std::string path(list_.paths[row]);
    const std::size_t dot = url.rfind('.');
    const bool has_ending = dot != std::string::npos && url.find('/', dot) == std::string::npos;
    for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
      if (is_there(url + ending)) {
        hint_ = fmt::format("'{}' exists: ending = \"{}\" adds the missing extension", line_text(url + ending), ending);
        return;
      }
      if (const std::string other = url.substr(0, dot) + ending; has_ending && is_there(other)) {
        hint_ = fmt::format("'{}' exists: the list has another extension", line_text(other));
        return;
      }
    }
    if (path.size() > 2 && path.front() == '\'' && path.back() == '\'') hint_ = "lists use double quotes, as in \"a.jpg\"";
    std::string slashed = url;
    std::replace(slashed.begin(), slashed.end(), '\\', '/');
    if (slashed != url && is_there(slashed)) hint_ = fmt::format("'{}' exists: paths in the list must use /", line_text(slashed));
    if (const std::string plain = percent_decode(url).value_or(url); plain != url && is_there(plain))
      hint_ = fmt::format("'{}' exists: the list has encoded paths, as in URLs (%20)", line_text(plain));
    const std::string stem = name_.substr(0, name_.rfind('.'));  // Kaggle's train.csv names the files in train/
    if (const std::string below = join_url(stem, path); hint_.empty() && !is_absolute(path) && is_there(below))
      hint_ = fmt::format("'{}' exists: root = \"{}\"", line_text(below), line_text(stem));
    if (hint_.empty() && url_scheme(url) == "file") find_equal_name(url);
    if (hint_.empty() && !is_utf8(path)) hint_ = "the list is not UTF-8: encoding = \"cp1252\" reads lists from Windows";
  }

  // Looks for a file whose name looks the same but differs in case or in the Unicode form of accents.
  void find_equal_name(const std::string& url) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path wanted = url;
    for (fs::directory_iterator entry(wanted.parent_path().empty() ? "." : wanted.parent_path(), error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string(), mine = wanted.filename().string();
      if (!looks_equal(name, mine)) continue;
      hint_ = lower_case(name) == lower_case(mine)
                  ? fmt::format("'{}' exists: the list differs in upper and lower case", line_text(name))
                  : fmt::format("'{}' exists, and the list has '{}': one name in two forms of Unicode (NFC and NFD)",
                                escaped_text(name), escaped_text(mine));
      return;
    }
  }

  // Walks through the rows, sorted by path, and the sorted listing in parallel. Returns false if the storage cannot list folders,
  // as with a web server; the files are then accepted unchecked.
  bool find_in_listing(const Rows& rows) {
    std::vector<std::string> paths;
    for (const std::uint32_t row : rows) paths.push_back(list_.paths[row]);
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return paths[a] < paths[b]; });
    Rows missing;  // such as "./a.jpg", which a listing contains as "a.jpg"
    auto next = order.begin();
    try {
      storage_of(registry_, root_).list(root_, [&](const Storage::Object& object) {
        for (; next != order.end() && paths[*next] < object.name; ++next) missing.push_back(rows[*next]);
        for (; next != order.end() && paths[*next] == object.name; ++next) {
          take(rows[*next], {object.bytes, fingerprint_of(object), false});
        }
      });
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      return false;
    }
    for (; next != order.end(); ++next) missing.push_back(rows[*next]);
    stat_files(missing);
    return true;
  }

  const FileList& list_;
  const std::string& root_;
  const Registry& registry_;
  const std::string& name_;
  std::string hint_;
  Measure measure_;
};

Measure measure(const FileList& list, const std::string& root, const Registry& registry, const std::string& name) {
  return Measurer(list, root, registry, name).measure();
}

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
  fail(ErrorKind::usage, "path: the name '{}' does not show the format: set `format` to one of \"csv\", \"tsv\", \"jsonl\"",
       path);
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
    fail(ErrorKind::usage, "`label` and labels = \"none\" exclude each other: remove one of them");
  }
  if (labelled && !columns_.label && columns_.numbers.empty()) columns_.label = "label";
  if (labelled && !columns_.label && !given_classes_.empty()) {
    fail(ErrorKind::usage, "classes: needs `label`, the column of classes");
  }
  const ClassNumbers twice(given_classes_);  // throws
  if (const std::string column = listed_twice(columns_.numbers); !column.empty())
    fail(ErrorKind::usage, "numbers: column '{}' is listed twice", column);
  if (params.root) storage_for(site, "root", *params.root, Storage::Kind::folder);
  if (storage_.kind(path_) == Storage::Kind::object) kind_of(format_, path_);
}

// The list itself if `path` is its folder.
std::string ReadList::find_list() const {
  const Storage::Kind kind = storage_.kind(path_);
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
  fail(ErrorKind::data, "path: none of {} is in the folder '{}'", fmt::join(kNamesInFolder, ", "), path_);
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
        "'{}' is not UTF-8: names of files and classes are read byte by byte, and may look wrong; if a Windows program wrote it, "
        "set encoding = \"cp1252\", with data.path --set data.encoding=cp1252, with --predict --set predict.read.encoding=cp1252",
        url));
  }
  if (!list_.part_column.empty() && (columns_.label || !columns_.numbers.empty())) {
    run_->warn(
        fmt::format("'{}' has a column '{}' that assigns files to parts of the data, but all files are read: to divide them, "
                    "give each part its own list, as data.train and data.validate",
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
      run_->warn(
          fmt::format("column '{}' of '{}' is {} in all {} rows, so nothing can be learned from it", name, url, first, size()));
    if (std::abs(largest) >= kHuge)
      run_->warn(
          fmt::format("column '{}' of '{}' has numbers as large as {:g}, which make losses and gradients huge or infinite: "
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
        fmt::format("'{}' has the label '{}', which becomes a class, but which tools write for missing labels: remove such "
                    "lines, or set `classes` if it is a class",
                    url, word));
  }
  if (const std::vector<std::string> used = classes_used(list_); given_classes_.empty() && seem_values(list_, used.size())) {
    run_->warn(
        fmt::format("'{}' has {} different integers among its {} labels, up to {}, and every integer up to it becomes a class: "
                    "if they are values, such as prices, `numbers` = [\"{}\"] learns them; if they are names, such as years, {}",
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
