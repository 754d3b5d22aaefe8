// One list of layers while it is laid out: the network's own, or one instance of a block. Knows what names mean there.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// Beside Network::kInput: the output of an entry that could not be laid out. Entries that take it are not laid out either, so
// that one mistake gives one message.
inline constexpr LayerPort kUnknownLayer = -2;

struct Frame {
  Frame* outer = nullptr;          // the frame of the entry that uses this block; null for the network's own
  std::string block;               // the block's name; empty for the network's own
  std::string prefix;              // of the names here: "layer1.0."
  Value variables;                 // what ${...} may name
  LayerPort input = 0;             // what "@input" means
  std::vector<std::string> names;  // one for each entry, unnamed ones numbered
  std::map<std::string, LayerPort, std::less<>> outputs;  // by name relative to this frame: what it means

  // Makes `names`. Reports names that are wrong or there twice.
  void name_entries(const Array& entries, Diagnostics& errors);

  // Defines a name of this frame, and with it, prefixed, of all frames further out.
  void define(const std::string& name, LayerPort output);

  // What a name in a `from` or `otherwise` means here; reports unknown names. `user`: the entry that refers to it.
  LayerPort find(const std::string& name, const Position& at, const std::string& user, Diagnostics& errors) const;
};

}  // namespace millrace
