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

// Huffman decoding of baseline JPEG in libjpeg's place, which spends more than half of its time there with photos of high
// quality. One look into a table gives up to two coefficients, and the bytes are freed of their stuffing beforehand.
//
//   jpeg_start_decompress(&info);
//   if (entropy.prepare(info)) JpegEntropy::take_over(info, &decode_mcu);  // which calls decode()
//
// Only for sound data of the plain kind: one scan of 8 bits, no restart markers, no arithmetic coding. Of anything else it says
// so, and the image can be decoded by libjpeg from its beginning: so results, complaints and tolerance are libjpeg's always.
// There is one exception: bytes after the scan, which libjpeg warns of, are sound where they cannot be codes of it. Threading:
// one thread. Memory: a copy of the compressed bytes, and 16 kB for each of up to eight tables. Where libjpeg-turbo's jpegint.h
// is not installed, prepare() always says no.
class JpegEntropy {
 public:
  using DecodeMcu = boolean (*)(j_decompress_ptr, JBLOCKROW*);

  // REQUIRES: between jpeg_start_decompress() and the first row; all bytes of the file are in the source's buffer.
  bool prepare(jpeg_decompress_struct& info);
  static void take_over(jpeg_decompress_struct& info, DecodeMcu decode_mcu);

  // One MCU; `blocks` are zero before, or null where they are not needed. False: the data are not sound, and nothing more may be
  // decoded. After the last one the source stands at the marker after the scan.
  bool decode(jpeg_decompress_struct& info, JBLOCKROW* blocks);

 private:
  static constexpr int kLookBits = 11;
  static constexpr std::size_t kEntries = std::size_t{1} << kLookBits;

  // What the next bits are: one coefficient and the zeros before it or two, and perhaps the block's end; or one symbol, whose
  // number does not fit; or the beginning of a long code.
  struct Entry {
    std::uint8_t length = 0;               // in bits; 0: not coefficients
    std::array<std::uint8_t, 2> places{};  // of the coefficients, from the next one; of a symbol: its length, 0 of a long code
    std::uint8_t advance = 0;              // to the next coefficient; kEnd more: the block ends
    std::array<std::int16_t, 2> values{};  // of one coefficient: it twice
  };
  static constexpr int kEnd = 128;

  // The same in one word, so that it is loaded once and shifting by the length need not wait for anything else.
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
    JHUFF_TBL source{};  // what it was made of
    bool is_sound = false;
    std::array<Packed, kEntries> entries{};
    std::array<std::uint32_t, 17> end{};  // by length of code: 16 bits that begin with such a code, or a shorter one, are less
    std::array<int, 17> offset{};         // by length: from a code to the place of its symbol

    bool is_made_of(const JHUFF_TBL& other) const;
    bool make(const JHUFF_TBL& from, bool is_dc);
    static void enter(std::uint32_t code, int length, int symbol, bool is_dc, Entry* entries);
    void pack(const Entry* single, bool joins_pairs);
  };

  // The next bits, from the top.
  struct Reader {
    const std::uint8_t* next = nullptr;
    std::uint64_t bits = 0;
    int count = 0;  // those after are right or zero

    void refill();  // to 56 bits at least
    void drop(int n);
    int number(int size);                          // REQUIRES: size > 0
    int symbol(const Table& table, int shortest);  // -1: there is none
  };

  const Table* table(const JHUFF_TBL* source, int place, bool is_dc);
  bool remove_stuffing(const jpeg_source_mgr& source);
  bool is_end(jpeg_decompress_struct& info);
  std::size_t used(Reader reader) const;  // bits
  static bool decode_block(Reader& reader, const Table& dc, const Table& ac, std::int32_t& last_dc, JCOEF* block);

  struct Block {
    const Table* dc = nullptr;
    const Table* ac = nullptr;
    int component = 0;
  };

  std::array<std::unique_ptr<Table>, 2 * NUM_HUFF_TBLS> tables_;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
  std::array<std::int32_t, MAX_COMPS_IN_SCAN> last_dc_{};
  ByteBuffer bytes_;             // without stuffing, and zeros
  std::size_t size_ = 0;         // without the zeros
  std::size_t stored_size_ = 0;  // in the file
  Reader reader_;
  std::uint64_t mcus_ = 0;  // left
};

}  // namespace millrace
