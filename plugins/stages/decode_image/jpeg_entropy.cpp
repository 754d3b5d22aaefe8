// then jpeglib.h includes it, as in libjpeg's own files
#if __has_include(<jpegint.h>)
#define JPEG_INTERNALS
#endif

#include "jpeg_entropy.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace millrace {

namespace {

constexpr int kSixteenZeros = 0xf0;  // a symbol
constexpr int kLargestDc = 1 << 20;  // far above any valid image

// Zigzag positions of a block's coefficients; two runs may lead 31 places too far.
constexpr std::array<std::uint8_t, DCTSIZE2 + 32> kOrder = [] {
  std::array<std::uint8_t, DCTSIZE2 + 32> order{};
  int row = 0, column = 0;
  for (std::size_t i = 0; i < DCTSIZE2; ++i) {
    order[i] = static_cast<std::uint8_t>(row * DCTSIZE + column);
    const bool up = (row + column) % 2 == 0;
    int& ahead = up ? column : row;
    int& back = up ? row : column;
    if (ahead == DCTSIZE - 1) {
      ++back;
    } else {
      ++ahead;
      if (back > 0) --back;
    }
  }
  for (std::size_t i = DCTSIZE2; i < order.size(); ++i) order[i] = DCTSIZE2 - 1;
  return order;
}();

// A number of `size` bits; its first bit is the sign.
int extend(int bits, int size) { return bits >> (size - 1) != 0 ? bits : bits - (1 << size) + 1; }

}  // namespace

JpegEntropy::Packed::Packed(const Entry& entry) {
  const auto value = [&](std::size_t i) { return std::uint64_t{static_cast<std::uint16_t>(entry.values[i])}; };
  word_ = entry.length | std::uint64_t{entry.places[0]} << 8 | std::uint64_t{entry.places[1]} << 16 |
          std::uint64_t{entry.advance} << 24 | value(0) << 32 | value(1) << 48;
}

bool JpegEntropy::Table::is_made_of(const JHUFF_TBL& other) const {
  return std::memcmp(source.bits, other.bits, sizeof other.bits) == 0 &&
         std::memcmp(source.huffval, other.huffval, sizeof other.huffval) == 0;
}

bool JpegEntropy::Table::make(const JHUFF_TBL& from, bool is_dc) {
  source = from;
  std::array<Entry, kEntries> single{};
  std::uint32_t code = 0;
  std::size_t place = 0;
  for (int length = 1; length <= 16; ++length) {
    const auto l = static_cast<std::size_t>(length);
    offset[l] = static_cast<int>(place) - static_cast<int>(code);
    if (place + from.bits[l] > std::size(from.huffval) || code + from.bits[l] > 1U << length) return false;
    for (int i = 0; i < from.bits[l]; ++i) {
      const int symbol = from.huffval[place++];
      if (is_dc && symbol > 15) return false;
      enter(code++, length, symbol, is_dc, single.data());
    }
    end[l] = code << (16 - length);
    code <<= 1;
  }
  pack(single.data(), !is_dc);
  return true;
}

void JpegEntropy::Table::enter(std::uint32_t code, int length, int symbol, bool is_dc, Entry* entries) {
  const int left = kLookBits - length, size = symbol & 15;
  if (left < 0) return;
  Entry* first = entries + (std::size_t{code} << left);
  if (size > left) {
    const Entry entry{.places = {static_cast<std::uint8_t>(length)}};
    std::fill_n(first, std::size_t{1} << left, entry);
    return;
  }
  const auto run = static_cast<std::uint8_t>(is_dc ? 0 : symbol >> 4);
  const bool is_end = !is_dc && size == 0 && symbol != kSixteenZeros;
  for (int bits = 0; bits < 1 << left; ++bits, ++first) {
    first->length = static_cast<std::uint8_t>(length + size);
    first->advance = static_cast<std::uint8_t>(is_end ? kEnd : run + 1);
    if (is_end) continue;
    first->values.fill(static_cast<std::int16_t>(size == 0 ? 0 : extend(bits >> (left - size), size)));
    first->places.fill(run);
  }
}

void JpegEntropy::Table::pack(const Entry* single, bool joins_pairs) {
  for (std::size_t i = 0; i < kEntries; ++i) {
    Entry entry = single[i];
    const Entry& second = single[(i << entry.length) % kEntries];
    const bool has_room = second.length > 0 && entry.length + second.length <= kLookBits;
    if (joins_pairs && entry.length > 0 && entry.advance < kEnd && has_room) {
      if (second.advance < kEnd) {
        entry.values[1] = second.values[0];
        entry.places[1] = static_cast<std::uint8_t>(entry.advance + second.places[0]);
      }
      entry.length = static_cast<std::uint8_t>(entry.length + second.length);
      entry.advance = static_cast<std::uint8_t>(entry.advance + second.advance);
    }
    entries[i] = Packed(entry);
  }
}

