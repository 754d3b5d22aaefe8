#include "jpeg_decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <vector>
// jpeglib.h needs FILE and size_t before it
#include <jerror.h>
#include <jpeglib.h>

#include <new>

#include "jpeg_entropy.h"
#include "millrace/error.h"

namespace millrace {

constexpr JDIMENSION kColumnsBeside = 3;  // extra columns decoded on either side of a part

// Functions that call setjmp have no objects with destructors, nor do libjpeg's frames above them.
struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  int failure = 0;       // libjpeg's code for `message`; 0 if it is not from libjpeg
  bool saw_end = false;  // end of file where a marker or data were expected
  bool may_lack_scans = false;
  bool created = false;
  DecodeLimits limits;
  int channels = 3;
  JDIMENSION first_column = 0;     // first column of the rows that part() returns
  std::vector<std::uint8_t> inks;  // one row of C, M, Y, K
  std::span<const std::uint8_t> bytes;
  JpegEntropy entropy;
  bool tries_own_entropy = false;  // else libjpeg's

  void install();
  void create();
  bool header();
  void read_header();
  void mark_tables();
  bool may_use_marked_tables();
  void start();
  template <typename Decode>
  void decode(const Decode& decode);
  bool pixels(std::uint8_t* out, std::size_t stride);
  bool part(const Region& region, int reduction, std::uint8_t* out, std::size_t stride);
  void read_rows(std::uint8_t* out, std::size_t stride, JDIMENSION end);
  void convert_inks(std::uint8_t* out) const;
  bool has_inks() const { return info.out_color_space == JCS_CMYK; }
  bool is_too_short() const;
  bool can_skip() const;  // rows
  bool can_crop() const;  // columns
  bool is_damage();
  bool is_padding(std::size_t count) const;
  void require_all_scans();
  [[noreturn]] void give_up();

  static State& of(j_common_ptr common) { return *static_cast<State*>(common->client_data); }
  [[noreturn]] static void on_error(j_common_ptr common);
  static void on_message(j_common_ptr common, int level);
  static void on_progress(j_common_ptr common);
  static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW* blocks);
};

void JpegDecoder::State::on_error(j_common_ptr common) {
  State& state = of(common);
  common->err->format_message(common, state.message);
  state.failure = common->err->msg_code;
  std::longjmp(state.escape, 1);
}

// Level -1 is a warning; higher levels are chatter.
void JpegDecoder::State::on_message(j_common_ptr common, int level) {
  if (level < 0 && of(common).is_damage() && !of(common).limits.allow_warnings) on_error(common);
}

// True if libjpeg's warning means that pixels are missing or wrong. Many files have other defects: some phones write a scan's
// range of coefficients as 0 ... 0, which means nothing in a sequential image.
bool JpegDecoder::State::is_damage() {
  switch (errors.msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL: return false;
    case JWRN_BOGUS_PROGRESSION: {
      const bool has_details_first = info.Ss > 0 && errors.msg_parm.i[1] == 0;  // before the blocks' means
      may_lack_scans |= has_details_first;
      return !has_details_first;
    }
    case JWRN_JPEG_EOF:
      saw_end = may_lack_scans = true;
      return info.arith_code != FALSE;  // Huffman data have a separate warning for missing data
    case JWRN_EXTRANEOUS_DATA: {
      const bool is_in_header = info.input_scan_number == 0;
      return saw_end || (!is_in_header && !is_padding(static_cast<std::size_t>(errors.msg_parm.i[0])));
    }
    default: return true;
  }
}

// Bytes after a scan may be its remainder if a flipped bit made its codes shorter. See also JpegEntropy.
bool JpegDecoder::State::is_padding(std::size_t count) const {
  constexpr std::size_t kMax = 16;
  const JOCTET* const end = info.src->next_input_byte;
  return count <= kMax && std::all_of(end - count, end, [](JOCTET byte) { return byte == 0; });
}

