#include "toml/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "millrace/util/paths.h"
#include "millrace/util/text.h"
#include "toml/expression.h"
#include "toml/limits.h"
#include "toml/shipped.h"
#include "toml/variables.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

std::optional<std::string> read_text(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Removes an inherited key.
constexpr std::string_view kUnset = "unset";
bool is_unset(const Value& value) { return value.kind() == Value::Kind::text && value.text() == kUnset; }

std::map<std::string, std::size_t> places_by_key(const Table& table) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < table.size(); ++i) places.emplace(table[i].key, i);
  return places;
}

// Merges `over` into `base`: tables key by key; other values replace, and "unset" removes.
void merge(Value& base, const Value& over, Diagnostics& errors) {
  const std::map<std::string, std::size_t> inherited = places_by_key(base.table());  // a table may have very many keys
  std::set<std::string> unset;
  for (const Member& member : over.table()) {
    const auto place = inherited.find(member.key);
    Value* const present = place != inherited.end() ? &base.table()[place->second].value : nullptr;
    if (is_unset(member.value)) {
      if (present) {
        unset.insert(member.key);
      } else {
        errors.add(member.at, fmt::format("'{}' is not inherited, so there is nothing to unset: leave it out", member.key));
      }
    } else if (present && present->kind() == Value::Kind::table && member.value.kind() == Value::Kind::table) {
      merge(*present, member.value, errors);
      present->set_position(member.value.at());
    } else if (present) {
      *present = member.value;
    } else {
      base.table().push_back(member);
    }
  }
  if (!unset.empty()) std::erase_if(base.table(), [&](const Member& member) { return unset.contains(member.key); });
}

// Relative to the file with `extends`.
std::string file_next_to(const std::string& path, const Value& extends) {
  return (fs::path(path).parent_path() / extends.text()).lexically_normal().string();
}

// A folder may have a base file's name.
bool names_base(const std::string& path, const Value& extends) {
  std::error_code ignored;
  const std::string next_to_file = file_next_to(path, extends);
  return is_shipped_name(extends.text()) && (is_absent(next_to_file) || fs::is_directory(next_to_file, ignored));
}

// The file that `extends` names: relative to its own file, or else a base file. Empty after a mistake, which is in `errors`.
std::optional<std::string> extended_file(const std::string& path, const Value& extends, Diagnostics& errors) {
  if (!names_base(path, extends)) return file_next_to(path, extends);
  const fs::path folder = fs::path(path).parent_path();
  auto file = find_shipped(kBases, extends.text(), folder);
  if (!file) errors.add(extends.at(), no_such_name(kBases, extends.text(), folder));
  return file;
}

// For a path that a shell would have expanded.
std::string tilde_hint(const std::string& path) {
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nothing changes it
  if (!path.starts_with("~/") || home == nullptr) return {};
  return fmt::format(": only shells expand ~; write '{}{}', or ${{env.HOME}}{}", home, path.substr(1), path.substr(1));
}

// The kind of a file often given instead of TOML, by its ending; null: it may be TOML.
const char* kind_without_toml(const std::string& path) {
  static const std::map<std::string_view, const char*> kKinds = {
      {".yaml", "YAML"},     {".yml", "YAML"},     {".json", "JSON"},          {".jpg", "an image"},
      {".jpeg", "an image"}, {".png", "an image"}, {".csv", "a table"},        {".py", "Python"},
      {".pth", "weights"},   {".pt", "weights"},   {".safetensors", "weights"}};
  const auto found = kKinds.find(fs::path(path).extension().string());
  return found == kKinds.end() ? nullptr : found->second;
}

