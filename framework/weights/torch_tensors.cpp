#include "weights/torch_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weights/pickle.h"
#include "weights/tensor_file.h"

namespace millrace {
namespace {

constexpr std::size_t kDeepestTable = 4, kMaxTablesNamed = 8;

struct FoundTable {
  std::string path;  // "ema.module"; "": the pickle itself
  const PickleNode* table = nullptr;
  std::size_t tensors = 0;
};

// Every project wraps its state dict differently: "state_dict", "net", "ema", "state_dict_ema", {"ema": {"module": ...}}.
class TableSearch {
 public:
  TableSearch(const Pickle& pickle, const std::function<bool(const PickleNode& value)>& is_tensor)
      : pickle_(pickle), is_tensor_(is_tensor), root_(pickle.at(pickle.root)) {
    if (root_.kind != PickleNode::Kind::dict) fail(ErrorKind::data, "holds no table of tensors: save model.state_dict()");
  }

  const PickleNode& named(const std::string& inside) {
    const PickleNode* const found = follow(root_, inside);
    if (found != nullptr && tensors_in(*found) > 0) return *found;
    search();
    fail(ErrorKind::data, "has no tensors inside '{}'; {}", shown(inside), tables_text());
  }

  const PickleNode& likeliest() {
    for (const char* key : {"state_dict", "model", "model_state_dict"}) {
      const PickleNode* const inner = pickle_.find(root_, key);
      if (inner != nullptr && tensors_in(*inner) > 0) return *inner;
    }
    if (tensors_in(root_) > 0) return root_;
    search();
    if (found_.size() == 1) return *found_.front().table;
    if (found_.empty()) {
      fail(ErrorKind::data, "holds no tensors under names, nor in a table of it; its keys are {}",
           keys_.empty() ? "none" : fmt::format("{}", fmt::join(keys_, ", ")));
    }
    fail(ErrorKind::data, "holds several tables of tensors: choose one with weights = {{ file = ..., inside = \"{}\" }}; {}",
         shown(found_.front().path), tables_text());
  }

 private:
  std::size_t tensors_in(const PickleNode& dict) const {
    if (dict.kind != PickleNode::Kind::dict) return 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      count += pickle_.at(dict.items[i]).kind == PickleNode::Kind::text && is_tensor_(pickle_.at(dict.items[i + 1])) ? 1 : 0;
    }
    return count;
  }

  // A key may contain dots.
  const PickleNode* follow(const PickleNode& dict, const std::string& path, std::size_t depth = 0) const {
    if (const PickleNode* const whole = pickle_.find(dict, path)) return whole;
    for (std::size_t dot = path.find('.'); dot != std::string::npos && depth < kDeepestTable; dot = path.find('.', dot + 1)) {
      const PickleNode* const next = pickle_.find(dict, path.substr(0, dot));
      const PickleNode* const rest = next == nullptr ? nullptr : follow(*next, path.substr(dot + 1), depth + 1);
      if (rest != nullptr) return rest;
    }
    return nullptr;
  }

  // Level by level. A table may be recursive.
  void search() {
    std::vector<FoundTable> level = {{"", &root_}};
    std::set<const PickleNode*> seen = {&root_};
    for (std::size_t depth = 0; depth < kDeepestTable && !level.empty(); ++depth) {
      std::vector<FoundTable> next;
      for (const FoundTable& each : level) look_into(each, seen, next);
      level = std::move(next);
    }
  }

  void look_into(const FoundTable& outer, std::set<const PickleNode*>& seen, std::vector<FoundTable>& next) {
    for (std::size_t i = 0; i + 1 < outer.table->items.size(); i += 2) {
      const PickleNode &key = pickle_.at(outer.table->items[i]), &value = pickle_.at(outer.table->items[i + 1]);
      if (key.kind != PickleNode::Kind::text) continue;
      if (outer.path.empty() && keys_.size() < kMaxTablesNamed) keys_.push_back(fmt::format("'{}'", shown(key.text)));
      if (value.kind != PickleNode::Kind::dict || is_of_training(key.text) || !seen.insert(&value).second) continue;
      FoundTable inner = {outer.path.empty() ? shown(key.text) : outer.path + "." + shown(key.text), &value, tensors_in(value)};
      (inner.tensors > 0 ? found_ : next).push_back(std::move(inner));
    }
  }

