// The smallest files of formats that hold many samples, for their sources.
#include <cstdio>
#include <cstring>
#include <fstream>

#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

void write(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// A member of a tar archive, in POSIX format.
std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  std::snprintf(header.data(), 100, "%s", name.c_str());
  std::snprintf(header.data() + 124, 12, "%011o", static_cast<unsigned>(content.size()));
  std::memcpy(header.data() + 148, "        0", 9);  // spaces for the checksum; a plain file
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

}  // namespace

void write_archives(const std::filesystem::path& folder) {
  std::string tar;
  for (int i = 0; i < 6; ++i) {
    const std::vector<std::uint8_t> image = grey_jpeg(8, 8, static_cast<std::uint8_t>(30 * i));
    tar += tar_member(std::to_string(i) + ".cls", std::to_string(i % 2));
    tar += tar_member(std::to_string(i) + ".jpg", {image.begin(), image.end()});
  }
  write(folder / "samples.tar", tar + std::string(1024, '\0'));

  std::string cifar;  // CIFAR-10: a label and 3 x 32 x 32 values
  for (int i = 0; i < 6; ++i) cifar += static_cast<char>(i % 2) + std::string(3072, static_cast<char>(30 * i));
  write(folder / "data_batch_1.bin", cifar);

  std::string images{0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0, 8}, labels{0, 0, 8, 1, 0, 0, 0, 6};
  for (int i = 0; i < 6; ++i) {
    images += std::string(64, static_cast<char>(30 * i));
    labels += static_cast<char>(i % 2);
  }
  write(folder / "train-images-idx3-ubyte", images);
  write(folder / "train-labels-idx1-ubyte", labels);
}

}  // namespace millrace::conformance
