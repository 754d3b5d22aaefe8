// The smallest JPEG encoder: one component, DC coefficients only (ITU-T T.81, annexes B, C and F).
#include <bit>
#include <cstdlib>

#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

class Writer {
 public:
  void bytes(std::initializer_list<int> values) {
    for (const int value : values) out_.push_back(static_cast<std::uint8_t>(value));
  }
  void bits(unsigned value, int count) {
    for (int i = count - 1; i >= 0; --i) {
      pending_ = pending_ << 1 | (value >> i & 1U);
      if (++filled_ == 8) flush_byte();
    }
  }
  void pad() {
    while (filled_ != 0) bits(1, 1);
  }
  std::vector<std::uint8_t> take() { return std::move(out_); }

 private:
  void flush_byte() {
    out_.push_back(static_cast<std::uint8_t>(pending_));
    if ((pending_ & 0xffU) == 0xffU) out_.push_back(0);  // a data byte 0xff is not a marker
    pending_ = 0;
    filled_ = 0;
  }

  std::vector<std::uint8_t> out_;
  unsigned pending_ = 0;
  int filled_ = 0;
};

void write_header(Writer& writer, int height, int width) {
  writer.bytes({0xff, 0xd8});            // start of image
  writer.bytes({0xff, 0xdb, 0, 67, 0});  // quantisation table 0
  for (int i = 0; i < 64; ++i) writer.bytes({8});
  writer.bytes({0xff, 0xc0, 0, 11, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 1, 0x11, 0});  // baseline frame
  writer.bytes({0xff, 0xc4, 0, 31, 0x00, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});  // DC table: twelve codes of 4 bits
  for (int category = 0; category < 12; ++category) writer.bytes({category});
  writer.bytes({0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});  // AC table: "0" ends a block
  writer.bytes({0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0});                                         // start of scan
}

// A difference of DC coefficients: its number of bits, then the bits; negative ones as value - 1.
void write_difference(Writer& writer, int difference) {
  const auto category = std::bit_width(static_cast<unsigned>(std::abs(difference)));
  writer.bits(static_cast<unsigned>(category), 4);
  writer.bits(static_cast<unsigned>(difference > 0 ? difference : difference - 1), static_cast<int>(category));
  writer.bits(0, 1);
}

}  // namespace

std::vector<std::uint8_t> grey_jpeg(int height, int width, std::uint8_t level, int step) {
  Writer writer;
  write_header(writer, height, width);
  const int blocks = ((height + 7) / 8) * ((width + 7) / 8);
  for (int block = 0; block < blocks; ++block) write_difference(writer, block == 0 ? level - 128 : step);
  writer.pad();
  writer.bytes({0xff, 0xd9});  // end of image
  return writer.take();
}

}  // namespace millrace::conformance