// A file without an end marker may have lost its last scans too, for which libjpeg has no warning. All scans of a multi-scan
// image have been read by now.
void JpegDecoder::State::require_all_scans() {
  if (!may_lack_scans || limits.allow_warnings) return;
  bool has_all = true;
  for (int c = 0; c < info.num_components; ++c) {
    has_all = has_all && info.comp_info[c].quant_table != nullptr;  // null before the first scan of a component
    for (int k = 0; has_all && info.coef_bits != nullptr && k < DCTSIZE2; ++k) has_all = info.coef_bits[c][k] == 0;
  }
  if (!has_all) ERREXIT(&info, JWRN_JPEG_EOF);
}

void JpegDecoder::State::on_progress(j_common_ptr common) {
  State& state = of(common);
  if (state.info.input_scan_number <= state.limits.max_scans) return;
  std::snprintf(state.message, sizeof state.message, "more than %d scans (max_scans): made to keep decoders busy?",
                state.limits.max_scans);
  std::longjmp(state.escape, 1);
}

boolean JpegDecoder::State::decode_mcu(j_decompress_ptr info, JBLOCKROW* blocks) {
  State& state = *static_cast<State*>(info->client_data);
  if (state.entropy.decode(*info, blocks)) return TRUE;
  std::longjmp(state.escape, 1);
}

void JpegDecoder::State::install() {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = &on_error;
  errors.emit_message = &on_message;
  errors.output_message = [](j_common_ptr) {};
  info.client_data = this;
  progress.progress_monitor = &on_progress;
}

// May fail half way for lack of memory; the state can then only be destroyed.
void JpegDecoder::State::create() {
  jpeg_destroy_decompress(&info);
  created = false;
  jpeg_create_decompress(&info);
  info.progress = &progress;
  created = true;
}

bool JpegDecoder::State::header() {
  if (setjmp(escape) != 0) return false;
  failure = 0;
  saw_end = may_lack_scans = false;
  if (created) {
    jpeg_abort_decompress(&info);  // the last image may have been abandoned after its header
  } else {
    create();
  }
  mark_tables();
  read_header();
  if (may_use_marked_tables()) {
    create();
    read_header();
  }
  const bool four_inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = four_inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

void JpegDecoder::State::read_header() {
  jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
}

// libjpeg reuses tables for files that define none, so such a file would decode differently after each other file. To detect
// this, the last file's tables are overwritten with values that a file cannot, or hardly, define.
constexpr UINT16 kMarkedStep = 0xffff;
constexpr UINT8 kMarkedCount = 0xff;  // number of codes of zero bits

void JpegDecoder::State::mark_tables() {
  for (JQUANT_TBL* table : info.quant_tbl_ptrs) {
    if (table != nullptr) table->quantval[0] = kMarkedStep;
  }
  for (auto& tables : {info.dc_huff_tbl_ptrs, info.ac_huff_tbl_ptrs}) {
    for (int i = 0; i < NUM_HUFF_TBLS; ++i) {
      if (tables[i] != nullptr) tables[i]->bits[0] = kMarkedCount;
    }
  }
}

// Checks the scan just announced; later scans are not known yet.
bool JpegDecoder::State::may_use_marked_tables() {
  if (jpeg_has_multiple_scans(&info) != FALSE) return true;
  const auto quantisation = [&](int number) {
    return number < NUM_QUANT_TBLS && info.quant_tbl_ptrs[number] != nullptr &&
           info.quant_tbl_ptrs[number]->quantval[0] == kMarkedStep;
  };
  const auto huffman = [](JHUFF_TBL* const* tables, int number) {
    return number < NUM_HUFF_TBLS && tables[number] != nullptr && tables[number]->bits[0] == kMarkedCount;
  };
  for (int i = 0; i < info.comps_in_scan; ++i) {
    const jpeg_component_info& component = *info.cur_comp_info[i];
    if (quantisation(component.quant_tbl_no) || huffman(info.dc_huff_tbl_ptrs, component.dc_tbl_no) ||
        huffman(info.ac_huff_tbl_ptrs, component.ac_tbl_no)) {
      return true;
    }
  }
  return false;
}

void JpegDecoder::State::start() {
  jpeg_start_decompress(&info);
  require_all_scans();
  tries_own_entropy = tries_own_entropy && entropy.prepare(info);
  if (tries_own_entropy) JpegEntropy::take_over(info, &decode_mcu);
}

// Reads the rows up to `end` into `out`.
void JpegDecoder::State::read_rows(std::uint8_t* out, std::size_t stride, JDIMENSION end) {
  constexpr JDIMENSION kRows = 16;  // requested at once; libjpeg may return fewer
  JSAMPROW rows[kRows];
  const JDIMENSION first = info.output_scanline;
  while (info.output_scanline < end) {
    std::uint8_t* next = out + (info.output_scanline - first) * stride;
    if (has_inks()) {
      rows[0] = inks.data();
      if (jpeg_read_scanlines(&info, rows, 1) == 1) convert_inks(next);
      continue;
    }
    const JDIMENSION count = std::min(kRows, end - info.output_scanline);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = next + i * stride;
    jpeg_read_scanlines(&info, rows, count);
  }
}

bool JpegDecoder::State::pixels(std::uint8_t* out, std::size_t stride) {
  if (setjmp(escape) != 0) return false;
  info.scale_num = info.scale_denom = 1;
  start();
  read_rows(out, stride, info.output_height);
  jpeg_finish_decompress(&info);
  return true;
}

// Smooth chroma upsampling reads one pixel to the left and right, and libjpeg-turbo disables it for fewer than three columns: so
// a few more are decoded. libjpeg handles the rows above and below itself.
bool JpegDecoder::State::part(const Region& region, int reduction, std::uint8_t* out, std::size_t stride) {
  if (setjmp(escape) != 0) return false;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduction);
  start();
  const auto left = static_cast<JDIMENSION>(region.left), right = left + static_cast<JDIMENSION>(region.width);
  const bool skips = can_skip();
  first_column = 0;
  if (can_crop() && (left > kColumnsBeside || right + kColumnsBeside < info.output_width)) {
    first_column = left - std::min(left, kColumnsBeside);
    JDIMENSION width = std::min(right + kColumnsBeside, info.output_width) - first_column;
    jpeg_crop_scanline(&info, &first_column, &width);
  }
  const auto top = static_cast<JDIMENSION>(region.top);
  if (skips && top > 0) jpeg_skip_scanlines(&info, top);
  while (info.output_scanline < top) read_rows(out, stride, info.output_scanline + 1);
  read_rows(out, stride, top + static_cast<JDIMENSION>(region.height));
  if (info.output_scanline == info.output_height) {
    jpeg_finish_decompress(&info);
  } else {
    jpeg_abort_decompress(&info);
  }
  return true;
}

