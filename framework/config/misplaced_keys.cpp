#include "config/misplaced_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/checkpoint_plan.h"
#include "config/overruled_keys.h"
#include "config/plan.h"
#include "config/stop_plan.h"
#include "millrace/optimizer.h"
#include "network/transfer.h"

namespace millrace {
namespace {

using Words = std::vector<std::string>;

Words key_words(std::string_view text) {
  Words words(1);
  for (const char c : text) {
    if (c == '.' || c == '_') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

bool ends_with(const Words& words, const Words& last) {
  return words.size() >= last.size() && std::equal(last.rbegin(), last.rend(), words.rbegin());
}

std::string initials_of(const Words& words) {
  std::string initials;
  for (const std::string& word : words) initials += word.substr(0, 1);
  return initials;
}

// "epochs" for "max_epochs"; "" if there is nothing to remove.
std::string without_quantity(const std::string& key) {
  for (const std::string_view quantity : {"max_", "num_", "n_", "total_"}) {
    if (key.starts_with(quantity)) return key.substr(quantity.size());
  }
  return {};
}

struct KeyTable {
  std::string path;               // "run", "train.optimizer.learning_rate"
  std::string owner;              // its name in messages
  std::size_t graph;              // the graph's number from 1 on; 0: outside graphs
  bool is_general;                // users expect all kinds of keys here
  std::vector<std::string> keys;  // all its keys
  std::vector<std::string> read;  // those for which its reader has a better message
  Value* written;                 // null if it is not in the file
};

// How likely the key `name` of a table is meant by a key in another table; 0 is the likeliest.
std::optional<int> rank_of(const std::string& key, const KeyTable& from, const KeyTable& table, const std::string& name) {
  constexpr std::size_t kLongEnough = 5;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name == key) return 0;
  if (key.size() >= kLongEnough && std::none_of(key.begin(), key.end(), is_digit) && edit_distance(key, name) == 1) return 1;
  const Words words = key_words(key), own = key_words(name);
  if (words.size() > own.size() && ends_with(key_words(table.path + "." + name), words)) return 2;  // batch_size
  if (own.size() > 1 && initials_of(own) == key) return 3;                                          // lr
  if (from.is_general && table.graph == 0 && ends_with(own, words)) return 4;                       // steps of max_steps
  return std::nullopt;
}

class Misplaced {
 public:
  Misplaced(Value& root, const Registry& registry) : registry_(registry) {
    add<RunParams>("run", root);
    add<StopParams>("stop", root);
    add<PlateauParams>("plateau", root);
    add<CheckpointParams>("checkpoint", root);
    add<NetworkParams>("network", root);
    add_variables(tables_.back());
    for (const bool main : {true, false}) {
      for (Member& member : root.table()) {
        const Value* flow = member.value.find("flow");
        if (flow != nullptr && flow->kind() == Value::Kind::array && (member.value.find("every") == nullptr) == main) {
          add_graph(member.key, member.value, flow->array());
        }
      }
    }
  }

  void report(Diagnostics& errors) const {
    for (const KeyTable& table : tables_) {
      if (table.written == nullptr) continue;
      std::erase_if(table.written->table(), [&](const Member& member) {
        if (is_readers(table, member)) return false;
        const std::string clause = clause_of(member.key, table);
        if (!clause.empty()) errors.add(member.at, fmt::format("{} has no key '{}'{}", table.owner, member.key, clause));
        return !clause.empty();
      });
    }
  }

  std::string place_of(const std::string& key) const { return clause_of(key, {"", "", 0, true, {}, {}, nullptr}); }

 private:
  struct Found {
    const KeyTable* table;
    std::string name;
  };

  template <class Params>
  void add(const std::string& name, Value& root) {
    ParamSet<Params> set;
    Params::describe(set);
    add_table(name, fmt::format("[{}]", name), 0, set.infos(), root.find(name));
    tables_.back().is_general = name == "run";
  }

  // An unknown key of [network] is a variable.
  static void add_variables(KeyTable& network) {
    if (network.written == nullptr) return;
    for (const Member& member : network.written->table()) network.keys.push_back(member.key);
    network.written = nullptr;
  }

  // Inner tables come first, since they move when a neighbouring key is removed.
  void add_table(const std::string& path, const std::string& owner, std::size_t graph, const std::vector<ParamInfo>& params,
                 Value* written) {
    if (written != nullptr && written->kind() != Value::Kind::table) written = nullptr;
    KeyTable table{path, owner, graph, false, {}, {}, written};
    for (const ParamInfo& param : params) {
      table.keys.push_back(param.name);
      if (param.type != "table") continue;
      Value* const inner = written != nullptr ? written->find(param.name) : nullptr;
      add_table(fmt::format("{}.{}", path, param.name), fmt::format("'{}'", param.name), graph, param.members, inner);
    }
    tables_.push_back(std::move(table));
  }

  void add_graph(const std::string& name, Value& graph, const Array& flow) {
    ++graphs_;
    KeyTable table{name, fmt::format("[{}]", name), graphs_, true, {}, {"flow", "every", "before"}, &graph};
    for (const Value& entry : flow) {
      if (entry.kind() != Value::Kind::text) continue;
      table.read.push_back(entry.text());
      add_stage(fmt::format("{}.{}", name, entry.text()), entry.text(), graph.find(entry.text()));
    }
    tables_.push_back(std::move(table));
  }

  void add_stage(const std::string& path, const std::string& name, Value* written) {
    const StageType* const type = stage_type_of(name, written, registry_);
    if (type == nullptr) return;
    add_table(path, fmt::format("[{}]", path), graphs_, type->params, written);
    KeyTable& table = tables_.back();
    table.read = {"stage", "from"};
    if (type->takes_optimizer) add_optimizer(*type, table);
  }

  void add_optimizer(const StageType& type, KeyTable& table) const {
    const Value* const written = table.written != nullptr ? table.written->find("type") : nullptr;
    const Value* const name = written != nullptr ? written : type.defaults.find("type");
    for (const auto& [known, optimizer] : registry_.optimizers()) {
      const bool is_it = name != nullptr && name->kind() == Value::Kind::text && name->text() == known;
      for (const ParamInfo& param : optimizer.params) (is_it ? table.keys : table.read).push_back(param.name);
    }
  }

  static bool is_readers(const KeyTable& table, const Member& member) {
    const auto has = [&](const std::vector<std::string>& keys) {
      return std::find(keys.begin(), keys.end(), member.key) != keys.end() || nearest_name(member.key, keys).has_value();
    };
    const bool is_stage = table.keys.empty() && member.value.kind() == Value::Kind::table;
    return is_stage || has(table.keys) || has(table.read);
  }

  // Order: the key's own graph, tables outside graphs, the main graph, other graphs.
  static std::size_t distance(const KeyTable& from, const KeyTable& to) {
    return to.graph == from.graph ? 0 : to.graph == 0 ? 1 : to.graph + 1;
  }

  std::vector<Found> likeliest(const std::string& key, const KeyTable& from) const {
    std::vector<Found> found;
    std::optional<std::pair<int, std::size_t>> least;
    for (const KeyTable& table : tables_) {
      for (const std::string& name : table.keys) {
        const auto rank = rank_of(key, from, table, name);
        if (!rank) continue;
        const std::pair<int, std::size_t> place{*rank, distance(from, table)};
        if (least && place > *least) continue;
        if (!least || place < *least) found.clear();
        least = place;
        found.push_back({&table, name});
      }
    }
    return found;
  }

  // The message's clause about the key; "" if nothing is likely enough.
  std::string clause_of(const std::string& key, const KeyTable& from) const {
    std::vector<Found> found = likeliest(key, from);
    if (const std::string rest = without_quantity(key); found.empty() && !rest.empty()) found = likeliest(rest, from);
    if (found.size() == 2 && found[0].name == key)
      return fmt::format("; [{}] and [{}] have it", found[0].table->path, found[1].table->path);
    if (found.size() != 1) return {};
    const auto& [table, name] = found.front();
    if (name == key) return fmt::format("; [{}] has it", table->path);
    return table == &from ? fmt::format("; nearest is '{}'", name) : fmt::format("; nearest is '{}.{}'", table->path, name);
  }

  const Registry& registry_;
  std::size_t graphs_ = 0;
  std::vector<KeyTable> tables_;
};

}  // namespace

void report_misplaced_keys(Value& root, const Registry& registry, Diagnostics& errors) {
  Misplaced(root, registry).report(errors);
}

std::function<std::string(const std::string&)> likely_places(Value& root, const Registry& registry) {
  return [places = std::make_shared<const Misplaced>(root, registry)](const std::string& key) { return places->place_of(key); };
}

}  // namespace millrace