std::optional<Value> read_chain(const std::string& path, const Position& at, const std::string& made_by, DocumentSources& sources,
                                Diagnostics& errors) {
  std::vector<std::string>& chain = sources.files;
  chain.push_back(path);
  if (sources.bases.extends.file) sources.bases.files.push_back(path);
  if (std::find(chain.begin(), chain.end() - 1, path) != chain.end() - 1) {
    errors.add(at, fmt::format("'extends' forms a cycle: {}", fmt::join(chain, " -> ")));
    return std::nullopt;
  }
  const auto text = read_text(path);
  if (!text) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      errors.add(at, fmt::format("'{}' is a folder, and a pipeline or a network is a file", path));
    } else {
      const bool is_there = fs::exists(path, ignored);
      const bool is_special = is_there && !fs::is_regular_file(path, ignored);
      errors.add(at, is_special ? fmt::format("'{}' is not a regular file: copy its contents into one", path)
                     : is_there ? fmt::format("cannot read '{}': {}", path, std::generic_category().message(errno))
                                : no_such_file(path));
    }
    return std::nullopt;
  }
  if (const char* const kind = kind_without_toml(path)) {
    errors.add(at, fmt::format("'{}' is {}, and a pipeline or a network is a TOML file, such as photos.toml", path, kind));
    return std::nullopt;
  }
  auto document = parse_toml(*text, made_by.empty() ? path : made_by, errors);
  if (!document) return std::nullopt;
  for (const Reference& reference : references(*document)) sources.named.insert(reference.name);
  const Value* extends = document->find("extends");
  if (!extends) return document;
  if (extends->kind() != Value::Kind::text) {
    errors.add(extends->at(), fmt::format("'extends' must be text, the name of a file, found {}", found(*extends)));
    return std::nullopt;
  }
  const std::optional<std::string> base_path = extended_file(path, *extends, errors);
  if (!base_path) return std::nullopt;
  if (!sources.bases.extends.file && names_base(path, *extends)) sources.bases.extends = extends->at();
  auto base = read_chain(*base_path, extends->at(), "", sources, errors);
  if (!base) return std::nullopt;
  document->erase("extends");
  merge(*base, *document, errors);
  base->set_position(document->at());
  return base;
}

// The keys of "a.b.c"; empty if it is not such a path.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> keys;
  while (true) {
    const std::size_t dot = path.find('.');
    keys.emplace_back(path.substr(0, dot));
    if (keys.back().empty() || keys.back().find_first_of(" \t\"'[]{}") != std::string::npos) return {};
    if (dot == std::string_view::npos) return keys;
    path.remove_prefix(dot + 1);
  }
}

// Sets the position of every value below `value`.
void place(Value& value, const Position& at) {
  value.set_position(at);
  if (value.kind() == Value::Kind::array) {
    for (Value& element : value.array()) place(element, at);
  } else if (value.kind() == Value::Kind::table) {
    for (Member& member : value.table()) {
      member.at = at;
      place(member.value, at);
    }
  }
}

}  // namespace

std::string no_such_file(const std::string& path) {
  constexpr std::size_t kFewEnough = 8;
  if (const std::string why = why_unreachable(path); !why.empty()) return fmt::format("'{}' {}", path, why);
  const fs::path wanted = path, folder = wanted.parent_path();
  std::vector<std::string> all, others;  // others: those with the same ending
  std::error_code ignored;
  if (fs::is_directory(wanted, ignored)) return fmt::format("'{}' is a folder: name the file in it", path);
  for (const auto& entry : fs::directory_iterator(folder.empty() ? fs::path(".") : folder, ignored)) {
    all.push_back(entry.path().filename().string());
    if (entry.path().extension() == wanted.extension()) others.push_back(all.back());
  }
  std::sort(all.begin(), all.end());
  std::sort(others.begin(), others.end());
  const std::string message = fmt::format("file '{}' does not exist{}", path, tilde_hint(path));
  const auto likely = nearest_name(wanted.filename().string(), others);
  if (const auto nearest = likely ? likely : nearest_name(wanted.filename().string(), all)) {
    return fmt::format("{}; nearest is '{}'", message, (folder / *nearest).string());
  }
  if (others.empty() || others.size() > kFewEnough) return message;
  return fmt::format("{}; its folder has '{}'", message, fmt::join(others, "', '"));
}

std::optional<Value> read_document(const std::string& path, const Position& at, Diagnostics& errors, const std::string& made_by,
                                   DocumentSources* sources) {
  DocumentSources read;
  auto document = read_chain(fs::path(path).lexically_normal().string(), at, made_by, read, errors);
  if (!made_by.empty()) read.files.front() = made_by;
  if (sources != nullptr) *sources = std::move(read);
  return document;
}