  // Training state, such as momentum, holds tensors too.
  static bool is_of_training(std::string_view key) {
    const auto begins = [&](std::string_view word) { return key.starts_with(word); };
    return begins("optim") || begins("lr_sched") || begins("scheduler") || begins("scaler") || begins("amp");
  }

  std::string tables_text() const {
    if (found_.empty()) return fmt::format("its keys are {}", keys_.empty() ? "none" : fmt::format("{}", fmt::join(keys_, ", ")));
    std::string text = "tables with tensors are ";
    for (std::size_t i = 0; i < std::min(found_.size(), kMaxTablesNamed); ++i) {
      text += fmt::format("{}'{}' ({})", i == 0 ? "" : ", ", found_[i].path, found_[i].tensors);
    }
    return text + (found_.size() > kMaxTablesNamed ? ", ..." : "");
  }

  const Pickle& pickle_;
  const std::function<bool(const PickleNode& value)>& is_tensor_;
  const PickleNode& root_;
  std::vector<FoundTable> found_;
  std::vector<std::string> keys_;  // the first ones in the pickle
};

// The table at `inside`: keys joined by dots, such as "ema.module". "": the one under "state_dict", "model" or
// "model_state_dict", else the pickle itself if it holds tensors, else the only table with tensors, at most four keys deep, that
// is not an optimizer's. Throws Error(data) that lists the tables. `is_tensor`: whether a value is a tensor.
const PickleNode& table_of_tensors(const Pickle& pickle, const std::string& inside,
                                   const std::function<bool(const PickleNode& value)>& is_tensor) {
  TableSearch search(pickle, is_tensor);
  return inside.empty() ? search.likeliest() : search.named(inside);
}

constexpr std::uint64_t kMaxValuesAByte = 4;  // per byte of the file; tensors that share a storage are read separately
constexpr std::size_t kPieceElements = std::size_t{1} << 17;
constexpr const char* kTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kOldTensor = "torch._utils._rebuild_tensor";  // before PyTorch 0.4
constexpr const char* kParameter = "torch._utils._rebuild_parameter";
constexpr const char* kOldParameter = "torch.nn.parameter.Parameter";
constexpr const char* kParameterWithState = "torch._utils._rebuild_parameter_with_state";
constexpr const char* kWithAttributes = "torch._tensor._rebuild_from_type_v2";  // (function, type, its arguments, attributes)

bool is_tensor(const std::string& function) { return function == kTensor || function == kOldTensor; }
bool is_parameter(const std::string& function) {
  return function == kParameter || function == kOldParameter || function == kParameterWithState;
}

struct UnreadKind {
  const char *what, *remedy;
};

// safetensors' name for a storage's elements; empty if it is not a storage.
std::string type_of_storage(const std::string& function) {
  static const std::map<std::string, std::string> types = {
      {"torch.DoubleStorage", "F64"},        {"torch.FloatStorage", "F32"},        {"torch.HalfStorage", "F16"},
      {"torch.BFloat16Storage", "BF16"},     {"torch.LongStorage", "I64"},         {"torch.IntStorage", "I32"},
      {"torch.ShortStorage", "I16"},         {"torch.CharStorage", "I8"},          {"torch.ByteStorage", "U8"},
      {"torch.BoolStorage", "BOOL"},         {"torch.QInt8Storage", "QI8"},        {"torch.QUInt8Storage", "QU8"},
      {"torch.QInt32Storage", "QI32"},       {"torch.ComplexFloatStorage", "C64"}, {"torch.ComplexDoubleStorage", "C128"},
      {"torch.storage.UntypedStorage", "U8"}};
  const auto found = types.find(function);
  return found == types.end() ? "" : found->second;
}

// Other contents of checkpoints that torch.load(weights_only=True) accepts, and numbers of NumPy. They are ignored.
bool is_inert(const std::string& function) {
  static const std::set<std::string, std::less<>> inert = {"_codecs.encode",
                                                           "builtins.bytearray",
                                                           "builtins.complex",
                                                           "builtins.set",
                                                           "__builtin__.bytearray",
                                                           "__builtin__.complex",
                                                           "__builtin__.set",
                                                           "collections.Counter",
                                                           "numpy.core.multiarray.scalar",
                                                           "numpy._core.multiarray.scalar",
                                                           "numpy.dtype",
                                                           "torch.Size",
                                                           "torch.Tensor",
                                                           "torch.device",
                                                           "torch.serialization._get_layout"};
  static const std::set<std::string, std::less<>> of_torch = {"float64",
                                                              "double",
                                                              "float32",
                                                              "float",
                                                              "float16",
                                                              "half",
                                                              "bfloat16",
                                                              "float8_e4m3fn",
                                                              "float8_e5m2",
                                                              "float8_e4m3fnuz",
                                                              "float8_e5m2fnuz",
                                                              "float8_e8m0fnu",
                                                              "int64",
                                                              "long",
                                                              "int32",
                                                              "int",
                                                              "int16",
                                                              "short",
                                                              "int8",
                                                              "uint8",
                                                              "uint16",
                                                              "uint32",
                                                              "uint64",
                                                              "bool",
                                                              "complex32",
                                                              "complex64",
                                                              "complex128",
                                                              "cfloat",
                                                              "cdouble",
                                                              "chalf",
                                                              "qint8",
                                                              "quint8",
                                                              "qint32",
                                                              "quint4x2",
                                                              "quint2x4",
                                                              "per_tensor_affine",
                                                              "per_tensor_symmetric",
                                                              "per_channel_affine",
                                                              "per_channel_symmetric",
                                                              "per_channel_affine_float_qparams"};
  constexpr std::string_view kTorch = "torch.";
  return inert.contains(function) || (function.starts_with(kTorch) && of_torch.contains(function.substr(kTorch.size())));
}

// Other kinds of tensors, and PyTorch's call that makes them readable.
const UnreadKind* unread_kind(const std::string& function) {
  static const UnreadKind sparse = {"a sparse tensor", "save tensor.to_dense()"},
                          quantised = {"a quantised tensor", "save tensor.dequantize()"},
                          meta = {"a tensor without values (device 'meta')", "load its values first"},
                          other = {"a tensor of a type such as float8", "save tensor.float()"},
                          device = {"a tensor of another kind of device", "save tensor.cpu()"},
                          wrapped = {"a tensor of a class of its own", "save its values as a plain tensor"},
                          nested = {"a nested tensor", "save its parts"};
  static const std::map<std::string, const UnreadKind*> kinds = {{"torch._utils._rebuild_sparse_tensor", &sparse},
                                                                 {"torch._utils._rebuild_sparse_csr_tensor", &sparse},
                                                                 {"torch._utils._rebuild_qtensor", &quantised},
                                                                 {"torch._utils._rebuild_meta_tensor_no_storage", &meta},
                                                                 {"torch._utils._rebuild_tensor_v3", &other},
                                                                 {"torch._utils._rebuild_device_tensor_from_numpy", &device},
                                                                 {"torch._utils._rebuild_device_tensor_from_cpu_tensor", &device},
                                                                 {"torch._utils._rebuild_wrapper_subclass", &wrapped},
                                                                 {"torch._utils._rebuild_nested_tensor", &nested}};
  const auto found = kinds.find(function);
  return found == kinds.end() ? nullptr : found->second;
}

std::uint64_t whole(const PickleNode& node, const char* what) {
  if (node.kind != PickleNode::Kind::integer || node.number < 0) fail(ErrorKind::data, "{} must be a whole number from 0", what);
  return static_cast<std::uint64_t>(node.number);
}

struct StorageView {
  TorchStorage storage;
  std::uint64_t begin = 0, limit = 0;  // part of the storage that the tensor may use
  std::uint64_t offset = 0, elements = 1;
  Shape shape;
  std::array<std::uint64_t, Shape::kMaxRank> strides{};
  std::uint64_t span = 0;  // elements of the storage from the first to the last, inclusive
};

class TensorReader {
 public:
  TensorReader(const Pickle& pickle, TorchStorages& storages) : pickle_(pickle), storages_(storages) {}

