// Named tensors in files, of any format that is known here, and what the readers of these formats share.
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

// What a file says of a tensor. `type`: of its elements, as safetensors calls it.
struct ListedTensor {
  std::string name, type;
  Shape shape;
};

// A tensor that is there, and of a kind that is not read.
struct UnreadTensor {
  std::string name, what, remedy;  // "a quantised tensor", "save tensor.dequantize()"
};

struct TensorFile {
  std::vector<NamedTensor> tensors;       // in the order of the file
  std::vector<std::string> not_floating;  // names of tensors of integers or truth values, which are not read
  std::vector<UnreadTensor> unread;       // others that are not read
  std::vector<ListedTensor> listed;       // all of them but `unread`, in the order of the file
  std::map<std::string, std::string> metadata;
};

// Reads a safetensors file (safetensors.h) or a state dict that PyTorch saved (torch_file.h): the first bytes tell which.
// `inside`: the table of the file whose tensors are meant, such as "state_dict_ema"; of safetensors, what their names have in
// front, with a dot after it; "": the likeliest one. Throws Error(data) that names the file, and Error(usage) when it is a
// folder.
TensorFile read_tensors(const std::string& path, const std::string& inside = {});
std::map<std::string, std::string> read_tensors_metadata(const std::string& path);  // no value is read; PyTorch's have none

// ---- For the readers. Types of elements have the names that safetensors gives them: "F32", "BF16", "I64", ... ----

std::uint64_t element_bytes(const std::string& type);  // Throws Error(data) for a type that is not known
bool is_floating(const std::string& type);             // F64, F32, F16, BF16

// `count` little-endian elements at `source`, of any alignment, to float32. REQUIRES: is_floating(type).
void convert_elements(const std::string& type, const char* source, std::size_t count, float* values);

}  // namespace millrace
