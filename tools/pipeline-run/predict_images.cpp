#include "predict_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "config/document.h"
#include "millrace/error.h"
#include "millrace/util/files.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

bool is_url(const std::string& path) { return path.find("://") != std::string::npos; }

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// read_tar has its own patterns, and shard numbers in braces.
bool is_pattern_of_shards(const std::string& name) {
  return name.find_first_of("*?[{") != std::string::npos && name.find(".tar") != std::string::npos;
}

// A shell's expansion of the pattern, sorted.
std::vector<std::string> files_of_pattern(const std::string& pattern) {
  if (pattern.find_first_of("*?[{") == std::string::npos) return {};
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      if (is_there(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);  // braces alone match missing names
    }
  }
  ::globfree(&found);
  return files;
}

[[noreturn]] void refuse_missing(const std::vector<std::string>& missing, std::size_t names) {
  constexpr std::size_t kMaxNamed = 20;
  std::string text;
  for (const std::string& name : missing) {
    if (&name - missing.data() == kMaxNamed) break;
    const bool is_pattern = name.find_first_of("*?[{") != std::string::npos;
    text += "\n  " + (is_pattern ? fmt::format("no file matches '{}'", line_text(name)) : no_such_file(name));
  }
  if (missing.size() > kMaxNamed) text += fmt::format("\n  and {} more", missing.size() - kMaxNamed);
  fail(ErrorKind::usage, "--predict: {} of {} names match no file, and nothing was predicted:{}", missing.size(), names, text);
}

// The folder that contains the images: the folder itself, or a file's.
fs::path folder_of(const std::string& data) {
  std::error_code ignored;
  return fs::is_regular_file(data, ignored) ? fs::path(data).parent_path() : fs::path(data);
}

std::string common_folder(const std::vector<std::string>& named) {
  if (named.size() == 1) return folder_of(named.front()).string();
  fs::path common = folder_of(named.front());
  for (const std::string& path : named) {
    const fs::path other = folder_of(path);
    fs::path same;
    const auto end = std::mismatch(common.begin(), common.end(), other.begin(), other.end()).first;
    for (auto part = common.begin(); part != end; ++part) same /= *part;
    common = same;
  }
  return common.string();
}

}  // namespace

bool is_image_file(const std::string& path) {
  std::error_code ignored;
  return usual_images().match(path) && (is_url(path) || fs::is_regular_file(path, ignored));
}

std::string list_of(const std::vector<std::string>& paths) {
  std::string text = "file_name\r\n";
  for (const std::string& path : paths) {
    text += '"';  // raw bytes: append_csv() would convert to text
    for (const char byte : path) text.append(byte == '"' ? 2 : 1, byte);
    text += "\"\r\n";
  }
  return text;
}

std::string absolute_path(const std::string& path) {
  if (is_url(path) || fs::path(path).is_absolute()) return path;
  const fs::path whole = fs::absolute(path);
  fs::path plain = whole.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();  // "." and "photos/"
  std::error_code ignored;
  return (fs::equivalent(plain, whole, ignored) ? plain : whole).string();  // ".." behind a link leads elsewhere
}

std::vector<std::string> named_images(const std::vector<std::string>& names) {
  std::vector<std::string> found, missing;
  for (const std::string& given : names) {
    const std::string name = file_url_path(given);
    const std::vector<std::string> files =
        is_url(name) || is_there(name) || is_pattern_of_shards(name) ? std::vector{name} : files_of_pattern(name);
    if (files.empty()) missing.push_back(name);
    for (const std::string& file : files) found.push_back(absolute_path(file));
  }
  if (missing.empty()) return found;
  // For a single name its source's error has more detail: what else is there.
  if (names.size() == 1 && missing.front().find_first_of("*?") == std::string::npos) return {absolute_path(missing.front())};
  refuse_missing(missing, names.size());
}

PredictedImages readable_images(const std::vector<std::string>& named, const std::string& folder, MadeFiles& files) {
  PredictedImages images{{}, common_folder(named)};
  std::vector<std::string> row;  // image files
  std::size_t lists = 0;
  const auto end_row = [&] {
    if (row.empty()) return;
    const std::string number = ++lists == 1 ? "" : fmt::format("-{}", lists);
    const fs::path list = fs::path(folder) / fmt::format("images{}.csv", number);
    files.write(list, list_of(std::exchange(row, {})));
    images.data.push_back(absolute_path(list.string()));
  };
  for (const std::string& name : named) {
    if (is_image_file(name)) {
      row.push_back(name);
      continue;
    }
    end_row();
    images.data.push_back(name);
  }
  end_row();
  return images;
}

}  // namespace millrace
