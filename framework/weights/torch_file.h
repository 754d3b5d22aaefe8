// State dicts saved by PyTorch, torch.save(model.state_dict(), "x.pth"): a zip archive with a pickle that describes the tensors
// and an entry of values for each storage.
//   archive/data.pkl    {"fc.weight": _rebuild_tensor_v2(storage "0", offset, size, stride, ...), ...}
//   archive/data/0      the values of storage "0"
//   archive/byteorder   "little"
// Reading such a file in Python can run any program. Here nothing is run: see pickle.h. Its numbers are untrusted. Files from
// before PyTorch 1.6 are a stream, which is read too. Source: PyTorch's torch/serialization.py and torch/_utils.py.
#pragma once

#include <string>
#include <string_view>

#include "weights/tensor_file.h"

namespace millrace {

// By its first eight bytes: a zip archive, or a file of torch.save() before PyTorch 1.6.
bool is_torch_file(std::string_view first_bytes);

// The tensors of the table `inside` ("": see table_of_tensors()). Ignores other values. Reads floating types as
// read_safetensors() does; tensors may share a storage and be strided. Throws Error(data) that names the file and, if known, the
// tensor: not a state dict, truncated, values of big-endian machines, a function that it would run.
TensorFile read_torch_file(const std::string& path, const std::string& inside = {});

}  // namespace millrace