// If chroma has a higher resolution than luma, libjpeg-turbo 2.1 reads uninitialised memory when rows are skipped (found by
// fuzzing). Such images are decoded from their first row, in whole rows.
bool JpegDecoder::State::can_skip() const {
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    if (component.h_samp_factor > info.comp_info[0].h_samp_factor) return false;
    if (component.v_samp_factor > std::min(2, info.comp_info[0].v_samp_factor)) return false;
  }
  return true;
}

// If three or four columns share a chroma sample, as in 4:1:0, libjpeg-turbo reads uninitialised memory when a reduced image is
// cropped, or upsamples differently from the whole image. All other samplings were compared with whole decodes.
bool JpegDecoder::State::can_crop() const {
  if (!can_skip()) return false;
  const int most = info.comp_info[0].h_samp_factor;
  return std::all_of(info.comp_info, info.comp_info + info.num_components,
                     [&](const jpeg_component_info& component) { return most <= 2 * component.h_samp_factor; });
}

// A block of 64 samples takes at least one bit (except with arithmetic coding), so a few bytes cannot claim a huge image.
bool JpegDecoder::State::is_too_short() const {
  if (info.arith_code || limits.allow_warnings) return false;
  std::uint64_t blocks = 0;
  for (int c = 0; c < info.num_components; ++c)
    blocks += std::uint64_t{info.comp_info[c].width_in_blocks} * info.comp_info[c].height_in_blocks;
  return blocks > 8 * std::uint64_t{bytes.size()};
}

