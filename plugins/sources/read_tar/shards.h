// Which shards a path means.
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
  bool known = false;  // bytes and version; else stat() is still to be asked
};

// A path to shards, of which the first `literal` characters are meant as they stand.
struct ShardPath {
  std::string text;
  std::size_t literal = 0;
};

// What a user's path stands for. As much of its beginning as exists is taken as it is written, so that folders may have names
// such as "set [1]"; braces in the rest are expanded. `exists` says so of a path, and is asked only where there is a pattern.
std::vector<ShardPath> shard_paths(const std::string& path, const std::function<bool(const std::string&)>& exists);

// "a-{08..10}.tar" -> a-08.tar, a-09.tar, a-10.tar; "{x,y}/z" -> x/z, y/z; several braces: every combination, the last one
// running fastest. Throws ErrorKind::usage.
std::vector<std::string> expand_braces(std::string_view text);

// A path with '*', '?' or '[' is every object of that form ('*' does not match '/'); one that ends in ".tar" is a shard, any
// other a folder: every object below it that ends in ".tar". In the order of paths, then of names. Compressed archives in a
// folder are told to `left_out`. Errors: ErrorKind::data where nothing is found; ErrorKind::usage for compressed archives that
// are named.
std::vector<Shard> find_shards(const std::vector<ShardPath>& paths, const std::function<Storage&(const std::string&)>& storage,
                               LeftOut& left_out);

// Of shards that were found by listing and are numbered, those that are missing, and where the first is: "2 between 'a-0.tar' and
// 'a-3.tar'"; "": none is. Where most are missing the numbers are something else, such as dates.
std::string missing_numbers(const std::vector<Shard>& shards);

// What must be there for a path to mean anything: the path itself, or the folder that its form begins with.
std::string_view where_to_look(const ShardPath& path);

std::string_view folder_of(std::string_view url);  // what comes before the last '/'; "." where there is none

}  // namespace millrace