inline void JpegEntropy::Reader::refill() {
  std::uint64_t word;
  std::memcpy(&word, next, sizeof word);
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  bits |= word >> count;
  next += (63 - count) >> 3;
  count |= 56;
}

inline void JpegEntropy::Reader::drop(int n) {
  bits <<= n;
  count -= n;
}

inline int JpegEntropy::Reader::number(int size) {
  // Same as extend(), without a branch that cannot be predicted.
  const int low = static_cast<int>(static_cast<std::int64_t>(~bits) >> 63) & ((1 << size) - 1);
  const int value = static_cast<int>(bits >> (64 - size)) - low;
  drop(size);
  return value;
}

inline int JpegEntropy::Reader::symbol(const Table& table, int shortest) {
  const auto ahead = static_cast<std::uint32_t>(bits >> 48);
  for (int length = shortest; length <= 16; ++length) {
    const auto l = static_cast<std::size_t>(length);
    if (ahead >= table.end[l]) continue;
    drop(length);
    return table.source.huffval[static_cast<int>(ahead >> (16 - length)) + table.offset[l]];
  }
  return -1;
}

// A code and its number have at most 31 bits, or kLookBits if the table holds all of it: three fit after a refill if the first
// two are of the latter kind.
[[gnu::always_inline]] inline bool JpegEntropy::decode_block(Reader& reader, const Table& dc, const Table& ac,
                                                             std::int32_t& last_dc, JCOEF* block) {
  static_assert(2 * kLookBits + 31 <= 56);
  reader.refill();
  const Packed first = dc.entries[reader.bits >> (64 - kLookBits)];
  if (first.length() > 0) {
    last_dc += first.value(0);
    reader.drop(first.length());
  } else {
    const int size = reader.symbol(dc, first.place(0) > 0 ? first.place(0) : kLookBits + 1);
    if (size < 0) return false;
    if (size > 0) last_dc += reader.number(size);
  }
  if (std::abs(last_dc) > kLargestDc) return false;
  block[0] = static_cast<JCOEF>(last_dc);
  const auto set = [block](int place, int value) { block[kOrder[static_cast<std::size_t>(place)]] = static_cast<JCOEF>(value); };
  // Decodes any one symbol; false if there is none. At the end of the block k becomes kEnd.
  const auto decode_one = [&](int& k, int shortest) {
    const int symbol = reader.symbol(ac, shortest);
    if (symbol < 0) return false;
    const int size = symbol & 15;
    if (size == 0 && symbol != kSixteenZeros) {
      k = kEnd;
      return true;
    }
    k += symbol >> 4;
    set(k, size > 0 ? reader.number(size) : 0);
    ++k;
    return true;
  };
  for (int k = 1;;) {
    reader.refill();
    for (int tries = 0; tries < 3; ++tries) {
      const Packed entry = ac.entries[reader.bits >> (64 - kLookBits)];
      if (entry.length() == 0) [[unlikely]] {
        if (!decode_one(k, entry.place(0) > 0 ? entry.place(0) : kLookBits + 1)) return false;
        if (k >= DCTSIZE2) return k == DCTSIZE2 || k == kEnd;
        break;
      }
      const Reader before = reader;
      set(k + entry.place(0), entry.value(0));
      set(k + entry.place(1), entry.value(1));
      reader.drop(entry.length());
      const int from = k;
      k += entry.advance();
      if (k < DCTSIZE2) continue;
      if (k == DCTSIZE2 || (k >= kEnd && k < kEnd + DCTSIZE2)) return true;
      // If the first is this block's last coefficient, the second belongs to the next block.
      reader = before;
      k = from;
      return decode_one(k, 1) && k == DCTSIZE2;
    }
  }
}

const JpegEntropy::Table* JpegEntropy::table(const JHUFF_TBL* source, int place, bool is_dc) {
  if (source == nullptr) return nullptr;
  std::unique_ptr<Table>& slot = tables_[static_cast<std::size_t>(is_dc ? place : NUM_HUFF_TBLS + place)];
  if (!slot || !slot->is_made_of(*source)) {
    if (!slot) slot = std::make_unique<Table>();
    slot->is_sound = slot->make(*source, is_dc);
  }
  return slot->is_sound ? slot.get() : nullptr;
}

