// Builds state dicts byte by byte, in torch.save()'s format: for tests, and as seeds of the fuzz target.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace millrace::torch_fixture {

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}

// ---- a pickle ----

inline std::string text(const std::string& value) {
  return std::string("X").append(bytes_of({static_cast<std::uint32_t>(value.size())})).append(value);
}
inline std::string integer(std::int64_t value) {
  if (value >= 0 && value < 256) return std::string("K").append(bytes_of({static_cast<std::uint8_t>(value)}));
  return std::string("\x8a\x08") + bytes_of({value});
}
inline std::string function(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
inline std::string tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all + "t";
}
inline std::string integers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}

struct Item {
  std::string key, value;
};
inline std::string ordered_dict(const std::vector<Item>& items = {}) {
  std::string all = function("collections", "OrderedDict") + ")R";
  if (items.empty()) return all;
  all += "(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return all + "u";
}
inline std::string storage(const std::string& type, const std::string& key, std::int64_t elements) {
  return tuple({text("storage"), function("torch", type), text(key), text("cpu"), integer(elements)}) + "Q";
}
inline std::string tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& size,
                          const std::vector<std::int64_t>& stride) {
  return function("torch._utils", "_rebuild_tensor_v2") +
         tuple({storage, integer(offset), integers(size), integers(stride), "\x89", ordered_dict()}) + "R";
}
inline std::string parameter(const std::string& tensor) {
  return function("torch._utils", "_rebuild_parameter") + tuple({tensor, "\x88", ordered_dict()}) + "R";
}
inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

// ---- an archive ----

// Flag: an entry's own header lacks the sizes, which follow its content in a descriptor.
constexpr std::uint16_t kSizesFollow = 8;

struct ZipEntry {
  std::string name, content;
  std::uint16_t method = 0, flags = 0;
};

// `large`: with the fields of zip64.
inline std::string zip(const std::vector<ZipEntry>& entries, bool large = false) {
  constexpr std::uint32_t kLarge = 0xffffffff;
  std::string all, directory;
  for (const ZipEntry& entry : entries) {
    const std::uint64_t begin = all.size(), size = entry.content.size();
    const auto figure = [&](std::uint64_t value) { return bytes_of({large ? kLarge : static_cast<std::uint32_t>(value)}); };
    const std::string extra = large ? bytes_of<std::uint16_t>({1, 24}) + bytes_of({size, size, begin}) : "";
    const auto common = [&](std::uint64_t content) {
      return bytes_of<std::uint16_t>({45, entry.flags, entry.method, 0, 0}) + bytes_of<std::uint32_t>({0}) + figure(content) +
             figure(content) + bytes_of({static_cast<std::uint16_t>(entry.name.size())});
    };
    const bool follows = (entry.flags & kSizesFollow) != 0;
    all += "PK\3\4" + common(follows ? 0 : size) + bytes_of<std::uint16_t>({0}) + entry.name + entry.content;
    if (follows) all += "PK\7\10" + bytes_of<std::uint32_t>({0}) + figure(size) + figure(size);
    directory += "PK\1\2" + bytes_of<std::uint16_t>({45}) + common(size) + bytes_of({static_cast<std::uint16_t>(extra.size())}) +
                 std::string(10, '\0') + figure(begin) + entry.name + extra;
  }
  const std::uint64_t begin = all.size(), count = entries.size(), size = directory.size();
  all += directory;
  if (large) {
    const std::uint64_t record = all.size();
    all += "PK\6\6" + bytes_of<std::uint64_t>({44}) + std::string(12, '\0') + bytes_of({count, count, size, begin});
    all += "PK\6\7" + std::string(4, '\0') + bytes_of({record}) + bytes_of<std::uint32_t>({1});
  }
  const auto few = static_cast<std::uint16_t>(large ? 0xffff : count);
  return all + "PK\5\6" + std::string(4, '\0') + bytes_of({few, few}) +
         bytes_of({large ? kLarge : static_cast<std::uint32_t>(size), large ? kLarge : static_cast<std::uint32_t>(begin)}) +
         std::string(2, '\0');
}

// ---- both ----

struct Values {
  std::string key, bytes;
};

inline std::vector<ZipEntry> entries_of(const std::string& pickle, const std::vector<Values>& values,
                                        const std::string& order = "little") {
  std::vector<ZipEntry> entries = {{"weights/data.pkl", pickle}, {"weights/byteorder", order}};
  for (const auto& [key, bytes] : values) entries.push_back({"weights/data/" + key, bytes});
  entries.push_back({"weights/version", "3\n"});
  return entries;
}

// Two layers: conv.weight (2, 3) and, in the same storage from element 6 on, conv.bias (2).
inline std::string small_state_dict() {
  const std::string values = storage("FloatStorage", "0", 8);
  return zip(entries_of(pickle(ordered_dict({{"conv.weight", tensor(values, 0, {2, 3}, {3, 1})},
                                             {"conv.bias", tensor(values, 6, {2}, {1})},
                                             {"bn.num_batches_tracked", tensor(storage("LongStorage", "1", 1), 0, {}, {})}})),
                        {{"0", bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7})}, {"1", bytes_of<std::int64_t>({9})}}));
}

// ---- a stream, as before PyTorch 1.6 ----

struct Stored {
  std::string key, bytes;
  std::uint64_t elements = 0;
};

// Format before PyTorch 0.4.
inline std::string old_tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& size,
                              const std::vector<std::int64_t>& stride) {
  return function("torch._utils", "_rebuild_tensor") + tuple({storage, integer(offset), integers(size), integers(stride)}) + "R";
}
// `part`: ("its own key", first, elements) of the storage.
inline std::string old_storage(const std::string& type, const std::string& key, std::int64_t elements,
                               const std::string& part = "N") {
  return tuple({text("storage"), function("torch", type), text(key), text("cpu"), integer(elements), part}) + "Q";
}
inline std::string stream_head(const std::string& version = integer(1001), const std::string& little_endian = "\x88") {
  const std::string mark = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  return mark + pickle(version) +
         pickle("}(" + text("protocol_version") + integer(1001) + text("little_endian") + little_endian + "u");
}
inline std::string stored(const std::vector<Stored>& storages) {
  std::string keys = "](", values;
  for (const auto& [key, bytes, elements] : storages) {
    keys += text(key);
    values += bytes_of({elements}) + bytes;
  }
  return pickle(keys + "e") + values;
}
inline std::string stream(const std::string& value, const std::vector<Stored>& storages) {
  return stream_head() + pickle(value) + stored(storages);
}

// The tensors of small_state_dict().
inline std::vector<Item> small_old_items() {
  const std::string values = old_storage("FloatStorage", "94210", 8);
  return {{"conv.weight", tensor(values, 0, {2, 3}, {3, 1})},
          {"conv.bias", tensor(values, 6, {2}, {1})},
          {"bn.num_batches_tracked", tensor(old_storage("LongStorage", "94208", 1), 0, {}, {})}};
}
inline std::vector<Stored> small_old_storages() {
  return {{"94208", bytes_of<std::int64_t>({9}), 1}, {"94210", bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7}), 8}};
}
inline std::string small_old_state_dict() { return stream(ordered_dict(small_old_items()), small_old_storages()); }

}  // namespace millrace::torch_fixture
