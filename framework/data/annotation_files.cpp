#include "millrace/util/annotation_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/files.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool may_hold_annotations(const std::string& lower) {
  return std::ranges::any_of(std::array{".json", ".xml", ".txt", ".csv", ".yaml", ".yml"},
                             [&](const char* ending) { return lower.ends_with(ending); });
}

std::string url_of(const std::string& folder, const std::string& name) { return folder.empty() ? name : join_url(folder, name); }

// The files of one format. A text stays until another one is asked for.
class Files : public AnnotationFiles {
 public:
  Files(Storage& storage, const std::string& folder, const std::vector<std::string>& names)
      : storage_(storage), folder_(folder), names_(names), current_(names.size()) {}

  std::size_t size() const override { return names_.size(); }
  const std::string& name(std::size_t file) const override { return names_[file]; }
  std::string place(std::size_t file) const override { return line_text(url_of(folder_, names_[file])); }
  std::string_view text(std::size_t file) override {
    if (current_ != file) {
      current_ = names_.size();
      storage_.read(url_of(folder_, names_[file]), bytes_);
      current_ = file;
    }
    std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
    return text;
  }

 private:
  Storage& storage_;
  const std::string& folder_;
  const std::vector<std::string>& names_;
  ByteBuffer bytes_;
  std::size_t current_;
};

}  // namespace

FoundAnnotations::FoundAnnotations(const Registry& registry, const std::string& url)
    : formats_(annotations(registry)), storage_(storage_of(registry, url)) {
  const std::string lower = lower_case(url);
  const bool is_file = may_hold_annotations(lower) && storage_.kind(url) != Storage::Kind::folder;
  const bool is_yaml = lower.ends_with(".yaml") || lower.ends_with(".yml");  // names the classes of files next to it
  const std::size_t slash = url.rfind('/');
  if (!is_file) folder_ = url;
  if (is_file && is_yaml) folder_ = slash == std::string::npos ? "." : url.substr(0, slash);
  if (folder_.empty()) {
    sort_in(url, storage_.stat(url));
  } else {
    storage_.list(folder_, [&](const Storage::Object& object) {
      if (may_hold_annotations(lower_case(object.name)) && !object.is_dangling) sort_in(object.name, object);
    });
  }
  if (!names_.empty()) return;
  std::vector<std::string> known;
  for (const auto& [name, type] : formats_) known.push_back(fmt::format("{} ({})", name, type.text));
  fail(ErrorKind::data, "{}: no annotations in a known format{}; known are {}", line_text(url),
       unknown_ == 0
           ? ", and no file whose name ends in .json, .xml, .txt, .csv or .yaml"
           : fmt::format(", and {} other file{}, such as '{}'", unknown_, unknown_ == 1 ? "" : "s", line_text(first_unknown_)),
       fmt::join(known, ", "));
}

void FoundAnnotations::sort_in(const std::string& name, const Storage::Object& object) {
  ByteBuffer begin;
  begin.resize(std::min<std::size_t>(object.bytes, AnnotationFormat::kBegin));
  if (begin.size() > 0) storage_.read(url_of(folder_, name), 0, begin.size(), begin.data());
  for (const auto& [format, type] : formats_) {
    if (!type.format->recognises(name, {reinterpret_cast<const char*>(begin.data()), begin.size()})) continue;
    names_[format].push_back(name);
    fingerprint_ = combine(fingerprint_, fingerprint_of(object));
    return;
  }
  if (unknown_++ == 0) first_unknown_ = url_of(folder_, name);
}

void FoundAnnotations::read(AnnotationSink& sink) const {
  for (const auto& [format, names] : names_) {
    Files files(storage_, folder_, names);
    formats_.find(format)->format->read(files, sink);
  }
}

bool FoundAnnotations::list_empty_images() const {
  return std::ranges::all_of(names_, [&](const auto& entry) { return formats_.find(entry.first)->format->lists_empty_images(); });
}

}  // namespace millrace
