// Builds a Network from a network document: expands blocks, resolves names, infers shapes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "millrace/detail/value.h"
#include "millrace/params.h"
#include "millrace/plugin.h"
#include "network/network_document.h"

namespace millrace {

// In addition to Network::kInput: the output of an entry that could not be built. Entries that read it are not built either, so
// that one mistake gives one message.
inline constexpr LayerPort kUnknownLayer = -2;

// Scope of one list of layers during building: the network's own, or one instance of a block. Resolves names there.
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

// The place where a file uses a block of a network that it extends.
struct BlockUse {
  std::string block;
  Position at;
};

class Builder {
 public:
  // All references must outlive the builder.
  Builder(const NetworkDocument& document, const Registry& registry, Diagnostics& errors)
      : document_(document), registry_(registry), errors_(errors) {}

  // Mistakes go to `errors`; the network is complete only when there are none.
  Network build(const std::string& name, const Value& variables);
  // Uses of blocks whose mistakes are in another file, by the mistake's index in `errors`.
  const std::map<std::size_t, BlockUse>& uses() const { return uses_; }

 private:
  struct Entry {
    const Value& table;
    const std::string& name;  // relative to its frame
    LayerPort previous;       // the output of the last entry that is not auxiliary
    Diagnostics& errors;      // a scratch one if this entry's mistakes are already known
  };

  void read_input(const std::string& name, const Value& variables);
  LayerPort lay_out(Frame& frame, const Array& entries);
  LayerPort place(Frame& frame, const Entry& entry);
  LayerPort place_skipped(Frame& frame, const Entry& entry);
  LayerPort place_layer(Frame& frame, const Entry& entry, const std::vector<LayerPort>& inputs);
  LayerPort place_block(Frame& frame, const Entry& entry, const std::vector<LayerPort>& inputs);
  // `prefix`: prepended to the names of this instance's layers.
  LayerPort expand(Frame& frame, const Entry& entry, const BlockDefinition& block, const std::string& prefix, LayerPort input,
                   const Value& given);

  static bool has_misspelt_kind(const Entry& entry);
  static bool only_resizes(const Entry& entry);  // whether it is left out if it would keep its input's size
  bool is_wanted(const Frame& frame, const Entry& entry);
  bool is_auxiliary(const Frame& frame, const Entry& entry);
  // The value of a key of the entry; true if it is a mistake, which is reported.
  bool is_true(const Frame& frame, const Entry& entry, const char* key, const Value& written);
  std::vector<LayerPort> inputs_of(const Frame& frame, const Entry& entry);
  // All keys except the entry's own, resolved; those not in `parameters` are reported.
  Value parameters_of(const Frame& frame, const Entry& entry, const std::vector<std::string>& own_keys,
                      const std::vector<std::string>& parameters, const std::string& owner);
  const BlockDefinition* block_of(const Frame& frame, const Entry& entry);
  std::vector<Value> instances_of(const Frame& frame, const Entry& entry, const BlockDefinition& block);
  void require_references(const Entry& entry, const BlockDefinition& block, const std::vector<Value>& instances);
  int add(const Entry& entry, const std::string& full_name, const std::string& op, const std::vector<LayerPort>& inputs,
          LayerPlan plan);
  void check_uses();

  LayerPort refer(const Frame& frame, const Entry& entry, const Value& reference) const;
  bool accepts_inputs(const Entry& entry, const LayerType& type, const std::string& full_name,
                      const std::vector<LayerPort>& inputs) const;
  const std::vector<LayerOutput>& outputs_of(int layer) const;
  Carries carries(LayerPort value) const;
  std::string name_of(LayerPort value) const;  // as written in a file
  const Shape& shape_of(LayerPort value) const;

  const NetworkDocument& document_;
  Value variables_;  // the network's own
  const Registry& registry_;
  Diagnostics& errors_;
  Network network_;
  Shape input_shape_;                   // (C, H, W)
  std::map<std::string, int> by_name_;  // of network_.layers
  std::set<LayerPort> auxiliary_;       // outputs that layers may leave unread
  std::size_t placed_ = 0;              // entries, counting those of blocks once per instance
  std::map<std::size_t, BlockUse> uses_;
  std::set<const Array*> wrong_lists_;    // with mistakes in their names
  std::set<const Value*> wrong_entries_;  // already reported: other instances of their block have the same mistakes
};

}  // namespace millrace
