// Tensors on disk, in the safetensors format: eight bytes with the header's length (little-endian), a JSON header, then the
// values.
//   { "__metadata__": { "epoch": "3" }, "fc.weight": { "dtype": "F32", "shape": [10, 256], "data_offsets": [0, 10240] }, ... }
// Offsets count from the end of the header; the values of the tensors cover the rest of the file without gap or overlap. Files
// are untrusted: every number is checked before allocating. Source: the format's description,
// github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weights/tensor_file.h"

namespace millrace {

// Leaves out metadata entries of more than 8 MiB, and those beyond 32 MiB in total. Reads F32, F16, BF16 and F64 (as float32).
// Throws Error(data) that names the file: missing, truncated, or not this format.
TensorFile read_safetensors(const std::string& path);
TensorFile read_safetensors(std::span<const std::uint8_t> bytes);                       // reads a file in memory, without a name
std::map<std::string, std::string> read_safetensors_metadata(const std::string& path);  // reads no values

// Writes float32 values, in the order given, into a new file and then replaces the old one. A reader of `path` sees the old file
// or the whole new one, also after a crash. Throws Error(storage). REQUIRES: names are unique and not "__metadata__"; each
// tensor has as many values as its shape.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// Passes the same bytes to each receiver.
using TakeBytes = std::function<void(const void* data, std::size_t bytes)>;
void write_safetensors(const TakeBytes& take, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// The same file, with values fetched one tensor at a time, in order, so that memory never holds all of them. If `fetch` throws,
// the old file is unchanged. REQUIRES: tensors of type F32.
using FetchValues = std::function<std::vector<float>(std::size_t tensor)>;
void write_safetensors(const std::string& path, const std::vector<ListedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata, const FetchValues& fetch);

}  // namespace millrace