// Light that passes the coloured and the black ink. Files store the light, as Photoshop does, even those that lost Adobe's
// marker. Pillow, OpenCV and browsers all read them so.
void JpegDecoder::State::convert_inks(std::uint8_t* out) const {
  for (JDIMENSION column = 0; column < info.output_width; ++column) {
    const std::uint8_t* ink = inks.data() + std::size_t{4} * column;
    const unsigned black = ink[3];
    unsigned rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = (ink[c] * black + 127) / 255;
    if (channels == 3) {
      for (const unsigned value : rgb) *out++ = static_cast<std::uint8_t>(value);
    } else {  // luminance of ITU-R BT.601, as in libjpeg
      *out++ = static_cast<std::uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
    }
  }
}

void JpegDecoder::State::give_up() {
  const int precision = info.data_precision;
  if (created) jpeg_abort_decompress(&info);
  switch (failure) {
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE: throw std::bad_alloc();  // the second if JPEGMEM in the environment sets a limit
    case JERR_BAD_PRECISION: fail(ErrorKind::content, "a JPEG of {} bits: 8 are supported", precision);
    default: break;
  }
  if (saw_end) fail(ErrorKind::content, "the JPEG is truncated ({})", message);
  fail(ErrorKind::content, "the JPEG is damaged or of an unsupported kind: {}", message);
}

// `decode` returns false on failure. libjpeg judges errors of our entropy decoder; but bytes after the scan are left to ours,
// which knows where the last code ends.
template <typename Decode>
void JpegDecoder::State::decode(const Decode& decode) {
  constexpr std::size_t kWorthTables = 16'000;  // bytes; smaller files decode no slower without our tables
  tries_own_entropy = bytes.size() >= kWorthTables && !limits.allow_warnings;
  const bool tried_own_first = tries_own_entropy;
  if (decode()) return;
  tries_own_entropy = !tried_own_first && failure == JWRN_EXTRANEOUS_DATA;
  if (!tried_own_first && !tries_own_entropy) give_up();
  if (!header() || !decode()) give_up();
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) { state_->install(); }

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

int JpegDecoder::stored_channels() const { return state_->info.num_components; }

ImageShape JpegDecoder::read_header(std::span<const std::uint8_t> bytes, int channels, const DecodeLimits& limits) {
  State& state = *state_;
  const jpeg_decompress_struct& info = state.info;
  state.channels = channels;
  state.limits = limits;
  state.bytes = bytes;
  if (!state.header()) state.give_up();
  check_pixels(info.image_height, info.image_width, limits);
  if (state.is_too_short())
    fail(ErrorKind::content, "the JPEG is truncated: {} bytes cannot hold {} x {} pixels", bytes.size(), info.image_height,
         info.image_width);
  return {static_cast<std::int32_t>(info.image_height), static_cast<std::int32_t>(info.image_width), channels};
}

void JpegDecoder::decode(std::uint8_t* out) {
  State& state = *state_;
  if (state.has_inks()) state.inks.resize(std::size_t{4} * state.info.image_width);
  const std::size_t stride = static_cast<std::size_t>(state.info.image_width) * static_cast<std::size_t>(state.channels);
  state.decode([&] { return state.pixels(out, stride); });
}

PixelRows JpegDecoder::decode_part(const Region& region, int reduction, ByteBuffer& buffer) {
  State& state = *state_;
  constexpr std::size_t kMaxAlignment = 4 * 8;  // alignment of the first column: four blocks
  constexpr std::size_t kMaxBeside = kMaxAlignment + 2 * kColumnsBeside;
  const auto channels = static_cast<std::size_t>(state.channels);
  const int width = reduced(static_cast<int>(state.info.image_width), reduction);
  const std::size_t columns =
      state.can_crop() ? static_cast<std::size_t>(region.width) + kMaxBeside : static_cast<std::size_t>(width);
  const std::size_t stride = columns * channels;
  if (state.has_inks()) state.inks.resize(4 * columns);
  std::uint8_t* pixels = buffer.resize(static_cast<std::size_t>(region.height) * stride);
  state.decode([&] { return state.part(region, reduction, pixels, stride); });
  const std::size_t before = static_cast<std::size_t>(region.left) - state.first_column;
  return {pixels + before * channels, {region.height, region.width, state.channels}, stride};
}

}  // namespace millrace
