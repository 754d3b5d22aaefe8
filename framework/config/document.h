// TOML documents as Values with positions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/base_files.h"
#include "config/origins.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// Parses a document; members keep the order in which they are written. Nothing, once the mistake is in `errors`.
// `name`: the file's name in positions, or the option that made the text.
std::optional<Value> parse_toml(std::string_view text, const std::string& name, Diagnostics& errors);

// A value as it is written after `--set key=`: TOML, or else plain text. Nothing when it looks like TOML and is wrong.
std::optional<Value> parse_set_value(const std::string& text, std::string& mistake);

// What read_document() read.
struct DocumentSources {
  std::vector<std::string> files;  // as positions name them, each before the one that it extends
  std::set<std::string> named;     // the first key of each path in a reference, also of one that a later file replaces
  BaseFiles bases;                 // those of `files` that come with Millrace
};

// Reads a file and what it `extends`: a file named relative to its own folder, or a base file (see shipped.h), whose tables it is
// merged over, key by key; lists and plain values replace, and the text "unset" takes a key away. References are left
// unevaluated. `at`: who names the file. `made_by`: the option that made it, which then stands in positions instead of its path;
// "": it is the user's. `sources`: gets what was read; null: not asked for.
std::optional<Value> read_document(const std::string& path, const Position& at, Diagnostics& errors,
                                   const std::string& made_by = {}, DocumentSources* sources = nullptr);

// A --set option, taken apart.
struct Override {
  std::vector<std::string> path;
  bool is_new = false;  // the document had no such key
};
// Applies "key.path=value" to the document. Nothing, once the mistake is in `errors`. The value's position names the key:
// "--set train.batch.size".
std::optional<Override> apply_override(const std::string& option, Value& document, Diagnostics& errors);

// Evaluates every reference within the document (see expression.h). `referred`: every path that a reference names. `origins`:
// gets where values come from; null: not asked for.
Value resolve_document(const Value& document, std::set<std::string>& referred, Diagnostics& errors, Origins* origins = nullptr);

// `resolved` as it is kept: where `document`, from which it was made, has the text of an environment variable, with ${env.NAME}
// in place of it. `words`: texts that are no secret and stay, so that another one is seen when a run resumes.
Value with_environment_kept(Value resolved, const Value& document, const std::set<std::string>& words = {});
// A document that was kept, with what the environment says now.
Value with_environment(const Value& kept);

// What a message says of a file that is not there: "there is no file 'x.toml'; nearest is 'y.toml'". It may be a folder.
std::string no_such_file(const std::string& path);

}  // namespace millrace