  TensorFile read(const std::string& inside) {
    TensorFile result;
    std::set<std::string_view> names;
    const auto is_any = [this](const PickleNode& value) { return as_tensor(value).has_value(); };
    const std::vector<int>& items = table_of_tensors(pickle_, inside, is_any).items;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const PickleNode& key = pickle_.at(items[i]);
      const auto tensor = as_tensor(pickle_.at(items[i + 1]));
      if (key.kind != PickleNode::Kind::text || !tensor) continue;
      if (!names.insert(key.text).second) fail(ErrorKind::data, "has '{}' twice", shown(key.text));
      if (tensor->unread != nullptr) {
        result.unread.push_back({key.text, tensor->unread->what, tensor->unread->remedy});
        continue;
      }
      try {
        read_tensor(key.text, *tensor->arguments, result);
      } catch (Error& error) {
        throw error.in(fmt::format("tensor '{}'", shown(key.text)));
      }
    }
    return result;
  }

 private:
  // A call that makes a tensor.
  struct TensorCall {
    const PickleNode* arguments = nullptr;
    const UnreadKind* unread = nullptr;
  };

  // The call that makes a tensor, possibly inside calls that wrap it in a parameter or set attributes. Empty if it is not a
  // tensor.
  std::optional<TensorCall> as_tensor(const PickleNode& value) const {
    if (value.kind != PickleNode::Kind::call) return std::nullopt;
    const PickleNode& arguments = pickle_.at(value.items[0]);
    if (value.text == kWithAttributes && arguments.items.size() > 2) {
      const PickleNode &function = pickle_.at(arguments.items[0]), &inner = pickle_.at(arguments.items[2]);
      const bool is_call = function.kind == PickleNode::Kind::function && inner.kind == PickleNode::Kind::tuple;
      return is_call ? made_by(function.text, inner) : std::nullopt;
    }
    if (!is_parameter(value.text)) return made_by(value.text, arguments);
    if (arguments.items.empty()) return std::nullopt;
    const PickleNode& inner = pickle_.at(arguments.items[0]);
    return inner.kind == PickleNode::Kind::call ? made_by(inner.text, pickle_.at(inner.items[0])) : std::nullopt;
  }
  static std::optional<TensorCall> made_by(const std::string& function, const PickleNode& arguments) {
    if (is_tensor(function)) return TensorCall{&arguments, nullptr};
    if (const UnreadKind* const kind = unread_kind(function)) return TensorCall{nullptr, kind};
    return std::nullopt;
  }

