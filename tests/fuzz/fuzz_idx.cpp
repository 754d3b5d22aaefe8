// The reader of IDX files: the input is a file of images, after a file of labels.
#include "memory_storage.h"
#include "read_idx.h"

namespace millrace::fuzz {

namespace {

std::string idx(std::initializer_list<unsigned> extents, const std::string& elements) {
  std::string bytes{0, 0, 8, static_cast<char>(extents.size())};
  for (const unsigned extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + elements;
}

// The first byte: the number of bytes of labels.
std::string input(const std::string& images, const std::string& labels) {
  return static_cast<char>(labels.size()) + labels + images;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string labels = idx({2}, std::string{1, 0});
  return {input(idx({2, 2, 3}, std::string(12, 'x')), labels),
          input(idx({2, 1, 2, 3}, std::string(12, 'x')), labels),
          input(labels, labels),
          input(idx({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ""), labels),
          input("\x1f\x8b\x08", labels),
          input("", "")};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static fuzz::Bench bench;
  if (size == 0) return 0;
  const std::size_t labels = std::min<std::size_t>(data[0], size - 1);
  bench.storage->objects["train-labels-idx1-ubyte"].assign(data + 1, data + 1 + labels);
  bench.storage->objects["train-images-idx3-ubyte"].assign(data + 1 + labels, data + size);
  ReadIdx::Params params;
  params.path = "in";
  ReadIdx source(params, bench.context);
  fuzz::read_all(source);
  return 0;
}
