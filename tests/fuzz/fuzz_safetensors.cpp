// Safetensors files: the header and the values after it.
#include <unistd.h>

#include <cstdio>

#include "fuzz.h"
#include "millrace/error.h"
#include "weight_formats/safetensors.h"
#include "weight_formats/safetensors_fixture.h"

namespace millrace::fuzz {

namespace {

using namespace safetensors_fixture;

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
