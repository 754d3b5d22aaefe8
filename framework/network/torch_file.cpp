#include "network/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>

#include "millrace/error.h"
#include "network/pickle.h"
#include "network/zip_file.h"

namespace millrace {
namespace {

constexpr std::string_view kZip = "PK\3\4";
constexpr std::string_view kBeforeZip = "\x80\x02\x8a\x0al\xfc\x9c\x46";  // protocol 2, and a number of torch.save()'s own
constexpr std::uint64_t kLongestPickle = 64'000'000;
constexpr std::uint64_t kMostValuesAByte = 4;  // of the file; tensors that share a storage are read each by itself
constexpr std::size_t kPieceElements = std::size_t{1} << 17;
constexpr const char* kTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kParameter = "torch._utils._rebuild_parameter";

// safetensors' name of a storage's elements; empty: no storage.
std::string type_of_storage(const std::string& function) {
  static const std::map<std::string, std::string> types = {{"torch.DoubleStorage", "F64"}, {"torch.FloatStorage", "F32"},
                                                           {"torch.HalfStorage", "F16"},   {"torch.BFloat16Storage", "BF16"},
                                                           {"torch.LongStorage", "I64"},   {"torch.IntStorage", "I32"},
                                                           {"torch.ShortStorage", "I16"},  {"torch.CharStorage", "I8"},
                                                           {"torch.ByteStorage", "U8"},    {"torch.BoolStorage", "BOOL"}};
  const auto found = types.find(function);
  return found == types.end() ? "" : found->second;
}

// What checkpoints have beside tensors. Nothing is made of it.
bool is_inert(const std::string& function) {
  static const std::set<std::string, std::less<>> inert = {
      "collections.Counter", "torch.Size",  "torch.device", "torch.float64", "torch.float32", "torch.float16",
      "torch.bfloat16",      "torch.int64", "torch.int32",  "torch.uint8",   "torch.bool"};
  return inert.contains(function);
}

struct StorageView {
  std::string type, storage;
  std::uint64_t storage_elements = 0, offset = 0, elements = 1;
  Shape shape;
  std::array<std::uint64_t, Shape::kMaxRank> strides{};
  std::uint64_t span = 0;  // elements of the storage from the first to the last one, both included
};

class TorchReader {
 public:
  explicit TorchReader(const std::string& path) : zip_(path) {}

  TensorFile read() {
    find_folder();
    pickle_ = read_pickle(zip_.read(folder_ + "data.pkl", kLongestPickle), [](const std::string& function) {
      return function == kTensor || function == kParameter || !type_of_storage(function).empty() || is_inert(function);
    });
    TensorFile result;
    std::set<std::string_view> names;
    const std::vector<int>& items = state_dict().items;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const PickleNode& key = pickle_.at(items[i]);
      const PickleNode* tensor = as_tensor(pickle_.at(items[i + 1]));
      if (key.kind != PickleNode::Kind::text || tensor == nullptr) continue;
      if (!names.insert(key.text).second) fail(ErrorKind::data, "has '{}' twice", shown(key.text));
      try {
        read_tensor(key.text, *tensor, result);
      } catch (Error& error) {
        throw error.in(fmt::format("tensor '{}'", shown(key.text)));
      }
    }
    return result;
  }

 private:
  // The one that everything in the archive lies in. Its name is free.
  void find_folder() {
    constexpr std::string_view kPickle = "/data.pkl";
    for (const auto& [name, entry] : zip_.entries()) {
      if (!name.ends_with(kPickle)) continue;
      const std::string folder = name.substr(0, name.size() - kPickle.size() + 1);
      if (!folder_.empty())
        fail(ErrorKind::data, "has a 'data.pkl' in '{}' and in '{}': which one is meant?", shown(folder_), shown(folder));
      folder_ = folder;
    }
    if (folder_.empty()) fail(ErrorKind::data, "is a zip archive without 'data.pkl': torch.save() did not write it");
    if (zip_.has(folder_ + "constants.pkl")) {
      fail(ErrorKind::data,
           "holds a program (TorchScript), not tensors alone: load it with torch.jit.load and save its "
           "state_dict()");
    }
    if (!zip_.has(folder_ + "byteorder")) return;
    const std::string order = zip_.read(folder_ + "byteorder", 64);
    if (order != "little") fail(ErrorKind::data, "its values are in byte order '{}', and only 'little' is read", shown(order));
  }

