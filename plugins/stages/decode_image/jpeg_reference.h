// Plain libjpeg for comparison: alone, or with JpegEntropy instead of its Huffman decoder. For tests.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jpeg_entropy.h"
// jpeglib.h before it
#include <jerror.h>

namespace millrace::testing_jpeg {

struct Outcome {
  bool took_over = false;
  std::vector<std::uint8_t> pixels;
  std::string error;
};

// Warnings of damage are errors; a premature end is not, since missing data have a separate warning. Files that the entropy
// decoder rejects end with "refused".
class Libjpeg {
 public:
  explicit Libjpeg(JpegEntropy* entropy = nullptr) : entropy_(entropy) {}
  Libjpeg(const Libjpeg&) = delete;
  Libjpeg& operator=(const Libjpeg&) = delete;

  // Pixels in the file's own colours, (height, width, components); at most `most` bytes.
  Outcome decode(std::span<const std::uint8_t> bytes, std::size_t most) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = &on_error;
    errors_.emit_message = [](j_common_ptr common, int level) {
      const int code = common->err->msg_code;
      const bool is_harmless =
          code == JWRN_JPEG_EOF || code == JWRN_NOT_SEQUENTIAL || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
      if (level < 0 && !is_harmless) on_error(common);
    };
    info_.client_data = this;
    jpeg_create_decompress(&info_);  // a new one, without tables from other files
    Outcome outcome;
    if (!run(bytes, most, outcome)) {
      outcome.pixels.clear();
      outcome.error = message_;
    }
    jpeg_destroy_decompress(&info_);
    return outcome;
  }

 private:
  bool run(std::span<const std::uint8_t> bytes, std::size_t most, Outcome& outcome) {
    if (setjmp(escape_) != 0) return false;
    jpeg_mem_src(&info_, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info_, TRUE);
    jpeg_calc_output_dimensions(&info_);
    const std::size_t row_bytes = std::size_t{info_.output_width} * static_cast<unsigned>(info_.output_components);
    if (info_.output_height > most / row_bytes) fail("larger than expected");
    outcome.pixels.resize(row_bytes * info_.output_height);
    jpeg_start_decompress(&info_);
    if (entropy_ != nullptr && entropy_->prepare(info_)) {
      outcome.took_over = true;
      JpegEntropy::take_over(info_, [](j_decompress_ptr info, JBLOCKROW* blocks) -> boolean {
        Libjpeg& self = *static_cast<Libjpeg*>(info->client_data);
        if (self.entropy_->decode(*info, blocks)) return TRUE;
        self.fail("refused");
      });
    }
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = outcome.pixels.data() + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  [[noreturn]] void fail(const char* why) {
    std::snprintf(message_, sizeof message_, "%s", why);
    std::longjmp(escape_, 1);
  }
  [[noreturn]] static void on_error(j_common_ptr common) {
    Libjpeg& self = *static_cast<Libjpeg*>(common->client_data);
    common->err->format_message(common, self.message_);
    std::longjmp(self.escape_, 1);
  }

  JpegEntropy* entropy_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf escape_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

}  // namespace millrace::testing_jpeg
