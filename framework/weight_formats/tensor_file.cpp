#include "weight_formats/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weight_formats/safetensors.h"
#include "weight_formats/torch_file.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "values in files are little-endian and are read as they lie");

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = (bits >> 10U) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign ? -1.0F : 1.0F);
  const std::uint32_t wide = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

std::string first_bytes(const std::string& path) {
  std::array<char, 64> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(file.gcount())};
}

constexpr std::string_view kGitLfs = "version https://git-lfs", kHdf5 = "\x89HDF", kNumpy = "\x93NUMPY", kGzip = "\x1f\x8b",
                           kXz = "\3757zXZ", kZstd = "\x28\xb5\x2f\xfd";

// Recognises protocol buffers by their first fields: ONNX models (a version, then a name or the graph), Caffe's networks and
// TensorFlow's graphs (a name or a part, of some bytes).
std::string protocol_buffer(std::string_view first) {
  if (first.size() < 9) return "";
  const bool is_onnx = first[0] == '\x08' && (first[2] == '\x12' || first[2] == '\x3a');
  if (is_onnx) return "an ONNX file, or another protocol buffer";
  const bool is_longer = std::ranges::any_of(first.substr(4, 4), [](char byte) { return byte != 0; });  // longer than any header
  return first[0] == '\n' && first[1] > 0 && is_longer ? "a protocol buffer, as Caffe and TensorFlow write them" : "";
}

std::string text_sort(std::string_view path, std::string_view first) {
  const std::size_t begin = first.find_first_not_of(" \t\r\n");
  if (begin == first.npos) return "";
  if (path.ends_with(".index.json"))
    return "the list of the parts of the weights: read each with load_file() of safetensors.torch, and write all of their "
           "tensors into one file with save_file()";
  if (first[begin] == '<') return "a page of HTML or XML: a server may have answered with it in place of the file";
  return fmt::format("text, which begins with '{}'", shown(first));
}

// The format of a file that is neither supported format, by its first bytes; "": it may be safetensors. `first`: not empty.
std::string other_sort(std::string_view path, std::string_view first) {
  const auto is_text = [](unsigned char byte) {
    return byte == '\t' || byte == '\n' || byte == '\r' || (byte >= ' ' && byte != 0x7f);
  };
  if (first.starts_with(kGitLfs)) return "the pointer that Git LFS leaves for a file: git lfs pull fetches it";
  if (first.starts_with(kHdf5)) return "an HDF5 file, as Keras writes them";
  if (first.starts_with(kNumpy)) return "an array of NumPy: save_file() of safetensors.numpy writes named ones";
  if (std::ranges::all_of(first, is_text)) return text_sort(path, first);
  const bool has_header = first.size() > 8 && first[8] == '{';  // safetensors, at any length
  if (has_header) return "";
  if (first.starts_with(kGzip) || first.starts_with(kXz) || first.starts_with(kZstd))
    return "compressed, by gzip, xz or zstd: unpack it";
  if (first.size() > 1 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5) return "a pickle of Python, not of torch.save()";
  return protocol_buffer(first);
}

void refuse_others(const std::string& path, std::string_view first) {
  std::error_code ignored;
  const bool is_empty = first.empty() && std::filesystem::is_regular_file(path, ignored);
  const std::string sort = is_empty ? "empty" : first.empty() ? "" : other_sort(path, first);
  if (sort.empty()) return;
  fail(ErrorKind::data, "tensor file '{}': is {}. Weights are safetensors, or a state dict that torch.save() wrote", path, sort);
}

void refuse_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  const std::filesystem::path inside = path / "weights.safetensors";
  const bool has_weights = std::filesystem::is_regular_file(inside, ignored);
  fail(ErrorKind::usage, "'{}' is a folder, and weights are a file{}", path.string(),
       has_weights ? fmt::format("; it holds '{}'", inside.string()) : "");
}

// Keeps tensors whose names begin with the prefix and a dot, and removes that.
void keep_inside(TensorFile& file, const std::string& path, const std::string& prefix) {
  std::set<std::string> first_parts;
  for (const ListedTensor& tensor : file.listed) first_parts.insert(tensor.name.substr(0, tensor.name.find('.')));
  const auto cut = [&](std::string& name) {
    const bool is_inside = name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '.';
    if (is_inside) name.erase(0, prefix.size() + 1);
    return is_inside;
  };
  std::erase_if(file.tensors, [&](NamedTensor& tensor) { return !cut(tensor.name); });
  std::erase_if(file.listed, [&](ListedTensor& tensor) { return !cut(tensor.name); });
  std::erase_if(file.not_floating, [&](std::string& name) { return !cut(name); });
  if (!file.listed.empty()) return;
  constexpr std::size_t kNamesInMessage = 8;
  std::vector<std::string> named;
  for (const std::string& part : first_parts) {
    if (named.size() < kNamesInMessage) named.push_back(shown(part));
  }
  fail(ErrorKind::data, "tensor file '{}': has no tensors inside '{}': their names begin with '{}'{}", path, prefix,
       fmt::join(named, "', '"), first_parts.size() > kNamesInMessage ? ", ..." : "");
}

}  // namespace

std::uint64_t element_bytes(const std::string& type) {
  static const std::map<std::string, std::uint64_t> sizes = {
      {"F64", 8},     {"F32", 4},     {"F16", 2}, {"BF16", 2},  {"I64", 8}, {"I32", 4},  {"I16", 2},
      {"I8", 1},      {"U64", 8},     {"U32", 4}, {"U16", 2},   {"U8", 1},  {"BOOL", 1}, {"F8_E5M2", 1},
      {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"C64", 8}, {"C128", 16}, {"QI8", 1}, {"QU8", 1},  {"QI32", 4}};
  const auto found = sizes.find(type);
  if (found == sizes.end()) fail(ErrorKind::data, "has the element type '{}', which is not known here", shown(type));
  return found->second;
}

bool is_floating(const std::string& type) { return type == "F64" || type == "F32" || type == "F16" || type == "BF16"; }

void convert_elements(const std::string& type, const char* source, std::size_t count, float* values) {
  const auto each = [&]<class T>(T, auto&& to_float) {
    for (std::size_t i = 0; i < count; ++i) {
      T element;
      std::memcpy(&element, source + i * sizeof(T), sizeof(T));
      values[i] = to_float(element);
    }
  };
  if (type == "F32") {
    if (count > 0) std::memcpy(values, source, count * sizeof(float));
  } else if (type == "F64") {
    each(double{}, [](double value) { return static_cast<float>(value); });
  } else if (type == "F16") {
    each(std::uint16_t{}, from_f16);
  } else {
    each(std::uint16_t{}, from_bf16);
  }
}

TensorFile read_tensors(const std::string& path, const std::string& inside) {
  refuse_folder(path);
  const std::string first = first_bytes(path);
  if (is_torch_file(first)) return read_torch_file(path, inside);
  refuse_others(path, first);
  TensorFile file = read_safetensors(path);
  if (!inside.empty()) keep_inside(file, path, inside);
  return file;
}

std::map<std::string, std::string> read_tensors_metadata(const std::string& path) {
  refuse_folder(path);
  const std::string first = first_bytes(path);
  if (is_torch_file(first)) return {};
  refuse_others(path, first);
  return read_safetensors_metadata(path);
}

}  // namespace millrace