  const PickleNode& state_dict() const {
    const PickleNode& root = pickle_.at(pickle_.root);
    if (root.kind != PickleNode::Kind::dict) fail(ErrorKind::data, "holds no table of tensors: save model.state_dict()");
    for (const char* key : {"state_dict", "model", "model_state_dict"}) {
      const PickleNode* inner = pickle_.find(root, key);
      if (inner != nullptr && holds_tensors(*inner)) return *inner;
    }
    if (holds_tensors(root)) return root;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < root.items.size() && keys.size() < 8; i += 2) {
      if (pickle_.at(root.items[i]).kind == PickleNode::Kind::text)
        keys.push_back(fmt::format("'{}'", shown(pickle_.at(root.items[i]).text)));
    }
    fail(ErrorKind::data,
         "holds no tensors under names, nor in a table 'state_dict', 'model' or 'model_state_dict'; its keys are {}",
         keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")));
  }

  bool holds_tensors(const PickleNode& dict) const {
    if (dict.kind != PickleNode::Kind::dict) return false;
    for (std::size_t i = 1; i < dict.items.size(); i += 2) {
      if (as_tensor(pickle_.at(dict.items[i])) != nullptr) return true;
    }
    return false;
  }

  // The call that makes a tensor, also inside the one that makes a parameter of it; null: this is no tensor.
  const PickleNode* as_tensor(const PickleNode& value) const {
    if (value.kind != PickleNode::Kind::call) return nullptr;
    if (value.text == kTensor) return &value;
    const std::vector<int>& arguments = pickle_.at(value.items[0]).items;
    if (value.text != kParameter || arguments.empty()) return nullptr;
    const PickleNode& inner = pickle_.at(arguments[0]);
    return inner.kind == PickleNode::Kind::call && inner.text == kTensor ? &inner : nullptr;
  }

  void read_tensor(const std::string& name, const PickleNode& call, TensorFile& result) {
    const StorageView view = view_of(call);
    if (!is_floating(view.type)) return result.not_floating.push_back(name);
    values_ += std::max(view.elements, view.span);
    if (values_ / kMostValuesAByte > zip_.bytes()) {
      fail(ErrorKind::data, "its tensors would take {} values, too many for a file of {} bytes", values_, zip_.bytes());
    }
    result.tensors.push_back({name, view.shape, values_of(view)});
  }

  // (storage, offset, size, stride, ...)
  StorageView view_of(const PickleNode& call) const {
    const std::vector<int>& arguments = pickle_.at(call.items[0]).items;
    if (arguments.size() < 4) fail(ErrorKind::data, "is described by {} values instead of 4", arguments.size());
    StorageView view;
    read_storage(pickle_.at(arguments[0]), view);
    view.offset = whole(pickle_.at(arguments[1]), "its offset");
    const PickleNode& size = pickle_.at(arguments[2]);
    const PickleNode& stride = pickle_.at(arguments[3]);
    if (size.kind != PickleNode::Kind::tuple || stride.kind != PickleNode::Kind::tuple ||
        size.items.size() != stride.items.size() || size.items.size() > Shape::kMaxRank) {
      fail(ErrorKind::data, "its size and stride must be two lists of equal length, at most {}", Shape::kMaxRank);
    }
    std::int64_t bound = 1;  // of the product of any extents: 0 among them must not hide the others
    for (std::size_t axis = 0; axis < size.items.size(); ++axis) {
      const std::uint64_t extent = whole(pickle_.at(size.items[axis]), "its size");
      const auto least_one = static_cast<std::int64_t>(std::clamp<std::uint64_t>(extent, 1, INT64_MAX));
      if (__builtin_mul_overflow(view.elements, extent, &view.elements) || __builtin_mul_overflow(bound, least_one, &bound)) {
        fail(ErrorKind::data, "its shape is too large");
      }
      view.shape.push_back(static_cast<std::int64_t>(extent));
      view.strides[axis] = whole(pickle_.at(stride.items[axis]), "its stride");
    }
    if (is_floating(view.type)) find_span(view);
    return view;
  }

  // ("storage", type, key, device, elements)
  void read_storage(const PickleNode& persistent, StorageView& view) const {
    const PickleNode* tuple = persistent.kind == PickleNode::Kind::persistent ? &pickle_.at(persistent.items[0]) : nullptr;
    if (tuple == nullptr || tuple->kind != PickleNode::Kind::tuple || tuple->items.size() < 5) {
      fail(ErrorKind::data, "its storage is not described as torch.save() does");
    }
    const PickleNode& type = pickle_.at(tuple->items[1]);
    const PickleNode& key = pickle_.at(tuple->items[2]);
    if (type.kind == PickleNode::Kind::function) view.type = type_of_storage(type.text);
    if (view.type.empty() || key.kind != PickleNode::Kind::text)
      fail(ErrorKind::data, "its storage is not described as torch.save() does");
    view.storage = key.text;
    view.storage_elements = whole(pickle_.at(tuple->items[4]), "the length of its storage");
  }