std::optional<Override> apply_override(const std::string& option, Value& document, Diagnostics& errors) {
  const Position at{std::make_shared<const std::string>("--set"), 0, 0};
  const std::size_t equals = option.find('=');
  Override made;
  if (equals != std::string::npos) made.path = split_path(std::string_view(option).substr(0, equals));
  if (made.path.empty()) {
    errors.add(at, fmt::format("expected key.path=value, found '{}'", option));
    return std::nullopt;
  }
  if (!is_utf8(option)) {
    errors.add(
        at, fmt::format("'{}' is not UTF-8, as pipeline files must be: rename the file, or use a link to it", line_text(option)));
    return std::nullopt;
  }
  std::string mistake;
  auto value = parse_set_value(option.substr(equals + 1), mistake);
  if (!value) {
    errors.add(at, fmt::format("the value of '{}' is not TOML: {}", option, mistake));
    return std::nullopt;
  }
  const Position place_of_value{std::make_shared<const std::string>("--set " + option.substr(0, equals)), 0, 0};
  Value* table = &document;
  for (std::size_t i = 0; i + 1 < made.path.size(); ++i) {
    if (!table->find(made.path[i])) table->set(made.path[i], Value(Table{}, place_of_value));
    table = table->find(made.path[i]);
    if (table->kind() == Value::Kind::table) continue;
    made.path.resize(i + 1);
    errors.add(at, fmt::format("'{}' cannot be set: '{}' is {}, not a table", option.substr(0, equals), fmt::join(made.path, "."),
                               found(*table)));
    return std::nullopt;
  }
  made.is_new = !table->find(made.path.back());
  if (is_unset(*value)) {
    if (made.is_new) {
      errors.add(at, fmt::format("'{}' unsets a key that is not set", option));
      return std::nullopt;
    }
    table->erase(made.path.back());
    return made;
  }
  place(*value, place_of_value);
  table->set(made.path.back(), std::move(*value));
  return made;
}

// ---- references ----

namespace {

// Limit in characters for text that references insert into a document, so that a few lines cannot exhaust memory.
constexpr std::size_t kMaxInserted = std::size_t{1} << 22;
// Limit for references to references, each a few calls deep.
constexpr std::size_t kLongestChain = 200;

// The document's own keys, each evaluated once, on demand. Not thread-safe.
class DocumentScope : public Scope {
 public:
  DocumentScope(const Value& document, std::set<std::string>& referred, bool keeps_environment = false,
                Origins* origins = nullptr)
      : document_(document), referred_(referred), keeps_environment_(keeps_environment), origins_(origins) {}

  bool keeps_environment() const override { return keeps_environment_; }
  void was_made_with(const Position& from, const Position& text) const override {
    if (origins_ != nullptr) origins_->note(from, text);
  }

  std::optional<Value> find(std::string_view path, const Position& at, Diagnostics& errors) const override {
    referred_.insert(std::string(path));
    if (const auto first = std::find(active_.begin(), active_.end(), path); first != active_.end()) {
      std::vector<std::string> circle(first, active_.end());
      circle.emplace_back(path);
      errors.add(at, fmt::format("'${{{}}}' refers to itself: {}", path, fmt::join(circle, " -> ")));
      return std::nullopt;
    }
    if (active_.size() > kLongestChain) {
      errors.add(at, fmt::format("'${{{}}}' is the end of a chain of more than {} references", path, kLongestChain));
      return std::nullopt;
    }
    active_.emplace_back(path);
    auto value = walk(path, at, errors);
    active_.pop_back();
    if (!value) return std::nullopt;
    if (inserted_ > kMaxInserted) return reported_already();
    inserted_ += size_of(*value, kMaxInserted);
    if (inserted_ <= kMaxInserted) return value;
    errors.add(at, fmt::format("references insert more than {} characters into this file", kMaxInserted));
    return std::nullopt;
  }

 private:
  std::optional<Value> walk(std::string_view path, const Position& at, Diagnostics& errors) const {
    const Value* node = &document_;
    Value behind;            // value of a reference in the path
    bool is_written = true;  // the node is in the document
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const std::string_view key = path.substr(begin, end - begin);
      const Value* next = is_written ? written_member(*node, key) : node->find(key);
      if (!next) {
        report_unknown_reference(path, document_, *node, path.substr(0, begin == 0 ? 0 : begin - 1), at, errors);
        return std::nullopt;
      }
      if (end == path.size()) return is_written ? evaluated(*next, at, errors) : std::optional(*next);
      node = next;
      if (is_written && node->kind() == Value::Kind::text && has_reference(node->text())) {
        auto value = evaluated(*node, at, errors);
        if (!value) return std::nullopt;
        behind = std::move(*value);
        node = &behind;
        is_written = false;
      }
      begin = end + 1;
    }
  }

  // Like node.find(key), in time independent of the table's size, since each of its keys may refer to another.
  const Value* written_member(const Value& node, std::string_view key) const {
    if (node.kind() != Value::Kind::table) return nullptr;
    const auto [known, is_new] = places_.try_emplace(&node);
    if (is_new) known->second = places_by_key(node.table());
    const auto place = known->second.find(std::string(key));
    return place == known->second.end() ? nullptr : &node.table()[place->second].value;
  }

