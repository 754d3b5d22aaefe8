#include "class_list.h"

#include <map>
#include <set>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/text.h"

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
    if (!is_new)
      fail(ErrorKind::data, "{}:{}: class '{}' stands in line {} already", url, number, line_text(line), before->second);
    names.push_back(line);
  }
  return names;
}

}  // namespace

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
      fail(
          ErrorKind::data,
          "'{}' names other classes than '{}': read the folders as two sources of a `mix`, which unites classes by name, or give "
          "`classes` if the labels mean the same in both",
          url, listed_in);
    }
  }
  return classes;
}

}  // namespace millrace
