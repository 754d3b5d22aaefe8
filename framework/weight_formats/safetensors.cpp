#include "weight_formats/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <set>
#include <streambuf>

#include "base/json.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "millrace/util/tensor_values.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

using HeaderJson = nlohmann::json;  // a map: a header may have many names

constexpr std::uint64_t kLongestHeader = 100'000'000;  // as in the reference implementation
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct Entry {
  std::string name, type;
  Shape shape;
  std::uint64_t elements = 1;
  std::uint64_t begin = 0, end = 0;
};

constexpr std::size_t kDeepest = 4;  // a header needs 3
// A header has more text for each value; headers that would expand a hundredfold in memory are refused.
constexpr std::size_t kLeastBytesAValue = 4;
constexpr std::size_t kMaxTensors = 250'000;
// Maximum size of metadata. Ours are shorter; longer ones belong to other tools, and would occupy memory during the whole run.
constexpr std::size_t kLongestMetadata = std::size_t{8} << 20, kMaxMetadata = std::size_t{32} << 20;

// Checks a header before it is built. JSON silently keeps the last of two equal keys, which would hide a tensor.
class HeaderWatch final : public nlohmann::json_sax<HeaderJson> {
 public:
  explicit HeaderWatch(std::size_t bytes) : most_values_(16 + bytes / kLeastBytesAValue) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) fail(ErrorKind::data, "its header has '{}' twice", shown(name));
    if (keys_.size() == 1 && keys_.back().size() > kMaxTensors)
      fail(ErrorKind::data, "its header lists more than {} tensors", kMaxTensors);
    return true;
  }

 private:
  bool value() {
    if (++values_ > most_values_) fail(ErrorKind::data, "its header lists too many values for its bytes");
    return true;
  }
  bool open(bool is_object) {
    if (open_.size() == kDeepest) fail(ErrorKind::data, "its header is nested too deeply: this is not a safetensors file");
    open_.push_back(is_object);
    if (is_object) keys_.emplace_back();
    return value();
  }
  bool close() {
    if (open_.back()) keys_.pop_back();
    open_.pop_back();
    return true;
  }

  const std::size_t most_values_;
  std::size_t values_ = 0;
  std::vector<bool> open_;                   // open objects and arrays: whether each is an object
  std::vector<std::set<std::string>> keys_;  // keys of each open object
};

HeaderJson parse_header(const std::string& text) {
  HeaderWatch watch(text.size());
  HeaderJson header;  // null
  if (HeaderJson::sax_parse(text, &watch)) header = HeaderJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail(ErrorKind::data, "its header is not a JSON object: this is not a safetensors file");
  return header;
}

std::uint64_t as_unsigned(const HeaderJson& value, const char* what) {
  if (!value.is_number_unsigned()) fail(ErrorKind::data, "{} must be a whole number from 0, found {}", what, shown(value.dump()));
  return value.get<std::uint64_t>();
}

Entry read_entry(const std::string& name, const HeaderJson& json) {
  Entry entry;
  entry.name = name;
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!json.is_object() || !json.contains(key)) fail(ErrorKind::data, "its description has no '{}'", key);
  }
  if (!json["dtype"].is_string()) fail(ErrorKind::data, "'dtype' must be text, found {}", shown(json["dtype"].dump()));
  entry.type = json["dtype"].get<std::string>();
  const HeaderJson& shape = json["shape"];
  if (!shape.is_array() || shape.size() > Shape::kMaxRank) {
    fail(ErrorKind::data, "'shape' must be a list of at most {} extents, found {}", Shape::kMaxRank, shown(shape.dump()));
  }
  std::int64_t bound = 1;  // bounds the product of any extents: a 0 among them must not hide the others
  for (const HeaderJson& value : shape) {
    const std::uint64_t extent = as_unsigned(value, "an extent");
    const auto least_one = static_cast<std::int64_t>(std::clamp<std::uint64_t>(extent, 1, INT64_MAX));
    if (extent > INT64_MAX || __builtin_mul_overflow(entry.elements, extent, &entry.elements) ||
        __builtin_mul_overflow(bound, least_one, &bound)) {
      fail(ErrorKind::data, "its shape {} is too large", shown(shape.dump()));
    }
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const HeaderJson& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) fail(ErrorKind::data, "'data_offsets' must be [begin, end]");
  entry.begin = as_unsigned(offsets[0], "an offset");
  entry.end = as_unsigned(offsets[1], "an offset");
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(entry.elements, element_bytes(entry.type), &bytes) || entry.end < entry.begin ||
      entry.end - entry.begin != bytes) {
    fail(ErrorKind::data, "its offsets [{}, {}] do not hold {} elements of {}", entry.begin, entry.end, entry.elements,
         entry.type);
  }
  return entry;
}

