// The shards of a path.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/storage.h"
#include "millrace/util/files.h"

namespace millrace {

struct Shard {
  Storage* storage = nullptr;
  std::string url;
  std::uint64_t bytes = 0;
  std::string version;
  bool known = false;  // size and version are known; otherwise stat() must be called
};

// A path to shards, whose first `literal` characters are not a pattern.
struct ShardPath {
  std::string text;
  std::size_t literal = 0;
};

// Expands a user's path. As much of its beginning as exists is literal, so that folders may have names such as "set [1]"; braces
// in the rest are expanded. `exists` checks a path, and is called only if there is a pattern.
std::vector<ShardPath> shard_paths(const std::string& path, const std::function<bool(const std::string&)>& exists);

// "a-{08..10}.tar" -> a-08.tar, a-09.tar, a-10.tar; "{x,y}/z" -> x/z, y/z; several braces: every combination, the last one
// running fastest. Throws ErrorKind::usage.
std::vector<std::string> expand_braces(std::string_view text);

// A path with '*', '?' or '[' means every matching object ('*' does not match '/'); one that ends in ".tar" is a shard, any other
// a folder: every object below it that ends in ".tar". Sorted by path, then by name. Compressed archives in a folder are added to
// `left_out`. Errors: ErrorKind::data if nothing is found; ErrorKind::usage for compressed archives given by name.
std::vector<Shard> find_shards(const std::vector<ShardPath>& paths, const std::function<Storage&(const std::string&)>& storage,
                               LeftOut& left_out);

// Missing numbers among numbered shards that were found by listing, and the place of the first: "2 between 'a-0.tar' and
// 'a-3.tar'"; "" if none. If most are missing, the numbers mean something else, such as dates.
std::string missing_numbers(const std::vector<Shard>& shards);

// The part of a path that must exist: the path itself, or the folder before its pattern.
std::string_view searched_folder(const ShardPath& path);

std::string_view folder_of(std::string_view url);  // the part before the last '/'; "." if there is none

}  // namespace millrace
