// TOML documents as Values with positions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "config/base_files.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// Origins of values that a reference brought into a text: a base file has `size = "${image.side}"`, and another file or --set
// gives the side. A mistake in the size is a mistake there.
class Origins {
 public:
  // `is_later`: whether a text overrules another; see later_texts().
  explicit Origins(Overrules is_later) : is_later_(std::move(is_later)) {}

  // Notes that the text at `text` was made with the value at `from`. With several, the overruling one counts.
  void note(const Position& from, const Position& text);

  // Moves values to their origins. A list with such a value in it moves too; tables stay where they are written.
  void apply(Value& value) const;

 private:
  using Key = std::tuple<std::string, int, int>;
  static Key key(const Position& at) { return {at.file ? *at.file : std::string(), at.line, at.column}; }

  Overrules is_later_;
  std::map<Key, Position> from_;
};

// Parses a document; members keep their written order. Empty after a mistake, which is in `errors`. `name`: the file's name in
// positions, or the option that gave the text.
std::optional<Value> parse_toml(std::string_view text, const std::string& name, Diagnostics& errors);

// Parses the value in `--set key=`: TOML, or else plain text. Empty for invalid TOML.
std::optional<Value> parse_set_value(const std::string& text, std::string& mistake);

// The files read by read_document().
struct DocumentSources {
  std::vector<std::string> files;  // as in positions, each before the one that it extends
  std::set<std::string> named;     // the first key of each path in a reference, including references replaced by a later file
  BaseFiles bases;                 // those of `files` shipped with Millrace
};

// Reads a file and the files that it `extends`: a file relative to its own folder, or a base file (see shipped.h). Tables are
// merged over the extended ones, key by key; lists and plain values replace, and the text "unset" removes a key. References stay
// unevaluated. `at`: position that names the file. `made_by`: the option that made the file, used in positions instead of its
// path; "": a user's file. `sources`: receives the files read; may be null.
std::optional<Value> read_document(const std::string& path, const Position& at, Diagnostics& errors,
                                   const std::string& made_by = {}, DocumentSources* sources = nullptr);

// A parsed --set option.
struct Override {
  std::vector<std::string> path;
  bool is_new = false;  // the document lacked the key
};
// Applies "key.path=value" to the document. Empty after a mistake, which is in `errors`. The value's position names the key:
// "--set train.batch.size".
std::optional<Override> apply_override(const std::string& option, Value& document, Diagnostics& errors);

// Evaluates every reference within the document (see expression.h). `referred`: receives all paths in references. `origins`:
// receives where values come from; may be null.
Value resolve_document(const Value& document, std::set<std::string>& referred, Diagnostics& errors, Origins* origins = nullptr);

// `resolved` for storage: texts that `document`, its source, takes from environment variables become ${env.NAME} again. `words`:
// texts that are not secret and stay, so that changes are detected on resume.
Value with_environment_kept(Value resolved, const Value& document, const std::set<std::string>& words = {});
// A stored document with the current environment.
Value with_environment(const Value& kept);

// The message for a missing file: "file 'x.toml' does not exist; nearest is 'y.toml'". It may be a folder.
std::string no_such_file(const std::string& path);

}  // namespace millrace
