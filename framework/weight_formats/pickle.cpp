#include "weight_formats/pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weight_formats/byte_cursor.h"
#include "weight_formats/tensor_file.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxPickleNodes = 1'000'000;
constexpr const char* kOrderedDict = "collections.OrderedDict";

class Unpickler {
 public:
  using Kind = PickleNode::Kind;

  Unpickler(std::string_view bytes, const std::function<bool(const std::string&)>& expected)
      : from_(bytes, "the pickle"), expected_(expected) {}

  Pickle run() {
    while (true) {
      const std::size_t at = from_.at();
      const std::uint8_t opcode = from_.u8();
      if (opcode == '.') break;
      if (!plain_value(opcode) && !container(opcode) && !memo(opcode) && !object(opcode)) {
        fail(ErrorKind::data, "its pickle has the opcode 0x{:02x} at byte {}, which state dicts do not need", opcode, at);
      }
      if (stack_.size() > kMaxPickleNodes) fail(ErrorKind::data, "its pickle holds more than {} values", kMaxPickleNodes);
    }
    made_.root = pop();
    made_.bytes = from_.at();
    return std::move(made_);
  }

 private:
  int add(PickleNode node) {
    if (made_.nodes.size() == kMaxPickleNodes) fail(ErrorKind::data, "its pickle holds more than {} values", kMaxPickleNodes);
    made_.nodes.push_back(std::move(node));
    return static_cast<int>(made_.nodes.size()) - 1;
  }
  bool push(PickleNode node) {
    stack_.push_back(add(std::move(node)));
    return true;
  }
  bool push_number(Kind kind, std::int64_t number) { return push({.kind = kind, .number = number, .text = {}, .items = {}}); }
  bool push_text(std::string_view text) { return push({.kind = Kind::text, .text = std::string(text), .items = {}}); }
  bool push_items(Kind kind, std::vector<int> items) { return push({.kind = kind, .text = {}, .items = std::move(items)}); }

  std::size_t mark() const { return marks_.empty() ? 0 : marks_.back(); }
  int pop() {
    if (stack_.size() <= mark()) fail(ErrorKind::data, "its pickle takes a value where there is none, at byte {}", from_.at());
    const int index = stack_.back();
    stack_.pop_back();
    return index;
  }
  std::vector<int> pop_several(std::size_t count) {
    std::vector<int> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  std::vector<int> pop_to_mark() {
    if (marks_.empty()) fail(ErrorKind::data, "its pickle takes values from a mark that is not there, at byte {}", from_.at());
    std::vector<int> items = pop_several(stack_.size() - mark());
    marks_.pop_back();
    return items;
  }
  PickleNode& top(Kind kind, const char* what) {
    if (stack_.size() <= mark() || made_.at(stack_.back()).kind != kind) {
      fail(ErrorKind::data, "its pickle takes {} where there is none, at byte {}", what, from_.at());
    }
    return made_.nodes[static_cast<std::size_t>(stack_.back())];
  }

  bool plain_value(std::uint8_t opcode) {
    switch (opcode) {
      case 'N': return push({});
      case 0x88: return push_number(Kind::boolean, 1);
      case 0x89: return push_number(Kind::boolean, 0);
      case 'J': return push_number(Kind::integer, from_.figure<std::int32_t>());
      case 'K': return push_number(Kind::integer, from_.u8());
      case 'M': return push_number(Kind::integer, from_.u16());
      case 0x8a: return long_integer();
      case 'G': from_.text(8); return push_number(Kind::real, 0);
      case 'X':
      case 'B':
      case 'T': return push_text(from_.text(from_.u32()));
      case 0x8c:
      case 'C':
      case 'U': return push_text(from_.text(from_.u8()));
      case 0x8d:
      case 0x8e:
      case 0x96: return push_text(from_.text(from_.u64()));
      default: return false;
    }
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case '(': marks_.push_back(stack_.size()); return marks_.size() <= kMaxPickleNodes;
      case '0': pop(); return true;
      case '1': pop_to_mark(); return true;
      case ')': return push_items(Kind::tuple, {});
      case 0x85:
      case 0x86:
      case 0x87: return push_items(Kind::tuple, pop_several(opcode - 0x84U));
      case 't': return push_items(Kind::tuple, pop_to_mark());
      case ']':
      case 0x8f: return push_items(Kind::list, {});
      case 'l':
      case 0x91: return push_items(Kind::list, pop_to_mark());
      case 'a': return append(Kind::list, pop_several(1));
      case 'e':
      case 0x90: return append(Kind::list, pop_to_mark());
      case '}': return push_items(Kind::dict, {});
      case 's': return append(Kind::dict, pop_several(2));
      case 'u': return append(Kind::dict, pop_to_mark());
      default: return false;
    }
  }

  bool memo(std::uint8_t opcode) {
    switch (opcode) {
      case 'q': return keep(from_.u8());
      case 'r': return keep(from_.u32());
      case 0x94: return keep(memo_.size());
      case 'h': return fetch(from_.u8());
      case 'j': return fetch(from_.u32());
      default: return false;
    }
  }

