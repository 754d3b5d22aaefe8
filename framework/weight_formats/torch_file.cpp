#include "weight_formats/torch_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weight_formats/torch_stream.h"
#include "weight_formats/torch_tensors.h"
#include "weight_formats/zip_file.h"

namespace millrace {
namespace {

constexpr std::string_view kZip = "PK\3\4";
constexpr std::uint64_t kLongestPickle = 64'000'000;

class TorchArchive final : public TorchStorages {
 public:
  explicit TorchArchive(const std::string& path) : zip_(path) {}

  TensorFile tensors(const std::string& inside) {
    find_folder();
    return tensors_of(read_pickle(zip_.read(folder_ + "data.pkl", kLongestPickle), is_of_state_dict), inside, *this);
  }

  std::uint64_t file_bytes() const override { return zip_.bytes(); }

  void check(const TorchStorage& storage) override {
    const ZipFile::Entry& entry = zip_.open(name_of(storage));
    const std::uint64_t element = element_bytes(storage.type);
    if (storage.elements == entry.bytes / element && entry.bytes % element == 0) return;
    fail(ErrorKind::data, "its storage of {} elements of {} does not fit entry '{}' of {} bytes", storage.elements, storage.type,
         shown(name_of(storage)), entry.bytes);
  }

  void read(const TorchStorage& storage, std::uint64_t first, std::span<char> to) override {
    zip_.read(zip_.open(name_of(storage)), first * element_bytes(storage.type), to);
  }

 private:
  std::string name_of(const TorchStorage& storage) const { return fmt::format("{}data/{}", folder_, storage.key); }

  // The folder that contains everything in the archive. Its name is arbitrary.
  void find_folder() {
    constexpr std::string_view kPickle = "/data.pkl";
    for (const auto& [name, entry] : zip_.entries()) {
      if (!name.ends_with(kPickle)) continue;
      const std::string folder = name.substr(0, name.size() - kPickle.size() + 1);
      if (!folder_.empty())
        fail(ErrorKind::data, "has a 'data.pkl' in '{}' and in '{}': which one is meant?", shown(folder_), shown(folder));
      folder_ = folder;
    }
    if (folder_.empty()) refuse_archive();
    if (zip_.has(folder_ + "constants.pkl")) {
      fail(ErrorKind::data,
           "holds a program (TorchScript), not tensors alone: load it with torch.jit.load and save its "
           "state_dict()");
    }
    if (!zip_.has(folder_ + "byteorder")) return;
    const std::string order = zip_.read(folder_ + "byteorder", 64);
    if (order != "little") fail(ErrorKind::data, "its values are in byte order '{}', and only 'little' is read", shown(order));
  }

  // An archive of another tool.
  [[noreturn]] void refuse_archive() const {
    const auto is_array = [](const auto& entry) { return entry.first.ends_with(".npy"); };
    if (std::ranges::any_of(zip_.entries(), is_array)) {
      fail(ErrorKind::data,
           "is an archive of NumPy's arrays (.npz): save_file() of safetensors.numpy writes them as weights are read here");
    }
    if (zip_.has("model.weights.h5")) {
      fail(ErrorKind::data,
           "is a model of Keras: save_file() of safetensors.numpy writes its arrays as weights are read here, under the names "
           "and in the layout of PyTorch's");
    }
    fail(ErrorKind::data, "is a zip archive without 'data.pkl': torch.save() did not write it");
  }

  ZipFile zip_;
  std::string folder_;  // "archive/"
};

}  // namespace

bool is_torch_file(std::string_view first_bytes) { return first_bytes.starts_with(kZip) || is_torch_stream(first_bytes); }

TensorFile read_torch_file(const std::string& path, const std::string& inside) {
  try {
    return is_torch_stream_file(path) ? read_torch_stream(path, inside) : TorchArchive(path).tensors(inside);
  } catch (Error& error) {
    throw error.in("tensor file '" + path + "'");
  }
}

}  // namespace millrace