// In the order of their values, which must fill `size` bytes without gap or overlap.
std::vector<Entry> read_entries(const HeaderJson& header, std::uint64_t size) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      entries.push_back(read_entry(name, json));
    } catch (Error& error) {
      throw error.in(fmt::format("tensor '{}'", shown(name)));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name); });
  std::uint64_t filled = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != filled) {
      fail(ErrorKind::data, "tensor '{}' begins at byte {}, {} the one before it ends at {}", shown(entry.name), entry.begin,
           entry.begin < filled ? "although" : "but", filled);
    }
    filled = entry.end;
  }
  if (filled != size)
    fail(ErrorKind::data, "its tensors have {} bytes, but {} bytes follow the header: it was cut or added to", filled, size);
  return entries;
}

std::map<std::string, std::string> read_metadata(const HeaderJson& header) {
  std::map<std::string, std::string> metadata;
  if (!header.contains("__metadata__")) return metadata;
  const HeaderJson& json = header["__metadata__"];
  if (!json.is_object()) fail(ErrorKind::data, "its '__metadata__' is not a table of texts");
  std::size_t kept = 0;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(ErrorKind::data, "'{}' in its '__metadata__' is not text", shown(key));
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t bytes = key.size() + text.size();
    if (bytes > kLongestMetadata || bytes > kMaxMetadata - kept) continue;
    kept += bytes;
    metadata[key] = text;
  }
  return metadata;
}

// Reads bytes in place.
class HeldBytes : public std::streambuf {
 public:
  explicit HeldBytes(std::span<const std::uint8_t> bytes) {
    auto* begin = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));  // never written
    setg(begin, begin, begin + bytes.size());
  }
};

class Reader {
 public:
  Reader(std::istream& file, std::uint64_t size) : file_(file), size_(size) {}

  std::map<std::string, std::string> metadata() { return read_metadata(parse_header(header())); }

  TensorFile read() {
    std::vector<NamedTensor> tensors;
    TensorFile result = read([&](NamedTensor tensor) { tensors.push_back(std::move(tensor)); });
    result.tensors = std::move(tensors);
    return result;
  }
  // Reads everything except the tensors, which are passed to `take_tensor` one by one.
  template <class Take>
  TensorFile read(const Take& take_tensor) {
    const std::string text = header();
    const HeaderJson json = parse_header(text);
    TensorFile result;
    result.metadata = read_metadata(json);
    for (const Entry& entry : read_entries(json, size_ - 8 - text.size())) {
      result.listed.push_back({entry.name, entry.type, entry.shape});
      if (is_floating(entry.type)) {
        take_tensor({entry.name, entry.shape, values(entry)});
      } else {
        result.not_floating.push_back(entry.name);
        file_.ignore(static_cast<std::streamsize>(entry.end - entry.begin));
      }
    }
    return result;
  }

 private:
  void take(char* to, std::size_t bytes) {
    if (!file_.read(to, static_cast<std::streamsize>(bytes))) fail(ErrorKind::data, "cannot be read to its end");
  }

  std::string header() {
    std::uint64_t length = 0;
    if (size_ < 8) fail(ErrorKind::data, "is only {} bytes long: this is not a safetensors file", size_);
    take(reinterpret_cast<char*>(&length), 8);
    if (length > kLongestHeader || length > size_ - 8) {
      fail(ErrorKind::data, "its header would be {} bytes long in a file of {}: it was cut short or is not a safetensors file",
           length, size_);
    }
    std::string text(length, ' ');
    take(text.data(), text.size());
    return text;
  }

