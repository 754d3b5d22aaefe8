// Reads Python's pickles as data, for torch_file.h. A pickle is a program for a stack machine that may call
// any function of Python; here nothing is called. Supports the opcodes of protocols 2 to 5 for tables, lists, numbers and texts.
// A call is stored as the function's name and its arguments. Unexpected functions are refused by name. Source: Python's
// Lib/pickletools.py describes every opcode.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct PickleNode {
  enum class Kind {
    none,
    boolean,     // number
    integer,     // number
    real,        // without its value
    text,        // text; bytes too
    tuple,       // items
    list,        // items; a set too
    dict,        // items: key, value, key, value, ...; an OrderedDict too
    function,    // text: "module.name"
    call,        // text: of the function; items: one node, the tuple of arguments
    persistent,  // items: one node that names data outside the pickle
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string text;
  std::vector<int> items;  // indices into Pickle::nodes. A list may hold itself
};

struct Pickle {
  std::vector<PickleNode> nodes;
  int root = 0;
  std::size_t bytes = 0;  // that it occupied; others may follow

  const PickleNode& at(int index) const { return nodes[static_cast<std::size_t>(index)]; }
  // The value of a text key in a dict, the last of several; null if this is not a dict or lacks the key.
  const PickleNode* find(const PickleNode& dict, std::string_view key) const;
};

// `expected`: whether a function, "module.name", may be called; collections.OrderedDict always may. Attributes that the pickle
// would set on objects are ignored. At most a million values. Throws Error(data).
Pickle read_pickle(std::string_view bytes, const std::function<bool(const std::string& function)>& expected);

}  // namespace millrace