  // The value of a node of the document; empty if it has mistakes, which are reported once.
  std::optional<Value> evaluated(const Value& node, const Position& at, Diagnostics& errors) const {
    const auto [place, is_new] = nodes_.try_emplace(&node);
    Node& known = place->second;
    if (is_new) {
      known.first = active_.size() - 1;
      const std::size_t mistakes = errors.size(), old_ones = reported_already_;
      Value value = evaluate(node, *this, errors);
      if (errors.size() == mistakes && reported_already_ == old_ones) known.value = std::move(value);
      known.is_done = true;
    } else if (!known.is_done) {  // reached by another path
      std::vector<std::string> circle(active_.begin() + static_cast<std::ptrdiff_t>(known.first), active_.end());
      circle.push_back(circle.front());
      errors.add(at, fmt::format("'${{{}}}' refers to itself: {}", active_.back(), fmt::join(circle, " -> ")));
    } else if (!known.value) {
      return reported_already();
    }
    return known.value;
  }

  std::optional<Value> reported_already() const {
    ++reported_already_;
    return std::nullopt;
  }

  struct Node {
    bool is_done = false;
    std::size_t first = 0;       // index in active_ of the path that led to it
    std::optional<Value> value;  // empty: it has mistakes
  };

  const Value& document_;
  std::set<std::string>& referred_;
  const bool keeps_environment_;
  Origins* const origins_;
  mutable std::vector<std::string> active_;
  mutable std::map<const Value*, Node> nodes_;
  mutable std::map<const Value*, std::map<std::string, std::size_t>> places_;  // indices of members, by table
  mutable std::size_t inserted_ = 0, reported_already_ = 0;
};

}  // namespace

Value resolve_document(const Value& document, std::set<std::string>& referred, Diagnostics& errors, Origins* origins) {
  return evaluate(document, DocumentScope(document, referred, false, origins), errors);
}

namespace {

// Resolves environment variables only.
class EnvironmentScope : public Scope {
 public:
  std::optional<Value> find(std::string_view, const Position&, Diagnostics&) const override { return std::nullopt; }
};

// Keeps numbers, including results of arithmetic, since a changed learning rate must be detected on resume. Secrets are texts;
// not even their hash is kept, since short ones can be guessed from it.
void keep_environment(Value& resolved, const Value& kept, const std::set<std::string>& words) {
  if (kept.kind() == Value::Kind::table && resolved.kind() == Value::Kind::table) {
    const std::map<std::string, std::size_t> places = places_by_key(kept.table());
    for (Member& member : resolved.table()) {
      const auto same = places.find(member.key);
      if (same != places.end()) keep_environment(member.value, kept.table()[same->second].value, words);
    }
  } else if (kept.kind() == Value::Kind::array && resolved.kind() == Value::Kind::array) {
    for (std::size_t i = 0; i < std::min(kept.array().size(), resolved.array().size()); ++i) {
      keep_environment(resolved.array()[i], kept.array()[i], words);
    }
  } else if (kept.kind() == Value::Kind::text && kept.text().find("${env.") != std::string::npos) {
    if (resolved.kind() == Value::Kind::text && !words.contains(resolved.text())) resolved = Value(kept.text(), resolved.at());
  }
}

}  // namespace

Value with_environment_kept(Value resolved, const Value& document, const std::set<std::string>& words) {
  std::set<std::string> ignored;
  Diagnostics same;  // already reported
  keep_environment(resolved, evaluate(document, DocumentScope(document, ignored, true), same), words);
  return resolved;
}

Value with_environment(const Value& kept) {
  Diagnostics ignored;
  return evaluate(kept, EnvironmentScope(), ignored);
}

void Origins::note(const Position& from, const Position& text) {
  if (!from.file || !text.file) return;
  const auto before = from_.find(key(from));
  const Position origin = before != from_.end() ? before->second : from;
  const auto known = from_.find(key(text));
  if (is_later_(origin, known != from_.end() ? known->second : text)) from_[key(text)] = origin;
}

void Origins::apply(Value& value) const {
  if (const auto known = from_.find(key(value.at())); known != from_.end()) return value.set_position(known->second);
  if (value.kind() == Value::Kind::table) {
    for (Member& member : value.table()) apply(member.value);
  } else if (value.kind() == Value::Kind::array) {
    for (Value& element : value.array()) {
      const auto moved = from_.find(key(element.at()));
      apply(element);
      if (moved != from_.end()) value.set_position(moved->second);
    }
  }
}

}  // namespace millrace