  std::vector<float> values(const Entry& entry) {
    std::vector<float> result(entry.elements);
    const std::size_t element = element_bytes(entry.type);
    std::vector<char> piece(std::min<std::size_t>(kPieceBytes, entry.end - entry.begin));
    for (std::size_t done = 0; done < result.size();) {
      const std::size_t count = std::min(kPieceBytes / element, result.size() - done);
      take(piece.data(), count * element);
      convert_elements(entry.type, piece.data(), count, result.data() + done);
      done += count;
    }
    return result;
  }

  std::istream& file_;
  const std::uint64_t size_;
};

template <class Read>
auto reading(const std::string& path, const Read& read) {
  try {
    std::ifstream file(path, std::ios::binary);
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    if (error || !file) fail(ErrorKind::data, "cannot be opened: {}", error ? error.message() : std::strerror(errno));
    Reader reader(file, size);
    return read(reader);
  } catch (Error& error) {
    throw error.in("tensor file '" + path + "'");
  }
}

}  // namespace

TensorFile read_safetensors(const std::string& path) {
  return reading(path, [](Reader& reader) { return reader.read(); });
}

TensorFile read_safetensors(std::span<const std::uint8_t> bytes) {
  HeldBytes held(bytes);
  std::istream file(&held);
  return Reader(file, bytes.size()).read();
}

void for_each_tensor(const std::string& path,
                     const std::function<void(const std::string& name, std::span<const float> values)>& take) {
  reading(path,
          [&](Reader& reader) { return reader.read([&](const NamedTensor& tensor) { take(tensor.name, tensor.values); }); });
}

std::map<std::string, std::string> read_safetensors_metadata(const std::string& path) {
  return reading(path, [](Reader& reader) { return reader.metadata(); });
}

namespace {

std::string quoted(const std::string& text) { return Json(text).dump(); }

// Written as text directly: a Json of nested lists allocates on destruction, and failing to do so ends the process.
std::string header_text(const std::vector<ListedTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(quoted(key) + ":" + quoted(value));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  std::uint64_t offset = 0;
  for (const ListedTensor& tensor : tensors) {
    assert(tensor.name != "__metadata__" && tensor.type == "F32");
    const std::uint64_t end = offset + static_cast<std::uint64_t>(tensor.shape.elements()) * sizeof(float);
    members.push_back(fmt::format(R"({}:{{"dtype":{},"shape":[{}],"data_offsets":[{},{}]}})", quoted(tensor.name),
                                  quoted(tensor.type), fmt::join(tensor.shape.begin(), tensor.shape.end(), ","), offset, end));
    offset = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the values to eight bytes
  return text;
}

void write_header(const TakeBytes& take, const std::vector<ListedTensor>& tensors,
                  const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  take(&length, sizeof length);
  take(header.data(), header.size());
}

void write_values(const TakeBytes& take, [[maybe_unused]] const Shape& shape, const std::vector<float>& values) {
  assert(static_cast<std::int64_t>(values.size()) == shape.elements());
  take(values.data(), values.size() * sizeof(float));
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  OutputFile file(path);
  write_safetensors([&](const void* data, std::size_t bytes) { file.write(data, bytes); }, tensors, metadata);
  file.commit();
}

void write_safetensors(const TakeBytes& take, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<ListedTensor> listed;
  for (const NamedTensor& tensor : tensors) listed.push_back({tensor.name, "F32", tensor.shape});
  write_header(take, listed, metadata);
  for (const NamedTensor& tensor : tensors) write_values(take, tensor.shape, tensor.values);
}

void write_safetensors(const std::string& path, const std::vector<ListedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata, const FetchValues& fetch) {
  OutputFile file(path);
  const TakeBytes take = [&](const void* data, std::size_t bytes) { file.write(data, bytes); };
  write_header(take, tensors, metadata);
  for (std::size_t t = 0; t < tensors.size(); ++t) write_values(take, tensors[t].shape, fetch(t));
  file.commit();
}

}  // namespace millrace
