#include "weight_formats/torch_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weight_formats/tensor_file.h"

namespace millrace {
namespace {

constexpr std::size_t kDeepestTable = 4, kMostTablesNamed = 8;

struct FoundTable {
  std::string path;  // "ema.module"; "": the pickle itself
  const PickleNode* table = nullptr;
  std::size_t tensors = 0;
};

class TableSearch {
 public:
  TableSearch(const Pickle& pickle, const std::function<bool(const PickleNode& value)>& is_tensor)
      : pickle_(pickle), is_tensor_(is_tensor), root_(pickle.at(pickle.root)) {
    if (root_.kind != PickleNode::Kind::dict) fail(ErrorKind::data, "holds no table of tensors: save model.state_dict()");
  }

  const PickleNode& named(const std::string& inside) {
    const PickleNode* const found = follow(root_, inside);
    if (found != nullptr && tensors_in(*found) > 0) return *found;
    search();
    fail(ErrorKind::data, "has no tensors inside '{}'; {}", shown(inside), said_of_tables());
  }

  const PickleNode& likeliest() {
    for (const char* key : {"state_dict", "model", "model_state_dict"}) {
      const PickleNode* const inner = pickle_.find(root_, key);
      if (inner != nullptr && tensors_in(*inner) > 0) return *inner;
    }
    if (tensors_in(root_) > 0) return root_;
    search();
    if (found_.size() == 1) return *found_.front().table;
    if (found_.empty()) {
      fail(ErrorKind::data, "holds no tensors under names, nor in a table of it; its keys are {}",
           keys_.empty() ? "none" : fmt::format("{}", fmt::join(keys_, ", ")));
    }
    fail(ErrorKind::data,
         "holds several tables of tensors: say which one is meant, weights = {{ file = ..., inside = \"{}\" }}; {}",
         shown(found_.front().path), said_of_tables());
  }

 private:
  std::size_t tensors_in(const PickleNode& dict) const {
    if (dict.kind != PickleNode::Kind::dict) return 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      count += pickle_.at(dict.items[i]).kind == PickleNode::Kind::text && is_tensor_(pickle_.at(dict.items[i + 1])) ? 1 : 0;
    }
    return count;
  }

  // A key may contain dots.
  const PickleNode* follow(const PickleNode& dict, const std::string& path, std::size_t depth = 0) const {
    if (const PickleNode* const whole = pickle_.find(dict, path)) return whole;
    for (std::size_t dot = path.find('.'); dot != std::string::npos && depth < kDeepestTable; dot = path.find('.', dot + 1)) {
      const PickleNode* const next = pickle_.find(dict, path.substr(0, dot));
      const PickleNode* const rest = next == nullptr ? nullptr : follow(*next, path.substr(dot + 1), depth + 1);
      if (rest != nullptr) return rest;
    }
    return nullptr;
  }

  // Level by level. A table may be recursive.
  void search() {
    std::vector<FoundTable> level = {{"", &root_}};
    std::set<const PickleNode*> seen = {&root_};
    for (std::size_t depth = 0; depth < kDeepestTable && !level.empty(); ++depth) {
      std::vector<FoundTable> next;
      for (const FoundTable& each : level) look_into(each, seen, next);
      level = std::move(next);
    }
  }

  void look_into(const FoundTable& outer, std::set<const PickleNode*>& seen, std::vector<FoundTable>& next) {
    for (std::size_t i = 0; i + 1 < outer.table->items.size(); i += 2) {
      const PickleNode &key = pickle_.at(outer.table->items[i]), &value = pickle_.at(outer.table->items[i + 1]);
      if (key.kind != PickleNode::Kind::text) continue;
      if (outer.path.empty() && keys_.size() < kMostTablesNamed) keys_.push_back(fmt::format("'{}'", shown(key.text)));
      if (value.kind != PickleNode::Kind::dict || is_of_training(key.text) || !seen.insert(&value).second) continue;
      FoundTable inner = {outer.path.empty() ? shown(key.text) : outer.path + "." + shown(key.text), &value, tensors_in(value)};
      (inner.tensors > 0 ? found_ : next).push_back(std::move(inner));
    }
  }

  // Training state, such as momentum, holds tensors too.
  static bool is_of_training(std::string_view key) {
    const auto begins = [&](std::string_view word) { return key.starts_with(word); };
    return begins("optim") || begins("lr_sched") || begins("scheduler") || begins("scaler") || begins("amp");
  }

  std::string said_of_tables() const {
    if (found_.empty()) return fmt::format("its keys are {}", keys_.empty() ? "none" : fmt::format("{}", fmt::join(keys_, ", ")));
    std::string text = "tables with tensors are ";
    for (std::size_t i = 0; i < std::min(found_.size(), kMostTablesNamed); ++i) {
      text += fmt::format("{}'{}' ({})", i == 0 ? "" : ", ", found_[i].path, found_[i].tensors);
    }
    return text + (found_.size() > kMostTablesNamed ? ", ..." : "");
  }

  const Pickle& pickle_;
  const std::function<bool(const PickleNode& value)>& is_tensor_;
  const PickleNode& root_;
  std::vector<FoundTable> found_;
  std::vector<std::string> keys_;  // the first ones in the pickle
};

}  // namespace

const PickleNode& table_of_tensors(const Pickle& pickle, const std::string& inside,
                                   const std::function<bool(const PickleNode& value)>& is_tensor) {
  TableSearch search(pickle, is_tensor);
  return inside.empty() ? search.likeliest() : search.named(inside);
}

}  // namespace millrace
