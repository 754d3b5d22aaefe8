// A configuration value with its position. The framework, its plugins and its tools see configuration only in this form: toml++
// stays inside config/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace {

struct Position {
  // Or the option that gave the value, with its dashes: "--set". Null: a default, or a test.
  std::shared_ptr<const std::string> file;
  int line = 0;    // from 1
  int column = 0;  // from 1
};

std::string to_string(const Position& position);  // "pipelines/cifar10.toml:12:3", "--set", or ""
bool is_in_file(const Position& position);        // a user can open it; false for values from options

class Value;
struct Member;

using Array = std::vector<Value>;
using Table = std::vector<Member>;  // in the order of the file

// Copyable. Integers and reals are distinct, as in TOML.
class Value {
 public:
  enum class Kind { boolean, integer, real, text, array, table };

  Value();  // an empty table
  explicit Value(bool value, Position at = {});
  explicit Value(int value, Position at = {});
  explicit Value(std::int64_t value, Position at = {});
  explicit Value(double value, Position at = {});
  explicit Value(const char* value, Position at = {});
  explicit Value(std::string value, Position at = {});
  explicit Value(Array value, Position at = {});
  explicit Value(Table value, Position at = {});
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  const Position& at() const { return at_; }
  void set_position(Position at) { at_ = std::move(at); }

  // REQUIRES: a value of that kind (number(): integer or real).
  bool boolean() const { return std::get<bool>(data_); }
  std::int64_t integer() const { return std::get<std::int64_t>(data_); }
  double number() const;
  const std::string& text() const { return std::get<std::string>(data_); }
  const Array& array() const { return std::get<Array>(data_); }
  Array& array() { return std::get<Array>(data_); }
  const Table& table() const { return std::get<Table>(data_); }
  Table& table() { return std::get<Table>(data_); }
  bool is_number() const { return kind() == Kind::integer || kind() == Kind::real; }

  const Value* find(std::string_view key) const;  // null if this is not a table or has no such key
  Value* find(std::string_view key);
  void set(std::string_view key, Value value);  // REQUIRES: a table. Replaces or appends.
  bool erase(std::string_view key);

 private:
  std::variant<bool, std::int64_t, double, std::string, Array, Table> data_;
  Position at_;
};

struct Member {
  Member(std::string key_, Position at_, Value value_);
  Member(const Member&);
  Member(Member&&) noexcept;
  Member& operator=(const Member&);
  Member& operator=(Member&&) noexcept;
  ~Member();

  std::string key;
  Position at;  // position of the key
  Value value;
};

const char* to_string(Value::Kind kind);  // "a table", "an integer", ...: for error messages
std::string found(const Value& value);    // describes a value in messages: `3`, `"abc"`, `true`, "a list", "a table"
std::string to_toml(const Value& value);  // a table as a TOML document, anything else as an inline value

// The number of letters to insert, delete, replace or swap with their neighbour to turn one into the other.
std::size_t edit_distance(const std::string& a, const std::string& b);

// The candidate nearest to `name` by edit distance, if near enough to be a plausible typo.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace millrace
