// The network language: builds a Network with all shapes inferred from a TOML document.
//
//   defaults = { classes = 10 }              # values of ${...} that the pipeline's [network] table may replace
//   input    = { channels = 3, height = 32, width = 32, mean = [0.5, 0.5, 0.5], deviation = [0.25, 0.25, 0.25] }
//   layers   = [ { name = "conv1", op = "conv", out = 64, kernel = 3, padding = "same" }, ... ]
//   [block.residual]                         # used by { name = "layer1", block = "residual", repeat = 2, width = 64 }
//   defaults = { stride = 1 }
//   layers   = [ ... ]
//
// A file may begin with `extends = "resnet50.toml"`, a file relative to its own folder, whose tables it changes key by key. So
// one file describes a family, and the others hold their `defaults`. A list, such as `layers`, is replaced as a whole.
//
// Every entry of `layers` has `op` or `block`, and may have
//   name       of the layer, relative to its block; default: the op or block with a running number, "relu1"
//   from       one name or a list: the outputs it reads; default: the entry before it. "@input" is the block's input (or the
//              network's). Names are resolved in the same block first, then further out; a block's name means its output
//   auxiliary  true: no later layer needs to read its output; training may measure a loss there. The entry after it reads the
//              output of the entry before it
//   stored_as  how PyTorch has the layer, where that differs: files of weights that are written follow it, and both forms are read.
//              "linear": a 1x1 convolution whose weight is (out, in); "parameter": the layer's only parameter, (C), is called as
//              the layer and is (C, 1, 1)
//   when       false leaves the entry out; its name then means what `otherwise` names (default: its own input)
// and one with `block`
//   repeat     that many instances in a row, "layer1.0", "layer1.1", ...; without it the instance is called "layer1". A '#' in
//              the name stands for the instance's number from 1 on instead: "layer#" makes "layer1", "layer2", ...
//   first      parameters that are different in the first of them
//   inline     true: the block's layers stand among the entry's neighbours, "conv1" rather than "layer1.conv1"
// `published` names trained weights (network/published.h).
//
// All other keys are the op's or the block's parameters. Inside a block ${...} sees the block's parameters and the network's
// variables, not the parameters of the blocks around it. The order of keys never matters.
#pragma once

#include <memory>
#include <string>

#include "millrace/backend/network.h"
#include "millrace/plugin.h"

namespace millrace {

// Reads a file. `variables`: a table of values from the pipeline. Adds mistakes to `errors`; the result is then null. `at`:
// position that names the file. `made_by`: see read_document().
std::shared_ptr<const Network> load_network(const std::string& path, const Value& variables, const Registry& registry,
                                            Diagnostics& errors, const Position& at = {}, const std::string& made_by = {});

// Builds a network from a document already read. `name`: the network's name in messages.
std::shared_ptr<const Network> build_network(const Value& document, const std::string& name, const Value& variables,
                                             const Registry& registry, Diagnostics& errors);

}  // namespace millrace
