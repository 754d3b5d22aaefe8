#include "weights/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weights/byte_cursor.h"
#include "weights/tensor_file.h"
#include "weights/torch_tensors.h"
#include "weights/zip_file.h"

namespace millrace {
namespace {

constexpr std::string_view kFirstBytes = "\x80\x02\x8a\x0al\xfc\x9c\x46";
constexpr std::string_view kMark = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::int64_t kVersion = 1001;
constexpr std::uint64_t kLongestPickles = 64'000'000;  // all of them

// State dicts saved by PyTorch before version 1.6, and by later ones on request: a sequence of pickles, then the storages, each
// with its count of elements.
//   a number that marks the format    0x1950a86a20f9469cfc6c
//   the version of the format         1001
//   the machine                       {"little_endian": True, ...}
//   the state dict                    {"fc.weight": _rebuild_tensor_v2(storage "94210", offset, size, stride, ...), ...}
//   keys of the storages              ["94210", ...]
//   for each key: elements (uint64), their values
// Source: _legacy_save() and _legacy_load() in PyTorch's torch/serialization.py.
class TorchStream final : public TorchStorages {
 public:
  explicit TorchStream(const std::string& path) : file_(path, std::ios::binary) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error || !file_) fail(ErrorKind::data, "cannot be opened: {}", error ? error.message() : std::strerror(errno));
  }

  TensorFile tensors(const std::string& inside) {
    std::string head(std::min(size_, kLongestPickles), '\0');
    take(0, std::span(head));
    std::size_t at = 0;
    check_machine(head, at);
    const Pickle state = next_pickle(head, at, is_of_state_dict);
    const Pickle keys = next_pickle(head, at, nothing);
    find_storages(state, keys, at);
    return tensors_of(state, inside, *this);
  }

  std::uint64_t file_bytes() const override { return size_; }

  void check(const TorchStorage& storage) override {
    if (begins_.contains(storage.key)) return;
    fail(ErrorKind::data, "its storage '{}' is none of the {} that the file holds", shown(storage.key), begins_.size());
  }

  void read(const TorchStorage& storage, std::uint64_t first, std::span<char> to) override {
    take(begins_.find(storage.key)->second + first * element_bytes(storage.type), to);
  }

 private:
  static bool nothing(const std::string&) { return false; }

  static Pickle next_pickle(std::string_view head, std::size_t& at, const std::function<bool(const std::string&)>& expected) {
    Pickle pickle = read_pickle(head.substr(at), expected);
    at += pickle.bytes;
    return pickle;
  }

  void take(std::uint64_t offset, std::span<char> to) {
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!file_.read(to.data(), static_cast<std::streamsize>(to.size()))) fail(ErrorKind::data, "cannot be read to its end");
  }

  // The magic number, the version and the machine that wrote the file.
  static void check_machine(std::string_view head, std::size_t& at) {
    if (!head.starts_with(kMark)) fail(ErrorKind::data, "is cut short or damaged: it has no whole mark of torch.save()");
    at = kMark.size();
    const Pickle version = next_pickle(head, at, nothing);
    const PickleNode& number = version.at(version.root);
    if (number.kind != PickleNode::Kind::integer || number.number != kVersion) {
      fail(ErrorKind::data, "its format has version {}, but only {} is read", number.number, kVersion);
    }
    const Pickle machine = next_pickle(head, at, nothing);
    const PickleNode* little = machine.find(machine.at(machine.root), "little_endian");
    if (little == nullptr || little->kind != PickleNode::Kind::boolean) {
      fail(ErrorKind::data, "does not state the byte order of its values");
    }
    if (little->number == 0) fail(ErrorKind::data, "its values are in byte order 'big', but only 'little' is read");
  }

  // A storage's length follows from its type, which only the state dict has.
  static std::map<std::string, TorchStorage, std::less<>> described(const Pickle& state) {
    std::map<std::string, TorchStorage, std::less<>> all;
    for (const PickleNode& node : state.nodes) {
      if (node.kind != PickleNode::Kind::persistent) continue;
      TorchStorage storage = storage_of(state, node);
      const auto [known, is_new] = all.try_emplace(storage.key, storage);
      if (!is_new && (known->second.type != storage.type || known->second.elements != storage.elements)) {
        fail(ErrorKind::data, "describes its storage '{}' twice and differently", shown(storage.key));
      }
    }
    return all;
  }

  void find_storages(const Pickle& state, const Pickle& keys, std::uint64_t at) {
    const auto storages = described(state);
    const PickleNode& list = keys.at(keys.root);
    if (list.kind != PickleNode::Kind::list) fail(ErrorKind::data, "has no list of its storages");
    for (const int item : list.items) {
      const PickleNode& key = keys.at(item);
      const auto storage = key.kind == PickleNode::Kind::text ? storages.find(key.text) : storages.end();
      if (storage == storages.end())
        fail(ErrorKind::data, "holds a storage '{}', which nothing in it describes", shown(key.text));
      const std::uint64_t begin = begin_of(storage->second, at);
      if (!begins_.try_emplace(key.text, begin).second) fail(ErrorKind::data, "holds the storage '{}' twice", shown(key.text));
      at = begin + storage->second.elements * element_bytes(storage->second.type);
    }
    if (at != size_) fail(ErrorKind::data, "has {} bytes after its last storage: it was added to", size_ - at);
  }

  // Start of a storage's values; `at`: its count of elements. Checks that the file holds them all.
  std::uint64_t begin_of(const TorchStorage& storage, std::uint64_t at) {
    std::uint64_t elements = 0, bytes = 0;
    if (size_ - at < sizeof elements) fail(ErrorKind::data, "ends before its storage '{}': it was cut short", shown(storage.key));
    take(at, std::span(reinterpret_cast<char*>(&elements), sizeof elements));
    if (elements != storage.elements) {
      fail(ErrorKind::data, "its storage '{}' of {} elements is stored with {}: it was changed", shown(storage.key),
           storage.elements, elements);
    }
    const std::uint64_t left = size_ - at - sizeof elements;
    if (__builtin_mul_overflow(elements, element_bytes(storage.type), &bytes) || bytes > left) {
      fail(ErrorKind::data, "its storage '{}' of {} elements of {} does not fit the {} bytes that are left: it was cut short",
           shown(storage.key), elements, storage.type, left);
    }
    return at + sizeof elements;
  }

  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> begins_;  // start of a storage's values, by key
};

bool is_torch_stream(std::string_view first_bytes) { return first_bytes.starts_with(kFirstBytes); }

bool is_torch_stream_file(const std::string& path) {
  std::array<char, kFirstBytes.size()> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  return is_torch_stream({first.data(), first.size()});
}

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
    if (order != "little") fail(ErrorKind::data, "its values are in byte order '{}', but only 'little' is read", shown(order));
  }

  // An archive of another tool.
  [[noreturn]] void refuse_archive() const {
    const auto is_array = [](const auto& entry) { return entry.first.ends_with(".npy"); };
    if (std::ranges::any_of(zip_.entries(), is_array)) {
      fail(ErrorKind::data,
           "is an archive of NumPy's arrays (.npz): save_file() of safetensors.numpy writes them in a form that is read here");
    }
    if (zip_.has("model.weights.h5")) {
      fail(ErrorKind::data,
           "is a model of Keras: save_file() of safetensors.numpy writes its arrays in a form that is read here, under the names "
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
    return is_torch_stream_file(path) ? TorchStream(path).tensors(inside) : TorchArchive(path).tensors(inside);
  } catch (Error& error) {
    throw error.in("tensor file '" + path + "'");
  }
}

}  // namespace millrace
