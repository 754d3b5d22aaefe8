// Builds safetensors files byte by byte: for tests, and as seeds of the fuzz target.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace millrace::safetensors_fixture {

inline std::string length_bytes(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

inline std::string file_of(const std::string& header, const std::string& values) {
  return length_bytes(header.size()) + header + values;
}

// A tensor's entry in the header; `shape` in JSON.
struct Line {
  std::string name, type, shape;
  std::uint64_t begin = 0, end = 0;
};

inline std::string json_of(const Line& line) {
  std::string json = "\"" + line.name + "\":{\"dtype\":\"" + line.type + "\",\"shape\":" + line.shape + ",\"data_offsets\":[";
  return json + std::to_string(line.begin) + "," + std::to_string(line.end) + "]}";
}

inline std::string header_of(const std::vector<Line>& lines) {
  std::string header = "{\"__metadata__\":{\"epoch\":\"3\"}";
  for (const Line& line : lines) header.append(",").append(json_of(line));
  return header + "}";
}

// 44 bytes of values: a matrix, a half-precision vector, a number, and an integer that is not read.
inline std::vector<Line> small_lines() {
  return {{"conv.weight", "F32", "[2,3]", 0, 24},
          {"conv.bias", "F16", "[2]", 24, 28},
          {"scale", "F64", "[]", 28, 36},
          {"count", "I64", "[1]", 36, 44}};
}

inline std::string small_values() {
  std::string values;
  for (int i = 0; i < 44; ++i) values += static_cast<char>(i % 4 == 3 ? 0x3f : i);  // small numbers, no NaN
  return values;
}

inline std::string small_file() { return file_of(header_of(small_lines()), small_values()); }

}  // namespace millrace::safetensors_fixture