  void read_tensor(const std::string& name, const PickleNode& tuple, TensorFile& result) {
    const StorageView view = view_of(tuple);
    result.listed.push_back({name, view.storage.type, view.shape});
    if (!is_floating(view.storage.type)) return result.not_floating.push_back(name);
    values_ += std::max(view.elements, view.span);
    if (values_ / kMaxValuesAByte > storages_.file_bytes()) {
      fail(ErrorKind::data, "its tensors would take {} values, too many for a file of {} bytes", values_, storages_.file_bytes());
    }
    storages_.check(view.storage);
    std::vector<float> values = values_of(view);
    if (is_negated(tuple)) std::ranges::transform(values, values.begin(), std::negate<>());
    result.tensors.push_back({name, view.shape, std::move(values)});
  }

  // PyTorch negates some views only when they are read, and notes this after the other arguments: {"neg": True}. Conjugation,
  // noted likewise, affects only complex numbers, which are not read.
  bool is_negated(const PickleNode& tuple) const {
    constexpr std::size_t kNotes = 6;
    if (tuple.items.size() <= kNotes) return false;
    const PickleNode* const note = pickle_.find(pickle_.at(tuple.items[kNotes]), "neg");
    return note != nullptr && note->kind == PickleNode::Kind::boolean && note->number != 0;
  }

  // (storage, offset, size, stride, ...)
  StorageView view_of(const PickleNode& tuple) const {
    const std::vector<int>& arguments = tuple.items;
    if (arguments.size() < 4) fail(ErrorKind::data, "is described by {} values instead of 4", arguments.size());
    StorageView view;
    view.storage = storage_of(pickle_, pickle_.at(arguments[0]));
    find_part(pickle_.at(arguments[0]), view);
    view.offset = whole(pickle_.at(arguments[1]), "its offset");
    const PickleNode& size = pickle_.at(arguments[2]);
    const PickleNode& stride = pickle_.at(arguments[3]);
    if (size.kind != PickleNode::Kind::tuple || stride.kind != PickleNode::Kind::tuple ||
        size.items.size() != stride.items.size() || size.items.size() > Shape::kMaxRank) {
      fail(ErrorKind::data, "its size and stride must be two lists of equal length, at most {}", Shape::kMaxRank);
    }
    std::int64_t bound = 1;  // bounds the product of any extents: a 0 among them must not hide the others
    for (std::size_t axis = 0; axis < size.items.size(); ++axis) {
      const std::uint64_t extent = whole(pickle_.at(size.items[axis]), "its size");
      const auto least_one = static_cast<std::int64_t>(std::clamp<std::uint64_t>(extent, 1, INT64_MAX));
      if (__builtin_mul_overflow(view.elements, extent, &view.elements) || __builtin_mul_overflow(bound, least_one, &bound)) {
        fail(ErrorKind::data, "its shape is too large");
      }
      view.shape.push_back(static_cast<std::int64_t>(extent));
      view.strides[axis] = whole(pickle_.at(stride.items[axis]), "its stride");
    }
    if (is_floating(view.storage.type)) find_span(view);
    return view;
  }