  static std::uint64_t whole(const PickleNode& node, const char* what) {
    if (node.kind != PickleNode::Kind::integer || node.number < 0)
      fail(ErrorKind::data, "{} must be a whole number from 0", what);
    return static_cast<std::uint64_t>(node.number);
  }

  // Where the last element lies, which must be in the storage.
  static void find_span(StorageView& view) {
    if (view.elements == 0) return;
    std::uint64_t last = 0, end = 0;
    bool overflow = false;
    for (int axis = 0; axis < view.shape.rank(); ++axis) {
      std::uint64_t way = 0;
      const auto steps = static_cast<std::uint64_t>(view.shape[axis] - 1);
      overflow = overflow || __builtin_mul_overflow(view.strides[static_cast<std::size_t>(axis)], steps, &way) ||
                 __builtin_add_overflow(last, way, &last);
    }
    overflow = overflow || __builtin_add_overflow(view.offset, last, &end);
    if (overflow || end >= view.storage_elements || view.elements > view.storage_elements) {
      fail(ErrorKind::data, "is {} from element {} on, which does not fit its storage of {} elements", to_string(view.shape),
           view.offset, view.storage_elements);
    }
    view.span = last + 1;
  }

  std::vector<float> values_of(const StorageView& view) {
    const std::string name = fmt::format("{}data/{}", folder_, view.storage);
    const ZipFile::Entry& entry = zip_.open(name);
    const std::uint64_t element = element_bytes(view.type);
    if (view.storage_elements != entry.bytes / element || entry.bytes % element != 0) {
      fail(ErrorKind::data, "its storage of {} elements of {} does not fit entry '{}' of {} bytes", view.storage_elements,
           view.type, shown(name), entry.bytes);
    }
    std::vector<float> span(view.span);
    std::vector<char> piece(std::min<std::size_t>(kPieceElements, view.span) * element);
    for (std::size_t done = 0; done < span.size();) {
      const std::size_t count = std::min(kPieceElements, span.size() - done);
      zip_.read(entry, (view.offset + done) * element, std::span(piece).first(count * element));
      convert_elements(view.type, piece.data(), count, span.data() + done);
      done += count;
    }
    return in_order(view, std::move(span));
  }

  // Row-major, whatever the strides are.
  static std::vector<float> in_order(const StorageView& view, std::vector<float> span) {
    std::uint64_t expected = 1;
    bool contiguous = true;
    for (int axis = view.shape.rank(); axis-- > 0;) {
      contiguous = contiguous && (view.shape[axis] == 1 || view.strides[static_cast<std::size_t>(axis)] == expected);
      expected *= static_cast<std::uint64_t>(view.shape[axis]);
    }
    if (contiguous || view.elements == 0) return span;
    std::vector<float> values(view.elements);
    for (std::uint64_t i = 0; i < view.elements; ++i) {
      std::uint64_t rest = i, place = 0;
      for (int axis = view.shape.rank(); axis-- > 0;) {
        const auto extent = static_cast<std::uint64_t>(view.shape[axis]);
        place += rest % extent * view.strides[static_cast<std::size_t>(axis)];
        rest /= extent;
      }
      values[i] = span[place];
    }
    return values;
  }

  ZipFile zip_;
  std::string folder_;  // "archive/"
  Pickle pickle_;
  std::uint64_t values_ = 0;  // read up to now
};

void refuse_old_format(const std::string& path) {
  std::array<char, kBeforeZip.size()> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  if (std::string_view(first.data(), first.size()) != kBeforeZip) return;
  fail(ErrorKind::data,
       "was saved as PyTorch did before version 1.6, which is not read. Convert it: "
       "python -c \"import torch; torch.save(torch.load('{}', weights_only=True), 'new.pth')\"",
       path);
}

}  // namespace

bool is_torch_file(std::string_view first_bytes) { return first_bytes.starts_with(kZip) || first_bytes.starts_with(kBeforeZip); }

TensorFile read_torch_file(const std::string& path) {
  try {
    refuse_old_format(path);
    return TorchReader(path).read();
  } catch (Error& error) {
    throw error.in("tensor file '" + path + "'");
  }
}

}  // namespace millrace
