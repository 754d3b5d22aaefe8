// Helpers for tests of libmillrace_predict.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/predict.hpp"
#include "trained_fixture.h"

namespace millrace::test::embedding_test {

namespace fs = std::filesystem;
using predict::Model;

inline predict::Image encoded(const std::string& bytes) { return predict::encoded(bytes.data(), bytes.size()); }

inline std::pair<millrace_status, std::string> failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const predict::Error& error) {
    return {error.status(), error.what()};
  }
  return {MILLRACE_OK, ""};
}

inline std::string png_of(int height, int width, int channels = 3) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < height * width * channels; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 7 % 251));
  return png_bytes({pixels.data(), {height, width, channels}});
}

// The weights with a changed header. Bytes that are not UTF-8 are replaced.
inline std::string with_header(const std::function<void(nlohmann::ordered_json& header)>& change) {
  const std::string whole = read_file(trained().weights);
  std::uint64_t size = 0;
  std::memcpy(&size, whole.data(), sizeof size);
  auto header = nlohmann::ordered_json::parse(whole.substr(8, size));
  change(header);
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t new_size = text.size();
  std::string bytes(sizeof new_size, 0);
  std::memcpy(bytes.data(), &new_size, sizeof new_size);
  return bytes + text + whole.substr(8 + size);
}

}  // namespace millrace::test::embedding_test