// In the data, a byte 255 is followed by a zero; otherwise it begins the next marker.
bool JpegEntropy::remove_stuffing(const jpeg_source_mgr& source) {
  // Exhaustion is checked only after a whole MCU.
  constexpr std::size_t kLargestMcu = std::size_t{D_MAX_BLOCKS_IN_MCU} * DCTSIZE2 * 4 + 16;
  const std::uint8_t* const begin = source.next_input_byte;
  const std::uint8_t* const end = begin + source.bytes_in_buffer;
  std::uint8_t* out = bytes_.resize(source.bytes_in_buffer + kLargestMcu);
  for (const std::uint8_t* from = begin; from < end;) {
    const void* found = std::memchr(from, 0xff, static_cast<std::size_t>(end - from));
    if (found == nullptr) return false;
    const auto* const marker = static_cast<const std::uint8_t*>(found);
    const bool is_data = marker + 1 < end && marker[1] == 0;
    const std::size_t count = static_cast<std::size_t>(marker - from) + (is_data ? 1 : 0);
    std::memcpy(out, from, count);
    out += count;
    if (is_data) {
      from = marker + 2;
      continue;
    }
    std::memset(out, 0, kLargestMcu);
    size_ = static_cast<std::size_t>(out - bytes_.data());
    stored_size_ = static_cast<std::size_t>(marker - begin);
    return true;
  }
  return false;
}

inline std::size_t JpegEntropy::used(Reader reader) const {
  return 8 * static_cast<std::size_t>(reader.next - bytes_.data()) - static_cast<std::size_t>(reader.count);
}

// The last code's byte is padded with ones. If a damaged code made the codes shorter, the remainder is decodable as codes too and
// ends with the data.
bool JpegEntropy::is_end(jpeg_decompress_struct& info) {
  const auto begins_with_ones = [this](std::size_t count) {
    Reader reader = reader_;
    reader.refill();
    return std::countl_one(reader.bits) >= static_cast<int>(count);
  };
  if (!begins_with_ones((8 - used(reader_) % 8) % 8)) return false;
  bool are_codes = false;
  mcus_ = ~std::uint64_t{0};
  while (!are_codes && decode(info, nullptr)) {
    const std::size_t left = 8 * size_ - used(reader_);
    are_codes = left < 8 && begins_with_ones(left);
  }
  mcus_ = 0;
  return !are_codes;
}

bool JpegEntropy::decode(jpeg_decompress_struct& info, JBLOCKROW* blocks) {
  if (mcus_ == 0) return false;
  JBLOCK ignored;
  Reader reader = reader_;
  for (int i = 0; i < info.blocks_in_MCU; ++i) {
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    JCOEF* out = blocks == nullptr ? ignored : blocks[i][0];
    if (!decode_block(reader, *block.dc, *block.ac, last_dc_[static_cast<std::size_t>(block.component)], out)) return false;
  }
  reader_ = reader;
  const std::size_t bits = used(reader);
  if (bits > 8 * size_) return false;
  if (--mcus_ > 0) return true;
  if (bits + 8 <= 8 * size_ && !is_end(info)) return false;
  info.src->next_input_byte += stored_size_;
  info.src->bytes_in_buffer -= stored_size_;
  return true;
}

#if defined(JPEG_INTERNALS) && defined(LIBJPEG_TURBO_VERSION_NUMBER)

bool JpegEntropy::prepare(jpeg_decompress_struct& info) {
  const bool is_plain = !info.progressive_mode && !info.arith_code && info.restart_interval == 0 && info.data_precision == 8 &&
                        info.comps_in_scan == info.num_components && info.unread_marker == 0 && !info.buffered_image;
  if (!is_plain) return false;
  for (int i = 0; i < info.blocks_in_MCU; ++i) {
    const int component = info.MCU_membership[i];
    const jpeg_component_info& of = *info.cur_comp_info[component];
    Block& block = blocks_[static_cast<std::size_t>(i)];
    block.dc = table(info.dc_huff_tbl_ptrs[of.dc_tbl_no], of.dc_tbl_no, true);
    block.ac = table(info.ac_huff_tbl_ptrs[of.ac_tbl_no], of.ac_tbl_no, false);
    block.component = component;
    if (block.dc == nullptr || block.ac == nullptr) return false;
  }
  if (!remove_stuffing(*info.src)) return false;
  reader_ = {bytes_.data()};
  last_dc_.fill(0);
  mcus_ = std::uint64_t{info.MCUs_per_row} * info.MCU_rows_in_scan;
  return true;
}

// decode_mcu is the second member in libjpeg-turbo 2 and 3, so either version may be loaded.
void JpegEntropy::take_over(jpeg_decompress_struct& info, DecodeMcu decode_mcu) { info.entropy->decode_mcu = decode_mcu; }

#else

bool JpegEntropy::prepare(jpeg_decompress_struct&) { return false; }
void JpegEntropy::take_over(jpeg_decompress_struct&, DecodeMcu) {}

#endif

}  // namespace millrace
