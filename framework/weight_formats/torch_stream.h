// State dicts saved by PyTorch before version 1.6, and by later ones on request: a sequence of pickles, then the storages, each
// with its count of elements.
//   a number that marks the format    0x1950a86a20f9469cfc6c
//   the version of the format         1001
//   the machine                       {"little_endian": True, ...}
//   the state dict                    {"fc.weight": _rebuild_tensor_v2(storage "94210", offset, size, stride, ...), ...}
//   keys of the storages              ["94210", ...]
//   for each key: elements (uint64), their values
// Nothing is run (pickle.h), and numbers are untrusted. Source: _legacy_save() and _legacy_load() in PyTorch's
// torch/serialization.py.
#pragma once

#include <string>
#include <string_view>

#include "weight_formats/tensor_file.h"

namespace millrace {

bool is_torch_stream(std::string_view first_bytes);  // by its first eight bytes
bool is_torch_stream_file(const std::string& path);

// Like read_torch_file(), whose messages name the file.
TensorFile read_torch_stream(const std::string& path, const std::string& inside);

}  // namespace millrace
