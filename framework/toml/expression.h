// References and arithmetic in texts: "${width} * 4", "${data.root}/train". The same rules hold in pipelines and networks.
//
// The rules, for a text with at least one ${...} in it (a text without one is never touched; "$${" stands for "${"):
//   1. A text that is one reference and nothing else becomes the value referred to, of whatever kind.
//   2. A text that consists of references to numbers, numbers, + - * / // and parentheses, in an order that makes an expression,
//      becomes its result. Since '-' and '/' also occur in names and paths, they are operators only between blanks: "${a} / 2" is a
//      division, "${year}/7" is a path, "${a} - 1" a difference, "${name}-1" a name. ('-' before an operand is a sign.)
//   3. Any other text stays text, with values inserted in TOML notation, texts without quotes.
// Integers stay integers; a division with a remainder gives a real, and // rounds down. ${env.NAME} is an environment variable;
// under rules 1 and 2 its text is read as a number, true or false if possible.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// Resolves names. Values are free of references. Const and thread-safe unless a derived class states otherwise.
class Scope {
 public:
  virtual ~Scope() = default;
  // The value of "key.path". Empty after a mistake, whose reason is in `errors` (at `at`).
  virtual std::optional<Value> find(std::string_view path, const Position& at, Diagnostics& errors) const = 0;
  // Whether ${env.NAME} stays unexpanded in texts, for storage: it may be a password.
  virtual bool keeps_environment() const { return false; }
  // Notes that the text at `text` was made with the value at `from`.
  virtual void was_made_with(const Position& /*from*/, const Position& /*text*/) const {}
};

// The keys of a table; nested ones by their path. Returned values are limited to 64 KiB in all. Not thread-safe.
class TableScope : public Scope {
 public:
  explicit TableScope(Value table) : table_(std::move(table)) {}
  std::optional<Value> find(std::string_view path, const Position& at, Diagnostics& errors) const override;

 private:
  Value table_;
  mutable std::size_t inserted_ = 0;  // characters
};

// Evaluates every text in `value`; positions stay where they are written. A text with a failing reference is reported and left
// unchanged, so that further mistakes can be found.
Value evaluate(const Value& value, const Scope& scope, Diagnostics& errors);

// Whether a text holds a reference.
bool has_reference(std::string_view text);

// Reports an unknown reference. Candidates for the nearest name are the keys below `parent`, where the path ends, and those of
// the whole document, `root`.
void report_unknown_reference(std::string_view path, const Value& root, const Value& parent, std::string_view parent_path,
                              const Position& at, Diagnostics& errors);

}  // namespace millrace
