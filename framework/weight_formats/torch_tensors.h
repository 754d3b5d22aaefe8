// The tensors that the pickle of a state dict describes. Where their values lie is the business of the two formats that
// torch.save() has had: a zip archive (torch_file.h) and a stream (torch_stream.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weight_formats/pickle.h"
#include "weight_formats/tensor_file.h"

namespace millrace {

// What a pickle says of a storage, ("storage", type, key, device, elements).
struct TorchStorage {
  std::string type;  // as safetensors calls it
  std::string key;
  std::uint64_t elements = 0;
};

// The values of storages, by key.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;
  virtual std::uint64_t file_bytes() const = 0;
  // Throws Error(data) unless the file holds this storage, with as many elements.
  virtual void check(const TorchStorage& storage) = 0;
  // Elements from `first` on, as they lie in the file. REQUIRES: check() has returned, and they are within the storage.
  virtual void read(const TorchStorage& storage, std::uint64_t first, std::span<char> to) = 0;
};

// Whether a state dict may have this function, "module.name", in its pickle: what torch.load(weights_only=True) takes too.
bool is_of_state_dict(const std::string& function);

// `persistent`: a node of what lies outside the pickle. Throws Error(data) when it describes no storage.
TorchStorage storage_of(const Pickle& pickle, const PickleNode& persistent);

// The tensors of the table `inside`, see table_of_tensors().
TensorFile tensors_of(const Pickle& pickle, const std::string& inside, TorchStorages& storages);

}  // namespace millrace
