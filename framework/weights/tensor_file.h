// Named tensors in files of all supported formats, and the common parts of their readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// A tensor's entry in a file. `type`: of its elements, in safetensors' names.
struct ListedTensor {
  std::string name, type;
  Shape shape;
};

// An existing tensor of an unsupported kind.
struct UnreadTensor {
  std::string name, what, remedy;  // "a quantised tensor", "save tensor.dequantize()"
};

struct TensorFile {
  std::vector<NamedTensor> tensors;       // in file order
  std::vector<std::string> not_floating;  // names of unread tensors of integers or truth values
  std::vector<UnreadTensor> unread;       // other unread ones
  std::vector<ListedTensor> listed;       // all except `unread`, in file order
  std::map<std::string, std::string> metadata;
};

// Reads a safetensors file (safetensors.h) or a state dict saved by PyTorch (torch_file.h), chosen by the first bytes. `inside`:
// the table of the file with the tensors, such as "state_dict_ema"; for safetensors, the prefix of their names, before a dot;
// "": the most likely one. Throws Error(data) that names the file, and Error(usage) if it is a folder.
TensorFile read_tensors(const std::string& path, const std::string& inside = {});
std::map<std::string, std::string> read_tensors_metadata(const std::string& path);  // reads no values; PyTorch's have none

// ---- For readers. Element types have safetensors' names: "F32", "BF16", "I64", ... ----

std::uint64_t element_bytes(const std::string& type);  // throws Error(data) for an unknown type
bool is_floating(const std::string& type);             // F64, F32, F16, BF16

// Converts `count` little-endian elements at `source`, of any alignment, to float32. REQUIRES: is_floating(type).
void convert_elements(const std::string& type, const char* source, std::size_t count, float* values);

}  // namespace millrace
