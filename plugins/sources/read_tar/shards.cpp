#include "shards.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::size_t kMaxPaths = 1'000'000;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Expands the text between two braces.
std::vector<std::string> alternatives(std::string_view inside, std::string_view whole) {
  std::vector<std::string> texts;
  if (const std::size_t dots = inside.find(".."); dots != inside.npos) {
    const auto low = number(inside.substr(0, dots)), high = number(inside.substr(dots + 2));
    if (!low || !high || *low > *high || *high - *low >= kMaxPaths) {
      fail(ErrorKind::usage, "path: '{{{}}}' in '{}' is not a range: expected two whole numbers, such as {{000..127}}", inside,
           whole);
    }
    for (std::uint64_t i = *low; i <= *high; ++i) texts.push_back(fmt::format("{:0{}}", i, dots));
    return texts;
  }
  for (std::size_t begin = 0;;) {
    const std::size_t comma = inside.find(',', begin);
    texts.emplace_back(inside.substr(begin, comma - begin));
    if (comma == inside.npos) return texts;
    begin = comma + 1;
  }
}

constexpr const char* kWild = "*?[";

bool is_pattern(const ShardPath& path) { return path.text.find_first_of(kWild, path.literal) != std::string::npos; }

bool is_compressed(std::string_view url) {
  constexpr std::string_view kEnds[] = {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [name = lower_case(url)](auto end) { return name.ends_with(end); });
}

bool is_plain(std::string_view url) { return lower_case(url).ends_with(".tar"); }

void refuse_compressed(std::string_view url) {
  if (!is_compressed(url)) return;
  fail(ErrorKind::usage, "'{}' is compressed: single samples can be read from plain tar archives only; unpack it to .tar first",
       line_text(url));
}

class Finder {
 public:
  Finder(const std::function<Storage&(const std::string&)>& storage, LeftOut& left_out)
      : storage_(storage), left_out_(left_out) {}

  void add(const ShardPath& path) {
    const std::string& text = path.text;
    refuse_compressed(text);
    if (is_pattern(path)) return add_matching(path);
    if (is_plain(text)) return shards_.push_back({&storage_(text), text, 0, {}, false});
    const std::size_t before = shards_.size();
    add_objects(text, [this](const std::string& name) {
      if (is_compressed(name)) left_out_.add({"compressed shard", "compressed shards"}, name);
      return is_plain(name);
    });
    if (shards_.size() > before) return;
    fail(ErrorKind::data, "folder '{}' holds no file that ends in .tar{}", text,
         left_out_.empty() ? "" : ", and there are " + left_out_.list());
  }
  std::vector<Shard> take() { return std::move(shards_); }

 private:
  void add_matching(const ShardPath& path) {
    const std::string folder(searched_folder(path)), &text = path.text;
    const std::string form = text.starts_with(folder + "/") ? text.substr(folder.size() + 1) : text.substr(folder == "/" ? 1 : 0);
    const std::size_t before = shards_.size();
    add_objects(folder, [&](const std::string& name) { return fnmatch(form.c_str(), name.c_str(), FNM_PATHNAME) == 0; });
    if (shards_.size() == before) fail(ErrorKind::data, "no shard matches '{}'", text);
  }

  void add_objects(const std::string& folder, const std::function<bool(const std::string&)>& wanted) {
    Storage& storage = storage_(folder);
    storage.list(folder, [&](Storage::Object object) {
      if (!wanted(object.name) || object.name.ends_with('/')) return;
      const std::string url = folder == "." ? object.name : join_url(folder, object.name);
      refuse_compressed(url);
      shards_.push_back({&storage, url, object.bytes, std::move(object.version), true});
    });
  }

  const std::function<Storage&(const std::string&)>& storage_;
  LeftOut& left_out_;
  std::vector<Shard> shards_;
};

}  // namespace

std::vector<std::string> expand_braces(std::string_view text) {
  std::vector<std::string> texts{""};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t open = rest.find_first_of("{}");
    for (std::string& made : texts) made += rest.substr(0, open);
    if (open == rest.npos) break;
    const std::size_t close = rest.find_first_of("{}", open + 1);
    if (rest[open] != '{' || close == rest.npos || rest[close] != '}')
      fail(ErrorKind::usage, "path: the braces in '{}' are not balanced", text);
    const std::vector<std::string> ends = alternatives(rest.substr(open + 1, close - open - 1), text);
    if (texts.size() * ends.size() > kMaxPaths)
      fail(ErrorKind::usage, "path: '{}' stands for more than {} shards", text, kMaxPaths);
    std::vector<std::string> longer;
    for (const std::string& made : texts) {
      for (const std::string& end : ends) longer.push_back(made + end);
    }
    texts = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return texts;
}

std::vector<ShardPath> shard_paths(const std::string& path, const std::function<bool(const std::string&)>& exists) {
  std::size_t literal = path.size();
  const auto has_pattern = [&] { return literal != path.npos && path.find_first_of("{}*?[") < literal; };
  while (has_pattern() && !exists(path.substr(0, literal))) literal = literal == 0 ? path.npos : path.rfind('/', literal - 1);
  if (!has_pattern()) literal = 0;  // it exists and has no pattern: all of it is read as one
  std::vector<ShardPath> paths;
  for (const std::string& rest : expand_braces(path.substr(literal))) paths.push_back({path.substr(0, literal) + rest, literal});
  return paths;
}

std::vector<Shard> find_shards(const std::vector<ShardPath>& paths, const std::function<Storage&(const std::string&)>& storage,
                               LeftOut& left_out) {
  Finder finder(storage, left_out);
  for (const ShardPath& path : paths) finder.add(path);
  return finder.take();
}

std::string missing_numbers(const std::vector<Shard>& shards) {
  constexpr std::string_view kDigits = "0123456789";
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, std::string>> series;  // by the text around the number
  for (const Shard& shard : shards) {
    const std::string& url = shard.url;
    const std::size_t behind = url.find_last_of(kDigits) + 1, before = url.find_last_not_of(kDigits, behind - 1) + 1;
    const auto value = number(std::string_view(url).substr(before, behind - before));
    if (shard.known && behind > 0 && value) series[{url.substr(0, before), url.substr(behind)}].emplace(*value, url);
  }
  for (const auto& [names, numbers] : series) {
    const std::uint64_t first = numbers.begin()->first, missing = numbers.rbegin()->first - first + 1 - numbers.size();
    if (missing == 0 || missing > numbers.size()) continue;
    std::uint64_t at = first;
    while (numbers.contains(at + 1)) ++at;
    return fmt::format("{} between '{}' and '{}'", missing, line_text(numbers.at(at)),
                       line_text(numbers.upper_bound(at)->second));
  }
  return {};
}

std::string_view searched_folder(const ShardPath& path) {
  const std::string_view text = path.text;
  const std::size_t pattern = text.find_first_of(kWild, path.literal);
  if (pattern == text.npos) return text;
  const std::size_t slash = text.rfind('/', pattern);
  return slash == text.npos ? std::string_view(".") : text.substr(0, std::max<std::size_t>(slash, 1));
}

std::string_view folder_of(std::string_view url) {
  const std::size_t slash = url.rfind('/');
  return slash == url.npos ? std::string_view(".") : url.substr(0, std::max<std::size_t>(slash, 1));
}

}  // namespace millrace
