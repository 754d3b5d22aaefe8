#include "measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/data_names.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/on_threads.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::size_t kManyEnough = 1000;  // this many missing files and none present: not worth checking a million more

bool is_absolute(std::string_view path) { return path.starts_with('/') || path.find("://") != path.npos; }

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
    const std::span<const std::uint32_t> asked(local);
    const std::span<const std::uint32_t> first = asked.first(std::min(asked.size(), kManyEnough));
    ask(first);
    if (measure_.missing.size() == kManyEnough && first.back() + 1 == kManyEnough) fail_without_any();
    ask(asked.subspan(first.size()));
    const bool is_listed = remote.empty() || look_up(remote);
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
  void ask(std::span<const std::uint32_t> rows) {
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
      measure_.first_missing = fmt::format("{}:{}: '{}' was not there a moment ago", name_, list_.lines[row], line_text(url));
    } catch (const Error& error) {
      measure_.first_missing = in_list(error, row).what();
    }
    look_beside(row, url);
    if (!hint_.empty()) measure_.first_missing += "; " + hint_;
  }

  [[noreturn]] void fail_without_any() const {
    const std::string question = fmt::format(": are its paths relative to '{}', or is `root` another?", root_);
    fail(ErrorKind::data, "none of the first {} files of '{}' can be read{} The first: {}", measure_.missing.size(), name_,
         hint_.empty() ? question : ".", measure_.first_missing);
  }

  // Looks for the file that a list names without its ending, or with another system's path separators.
  void look_beside(std::uint32_t row, const std::string& url) {
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
        hint_ = fmt::format("'{}' is there: ending = \"{}\" adds what the list leaves out", line_text(url + ending), ending);
        return;
      }
      if (const std::string other = url.substr(0, dot) + ending; has_ending && is_there(other)) {
        hint_ = fmt::format("'{}' is there: the list has another ending", line_text(other));
        return;
      }
    }
    if (path.size() > 2 && path.front() == '\'' && path.back() == '\'') hint_ = "a list has its quotes double, as in \"a.jpg\"";
    std::string slashed = url;
    std::replace(slashed.begin(), slashed.end(), '\\', '/');
    if (slashed != url && is_there(slashed))
      hint_ = fmt::format("'{}' is there: the list must have / in its paths", line_text(slashed));
    if (const std::string plain = percent_decode(url).value_or(url); plain != url && is_there(plain))
      hint_ = fmt::format("'{}' is there: the list has %20 and the like in its paths, as in URLs", line_text(plain));
    const std::string stem = name_.substr(0, name_.rfind('.'));  // Kaggle's train.csv names the files in train/
    if (const std::string below = join_url(stem, path); hint_.empty() && !is_absolute(path) && is_there(below))
      hint_ = fmt::format("'{}' is there: root = \"{}\"", line_text(below), line_text(stem));
    if (hint_.empty() && url_scheme(url) == "file") look_for_equal(url);
    if (hint_.empty() && !is_utf8(path)) hint_ = "the list is no UTF-8: encoding = \"cp1252\" reads lists of Windows";
  }

  // Looks for a file whose name looks the same but differs in case or in the Unicode form of accents.
  void look_for_equal(const std::string& url) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path wanted = url;
    for (fs::directory_iterator entry(wanted.parent_path().empty() ? "." : wanted.parent_path(), error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string(), mine = wanted.filename().string();
      if (!looks_equal(name, mine)) continue;
      hint_ = lower_case(name) == lower_case(mine)
                  ? fmt::format("'{}' is there: the list has other letters, large or small", line_text(name))
                  : fmt::format("'{}' is there, and the list has '{}': one name in two forms of Unicode (NFC and NFD)",
                                escaped_text(name), escaped_text(mine));
      return;
    }
  }

  // Walks through the rows, sorted by path, and the sorted listing in parallel. Returns false if the storage cannot list folders,
  // as with a web server; the files are then accepted unchecked.
  bool look_up(const Rows& rows) {
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
    ask(missing);
    return true;
  }

  const FileList& list_;
  const std::string& root_;
  const Registry& registry_;
  const std::string& name_;
  std::string hint_;
  Measure measure_;
};

}  // namespace

void resolve(const FileList& list, const std::string& root, std::uint64_t index, std::string& url) {
  url.clear();
  list.paths.append(index, url);
  if (!is_absolute(url)) url.insert(0, root);
}

Measure measure(const FileList& list, const std::string& root, const Registry& registry, const std::string& name) {
  return Measurer(list, root, registry, name).measure();
}

}  // namespace millrace
