// Safetensors files: the header and the values after it.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz.h"
#include "millrace/error.h"
#include "weights/safetensors.h"

namespace millrace::fuzz {

namespace {

std::string length_bytes(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

std::string file_of(const std::string& header, const std::string& values) {
  return length_bytes(header.size()) + header + values;
}

// A tensor's entry in the header; `shape` in JSON.
struct Line {
  std::string name, type, shape;
  std::uint64_t begin = 0, end = 0;
};

std::string json_of(const Line& line) {
  std::string json = "\"" + line.name + "\":{\"dtype\":\"" + line.type + "\",\"shape\":" + line.shape + ",\"data_offsets\":[";
  return json + std::to_string(line.begin) + "," + std::to_string(line.end) + "]}";
}

std::string header_of(const std::vector<Line>& lines) {
  std::string header = "{\"__metadata__\":{\"epoch\":\"3\"}";
  for (const Line& line : lines) header.append(",").append(json_of(line));
  return header + "}";
}

// 44 bytes of values: a matrix, a half-precision vector, a number, and an integer that is not read.
std::vector<Line> small_lines() {
  return {{"conv.weight", "F32", "[2,3]", 0, 24},
          {"conv.bias", "F16", "[2]", 24, 28},
          {"scale", "F64", "[]", 28, 36},
          {"count", "I64", "[1]", 36, 44}};
}

std::string small_values() {
  std::string values;
  for (int i = 0; i < 44; ++i) values += static_cast<char>(i % 4 == 3 ? 0x3f : i);  // small numbers, no NaN
  return values;
}

std::string small_file() { return file_of(header_of(small_lines()), small_values()); }

// In memory, not on a disk.
std::string file_name() { return "/dev/shm/millrace_fuzz_" + std::to_string(getpid()) + ".safetensors"; }

}  // namespace

std::vector<std::string> seeds() {
  const std::string values = small_values();
  return {small_file(),
          file_of("{}", ""),
          file_of(header_of({{"w", "BF16", "[0,7]", 0, 0}, {"v", "F32", "[1,1,11]", 0, 44}}) + "   ", values),
          file_of(header_of({{"w", "F32", "[4611686018427387904,4611686018427387904]", 0, 44}}), values),
          file_of(header_of({{"w", "F32", "[5]", 0, 20}, {"w", "F32", "[6]", 20, 44}}), values),
          file_of("{\"w\":[[[[[[[[1]]]]]]]]}", ""),
          file_of("{\"w\":" + std::string(20'000, '[') + std::string(20'000, ']') + "}", ""),
          file_of("{\"__metadata__\":{\"usage\":\"version = 1\",\"classes\":\"[[[[\"}}", ""),
          file_of(header_of({{"w", "F32", "[18446744073709551616]", 0, 24}, {"v", "F12", "[-0,3]", 1, UINT64_MAX}}), values),
          file_of("{\"w\":{\"dtype\":\"F32\",\"shape\":[6e0],\"data_offsets\":[24,0,1e400]}}", values),
          small_file() + std::string(100, '\0'),
          length_bytes(std::uint64_t{1} << 63U) + "{}"};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string path = fuzz::file_name();
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    if (size > 0) std::fwrite(data, 1, size, file);
    std::fclose(file);
  }
  try {
    std::size_t values = 0;
    for (const NamedTensor& tensor : read_safetensors(path).tensors) {
      fuzz::require(tensor.values.size() == static_cast<std::size_t>(tensor.shape.elements()), "a tensor has all its values");
      values += tensor.values.size();
    }
    fuzz::require(2 * values <= size, "each value is read from two bytes of its own or more");
    read_safetensors_metadata(path);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::data, "what is wrong with a file is an error of data");
    fuzz::require(std::string(error.what()).find(path) != std::string::npos, "the file is named");
  }
  std::remove(path.c_str());
  return 0;
}
