// The tensors that a state dict's pickle describes. Their values are read by the two formats of torch.save(): a zip archive
// and a stream (torch_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weights/pickle.h"
#include "weights/tensor_file.h"

namespace millrace {

// A pickle's description of a storage, ("storage", type, key, device, elements).
struct TorchStorage {
  std::string type;  // safetensors' name
  std::string key;
  std::uint64_t elements = 0;
};

// The values of storages, by key.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;
  virtual std::uint64_t file_bytes() const = 0;
  // Throws Error(data) unless the file holds this storage, with that many elements.
  virtual void check(const TorchStorage& storage) = 0;
  // Elements starting at `first`, in file order. REQUIRES: check() has returned, and they are within the storage.
  virtual void read(const TorchStorage& storage, std::uint64_t first, std::span<char> to) = 0;
};

// Whether a state dict's pickle may contain this function, "module.name"; torch.load(weights_only=True) accepts it too.
bool is_of_state_dict(const std::string& function);

// `persistent`: a node for data outside the pickle. Throws Error(data) if it does not describe a storage.
TorchStorage storage_of(const Pickle& pickle, const PickleNode& persistent);

// The tensors of the table `inside`, see table_of_tensors().
TensorFile tensors_of(const Pickle& pickle, const std::string& inside, TorchStorages& storages);

}  // namespace millrace
