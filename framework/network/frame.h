// Scope of one list of layers during building: the network's own, or one instance of a block. Resolves names there.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"

namespace millrace {

// In addition to Network::kInput: the output of an entry that could not be built. Entries that read it are not built either, so
// that one mistake gives one message.
inline constexpr LayerPort kUnknownLayer = -2;

struct Frame {
  Frame* outer = nullptr;          // the frame of the entry that uses this block; null for the network's own
  std::string block;               // the block's name; empty for the network's own
  std::string prefix;              // prepended to the names here: "layer1.0."
  Value variables;                 // variables available to ${...}
  LayerPort input = 0;             // the value of "@input"
  std::vector<std::string> names;  // one for each entry, unnamed ones numbered
  std::map<std::string, LayerPort, std::less<>> outputs;  // by name relative to this frame

  // Fills `names`. Reports wrong or duplicate names.
  void name_entries(const Array& entries, Diagnostics& errors);

  // Defines a name in this frame, and with its prefix in all outer frames.
  void define(const std::string& name, LayerPort output);

  // Resolves a name in a `from` or `otherwise`; reports unknown names. `user`: the entry that refers to it.
  LayerPort find(const std::string& name, const Position& at, const std::string& user, Diagnostics& errors) const;
};

}  // namespace millrace
