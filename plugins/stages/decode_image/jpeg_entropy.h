#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
// jpeglib.h needs FILE and size_t before it
#include <jpeglib.h>

#include "millrace/sample.h"

namespace millrace {

// Huffman decoding of baseline JPEG instead of libjpeg's, which takes more than half of its time for high-quality photos. One
// table lookup yields up to two coefficients, and byte stuffing is removed beforehand.
//
//   jpeg_start_decompress(&info);
//   if (entropy.prepare(info)) JpegEntropy::take_over(info, &decode_mcu);  // which calls decode()
//
// Only for sound data of the plain kind: one scan of 8 bits, no restart markers, no arithmetic coding. It rejects all other data,
// and libjpeg can then decode the image from its beginning: results, errors and tolerance are always libjpeg's. One exception:
// bytes after the scan, for which libjpeg warns, are accepted if they cannot be codes of the scan. Threading: one thread. Memory:
// a copy of the compressed bytes, and 16 kB for each of up to eight tables. Without libjpeg-turbo's jpegint.h, prepare() always
// returns false.
class JpegEntropy {
 public:
  using DecodeMcu = boolean (*)(j_decompress_ptr, JBLOCKROW*);

  // REQUIRES: between jpeg_start_decompress() and the first row; all bytes of the file are in the source's buffer.
  bool prepare(jpeg_decompress_struct& info);
  static void take_over(jpeg_decompress_struct& info, DecodeMcu decode_mcu);

  // Decodes one MCU; `blocks` are zeroed by the caller, or null if not needed. Returns false for invalid data; nothing more may
  // be decoded then. After the last MCU the source stands at the marker after the scan.
  bool decode(jpeg_decompress_struct& info, JBLOCKROW* blocks);

 private:
  static constexpr int kLookBits = 11;
  static constexpr std::size_t kEntries = std::size_t{1} << kLookBits;

  // Meaning of the next bits: one or two coefficients with the zeros before them, and perhaps the block's end; or one symbol
  // whose number does not fit; or the beginning of a long code.
  struct Entry {
    std::uint8_t length = 0;               // in bits; 0 if not coefficients
    std::array<std::uint8_t, 2> places{};  // coefficients: offsets from the next one; symbol: its length, 0 for a long code
    std::uint8_t advance = 0;              // to the next coefficient; kEnd more if the block ends
    std::array<std::int16_t, 2> values{};  // a single coefficient is stored twice
  };
  static constexpr int kEnd = 128;

  // The same in one word: loaded once, so that shifting by the length waits for nothing else.
  class Packed {
   public:
    Packed() = default;
    explicit Packed(const Entry& entry);
    int length() const { return static_cast<int>(word_ & 0xff); }
    int place(int i) const { return static_cast<int>(word_ >> (8 + 8 * i) & 0xff); }
    int advance() const { return static_cast<int>(word_ >> 24 & 0xff); }
    std::int16_t value(int i) const { return static_cast<std::int16_t>(word_ >> (32 + 16 * i)); }

   private:
    std::uint64_t word_ = 0;
  };

  struct Table {
    JHUFF_TBL source{};  // the source table
    bool is_sound = false;
    std::array<Packed, kEntries> entries{};
    std::array<std::uint32_t, 17> end{};  // by code length: upper bound of 16-bit prefixes with codes of this length or shorter
    std::array<int, 17> offset{};         // by length: from a code to the index of its symbol

    bool is_made_of(const JHUFF_TBL& other) const;
    bool make(const JHUFF_TBL& from, bool is_dc);
    static void enter(std::uint32_t code, int length, int symbol, bool is_dc, Entry* entries);
    void pack(const Entry* single, bool joins_pairs);
  };

  // The next bits, from the top.
  struct Reader {
    const std::uint8_t* next = nullptr;
    std::uint64_t bits = 0;
    int count = 0;  // valid bits; those after are right or zero

    void refill();  // to at least 56 bits
    void drop(int n);
    int number(int size);                          // REQUIRES: size > 0
    int symbol(const Table& table, int shortest);  // -1 if there is none
  };

  const Table* table(const JHUFF_TBL* source, int place, bool is_dc);
  bool remove_stuffing(const jpeg_source_mgr& source);
  bool is_end(jpeg_decompress_struct& info);
  std::size_t used(Reader reader) const;  // in bits
  static bool decode_block(Reader& reader, const Table& dc, const Table& ac, std::int32_t& last_dc, JCOEF* block);

  struct Block {
    const Table* dc = nullptr;
    const Table* ac = nullptr;
    int component = 0;
  };

  std::array<std::unique_ptr<Table>, 2 * NUM_HUFF_TBLS> tables_;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
  std::array<std::int32_t, MAX_COMPS_IN_SCAN> last_dc_{};
  ByteBuffer bytes_;             // without stuffing, then zeros
  std::size_t size_ = 0;         // without the trailing zeros
  std::size_t stored_size_ = 0;  // in the file
  Reader reader_;
  std::uint64_t mcus_ = 0;  // remaining
};

}  // namespace millrace
