#include "measure.h"

#include <algorithm>
#include <numeric>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::uint64_t kManyEnough = 1000;  // missing files with none that is there: not worth asking for a million more

bool is_absolute(std::string_view path) { return path.starts_with('/') || path.find("://") != path.npos; }

class Measurer {
 public:
  Measurer(const FileList& list, const std::string& root, const Registry& registry, const std::string& name)
      : list_(list), root_(root), registry_(registry), name_(name) {}

  Measure measure() {
    measure_.bytes.assign(list_.paths.size(), 0);
    std::string url;
    std::vector<std::uint32_t> remote;  // below the root
    bool all_known = true;
    for (std::uint64_t index = 0; index < list_.paths.size(); ++index) {
      resolve(list_, root_, index, url);
      if (url_scheme(url) == "file") {
        ask(index, url);
        if (measure_.missing == kManyEnough && index + 1 == kManyEnough) fail_without_any();
      } else if (is_absolute(list_.paths[index])) {
        all_known = false;
      } else {
        remote.push_back(static_cast<std::uint32_t>(index));
      }
    }
    if (!remote.empty()) look_up(remote);
    if (!all_known) measure_.fingerprint = 0;
    if (measure_.missing == list_.paths.size()) fail_without_any();
    return measure_;
  }

 private:
  void take(std::uint64_t index, const Storage::Object& object) {
    measure_.bytes[index] = saturated_size(object.bytes);
    measure_.largest = std::max(measure_.largest, static_cast<std::size_t>(object.bytes));
    measure_.fingerprint = combine(measure_.fingerprint, fingerprint_of(object));
  }

  void ask(std::uint64_t index, const std::string& url) {
    try {
      take(index, registry_.storage(url).stat(url));
    } catch (Error& error) {
      error.in(fmt::format("{}:{}", name_, list_.lines[index]));
      if (error.kind() != ErrorKind::data) throw;
      if (measure_.missing++ == 0) {
        measure_.first_missing = error.what();
        look_beside(url);
        if (!hint_.empty()) measure_.first_missing += "; " + hint_;
      }
      measure_.fingerprint = combine(measure_.fingerprint, hash_text(url));
    }
  }

  [[noreturn]] void fail_without_any() const {
    const std::string question = fmt::format(": are its paths relative to '{}', or is `root` another?", root_);
    fail(ErrorKind::data, "none of the first {} files of '{}' can be read{} The first: {}", measure_.missing, name_,
         hint_.empty() ? question : ".", measure_.first_missing);
  }

  // What is there instead of a file that a list names without its ending, or as another system writes paths.
  void look_beside(const std::string& url) {
    const auto is_there = [&](const std::string& other) {
      try {
        registry_.storage(other).stat(other);
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
      if (is_there(url + ending)) {
        hint_ = fmt::format("'{}' is there: ending = \"{}\" adds what the list leaves out", line_text(url + ending), ending);
        return;
      }
    }
    std::string slashed = url;
    std::replace(slashed.begin(), slashed.end(), '\\', '/');
    if (slashed != url && is_there(slashed))
      hint_ = fmt::format("'{}' is there: the list must have / in its paths", line_text(slashed));
  }

  // Walks through the rows, sorted by path, and the listing, which is, side by side.
  void look_up(std::vector<std::uint32_t>& rows) {
    std::vector<std::string> paths;
    for (const std::uint32_t row : rows) paths.push_back(list_.paths[row]);
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return paths[a] < paths[b]; });
    std::vector<std::size_t> missing;  // such as "./a.jpg", which a listing names "a.jpg"
    auto next = order.begin();
    registry_.storage(root_).list(root_, [&](const Storage::Object& object) {
      for (; next != order.end() && paths[*next] < object.name; ++next) missing.push_back(*next);
      for (; next != order.end() && paths[*next] == object.name; ++next) take(rows[*next], object);
    });
    missing.insert(missing.end(), next, order.end());
    for (const std::size_t at : missing) ask(rows[at], root_ + paths[at]);
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