  // Files from before PyTorch 1.6 may declare a storage as part of the stored one: (key, first, elements).
  void find_part(const PickleNode& persistent, StorageView& view) const {
    const std::vector<int>& items = pickle_.at(persistent.items[0]).items;
    view.limit = view.storage.elements;
    if (items.size() < 6 || pickle_.at(items[5]).kind == PickleNode::Kind::none) return;
    const std::vector<int>& part = pickle_.at(items[5]).items;
    if (pickle_.at(items[5]).kind != PickleNode::Kind::tuple || part.size() != 3) {
      fail(ErrorKind::data, "its storage is not described as torch.save() does");
    }
    view.begin = whole(pickle_.at(part[1]), "the begin of its part of a storage");
    view.limit = whole(pickle_.at(part[2]), "the length of its part of a storage");
    if (view.begin > view.storage.elements || view.limit > view.storage.elements - view.begin) {
      fail(ErrorKind::data, "its part of a storage, {} elements from {} on, does not fit the {} elements of the storage",
           view.limit, view.begin, view.storage.elements);
    }
  }

  // The place of the last element, which must be in the storage.
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
    if (overflow || end >= view.limit || view.elements > view.limit) {
      fail(ErrorKind::data, "is {} from element {} on, which does not fit its storage of {} elements", to_string(view.shape),
           view.offset, view.limit);
    }
    view.span = last + 1;
  }

  std::vector<float> values_of(const StorageView& view) {
    const std::uint64_t element = element_bytes(view.storage.type);
    std::vector<float> span(view.span);
    std::vector<char> piece(std::min<std::size_t>(kPieceElements, view.span) * element);
    for (std::size_t done = 0; done < span.size();) {
      const std::size_t count = std::min(kPieceElements, span.size() - done);
      storages_.read(view.storage, view.begin + view.offset + done, std::span(piece).first(count * element));
      convert_elements(view.storage.type, piece.data(), count, span.data() + done);
      done += count;
    }
    return in_order(view, std::move(span));
  }

  // Row-major, for any strides.
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

  const Pickle& pickle_;
  TorchStorages& storages_;
  std::uint64_t values_ = 0;  // read so far
};

}  // namespace

bool is_of_state_dict(const std::string& function) {
  return is_tensor(function) || is_parameter(function) || function == kWithAttributes || !type_of_storage(function).empty() ||
         is_inert(function) || unread_kind(function) != nullptr;
}

TorchStorage storage_of(const Pickle& pickle, const PickleNode& persistent) {
  const PickleNode* tuple = persistent.kind == PickleNode::Kind::persistent ? &pickle.at(persistent.items[0]) : nullptr;
  if (tuple == nullptr || tuple->kind != PickleNode::Kind::tuple || tuple->items.size() < 5) {
    fail(ErrorKind::data, "its storage is not described as torch.save() does");
  }
  const PickleNode& type = pickle.at(tuple->items[1]);
  const PickleNode& key = pickle.at(tuple->items[2]);
  TorchStorage storage;
  if (type.kind == PickleNode::Kind::function) storage.type = type_of_storage(type.text);
  if (storage.type.empty() || key.kind != PickleNode::Kind::text)
    fail(ErrorKind::data, "its storage is not described as torch.save() does");
  storage.key = key.text;
  storage.elements = whole(pickle.at(tuple->items[4]), "the length of its storage");
  return storage;
}

TensorFile tensors_of(const Pickle& pickle, const std::string& inside, TorchStorages& storages) {
  return TensorReader(pickle, storages).read(inside);
}

}  // namespace millrace
