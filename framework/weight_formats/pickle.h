// Python's pickles as data, for torch_file.h and torch_stream.h. A pickle is a program for a stack machine that may call any
// function of Python; here nothing is called. Opcodes of protocols 2 to 5 that tables, lists, numbers and texts are written with
// are followed. A call is kept as what it would be: the function's name and its arguments. A function that the reader does not
// expect is refused by name. Source: Python's Lib/pickletools.py describes every opcode.
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
    real,        // its value is not kept
    text,        // text; bytes too
    tuple,       // items
    list,        // items; a set too
    dict,        // items: key, value, key, value, ...; an OrderedDict too
    function,    // text: "module.name"
    call,        // text: of the function; items: one node, the tuple of arguments
    persistent,  // items: one node that names what lies outside the pickle
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string text;
  std::vector<int> items;  // indices into Pickle::nodes. A list may hold itself
};

struct Pickle {
  std::vector<PickleNode> nodes;
  int root = 0;
  std::size_t bytes = 0;  // that it took; others may follow

  const PickleNode& at(int index) const { return nodes[static_cast<std::size_t>(index)]; }
  // The value of a text key in a dict, the last of several; null when this is no dict or has no such key.
  const PickleNode* find(const PickleNode& dict, std::string_view key) const;
};

// `expected`: whether a function, "module.name", may be called; collections.OrderedDict always may. Attributes that the pickle
// would set on objects are passed over. At most a million values. Throws Error(data).
Pickle read_pickle(std::string_view bytes, const std::function<bool(const std::string& function)>& expected);

}  // namespace millrace