  bool object(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80: return protocol(from_.u8());
      case 0x95: from_.u64(); return true;  // the length of the frame
      case 'c': {
        const std::string_view module = from_.line(), name = from_.line();
        return function(module, name);
      }
      case 0x93: {
        const std::vector<int> names = pop_several(2);
        return function(made_.at(names[0]).text, made_.at(names[1]).text);
      }
      case 'R': return call();
      case 0x81: return call();  // a class and the arguments of a new object
      case 'b': pop(); return true;
      case 'Q': return push_items(Kind::persistent, pop_several(1));
      default: return false;
    }
  }

  bool long_integer() {
    const std::string_view bytes = from_.text(from_.u8());
    if (bytes.size() > 8) return push_number(Kind::real, 0);  // such as a seed; it does not describe a tensor
    std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return push_number(Kind::integer, static_cast<std::int64_t>(value));
  }

  bool append(Kind kind, const std::vector<int>& items) {
    PickleNode& node = top(kind, kind == Kind::list ? "a list" : "a table");
    if (kind == Kind::dict && items.size() % 2 != 0) fail(ErrorKind::data, "its pickle has a key without a value");
    node.items.insert(node.items.end(), items.begin(), items.end());
    return true;
  }

  bool keep(std::size_t place) {
    if (stack_.size() <= mark()) fail(ErrorKind::data, "its pickle keeps a value where there is none, at byte {}", from_.at());
    memo_[place] = stack_.back();
    if (memo_.size() > kMaxPickleNodes) fail(ErrorKind::data, "its pickle keeps more than {} values", kMaxPickleNodes);
    return true;
  }
  bool fetch(std::size_t place) {
    const auto kept = memo_.find(place);
    if (kept == memo_.end()) fail(ErrorKind::data, "its pickle takes value {} again, which was not kept", place);
    stack_.push_back(kept->second);
    return true;
  }

  bool protocol(std::uint8_t version) {
    if (version < 2 || version > 5) fail(ErrorKind::data, "its pickle has protocol {}; 2 to 5 are read", version);
    return true;
  }

  bool function(std::string_view module, std::string_view name) {
    std::string full = fmt::format("{}.{}", module, name);
    if (full != kOrderedDict && !expected_(full)) {
      fail(ErrorKind::data,
           "would run {}: refused, and nothing in it was run. Save the values alone: torch.save(model.state_dict(), FILE)",
           shown(full));
    }
    return push({.kind = Kind::function, .text = std::move(full), .items = {}});
  }

  bool call() {
    const int arguments = pop();
    if (made_.at(arguments).kind != Kind::tuple) fail(ErrorKind::data, "its pickle calls without a tuple of arguments");
    PickleNode made{.kind = Kind::call, .text = top(Kind::function, "a function").text, .items = {arguments}};
    pop();
    if (made.text == kOrderedDict) {
      made = {.kind = Kind::dict, .text = {}, .items = pairs_of(made_.at(arguments))};
    }
    return push(std::move(made));
  }

  // Keys and values of an OrderedDict. Python 2 passes them as a list of pairs.
  std::vector<int> pairs_of(const PickleNode& arguments) {
    if (arguments.items.empty()) return {};
    const PickleNode& list = made_.at(arguments.items[0]);
    std::vector<int> items;
    for (const int index : list.items) {
      const PickleNode& pair = made_.at(index);
      const bool is_pair = (pair.kind == Kind::list || pair.kind == Kind::tuple) && pair.items.size() == 2;
      if (!is_pair) fail(ErrorKind::data, "its pickle makes an OrderedDict of values that are not pairs");
      items.insert(items.end(), pair.items.begin(), pair.items.end());
    }
    copied_ += items.size();
    if (copied_ > kMaxPickleNodes) fail(ErrorKind::data, "its pickle holds more than {} values", kMaxPickleNodes);
    if (arguments.items.size() > 1 || list.kind != Kind::list) {
      fail(ErrorKind::data, "its pickle makes an OrderedDict of something other than a list");
    }
    return items;
  }

  ByteCursor from_;
  const std::function<bool(const std::string&)>& expected_;
  Pickle made_;
  std::vector<int> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::map<std::size_t, int> memo_;
  std::size_t copied_ = 0;  // items copied from lists into several tables
};

}  // namespace

const PickleNode* Pickle::find(const PickleNode& dict, std::string_view key) const {
  if (dict.kind != PickleNode::Kind::dict) return nullptr;
  for (std::size_t i = dict.items.size(); i >= 2; i -= 2) {
    const PickleNode& name = at(dict.items[i - 2]);
    if (name.kind == PickleNode::Kind::text && name.text == key) return &at(dict.items[i - 1]);
  }
  return nullptr;
}

Pickle read_pickle(std::string_view bytes, const std::function<bool(const std::string& function)>& expected) {
  return Unpickler(bytes, expected).run();
}

}  // namespace millrace
