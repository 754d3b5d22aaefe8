// Mixes pixels of a batch, slot by slot.
#pragma once

#include <algorithm>
#include <cstdint>

#include "millrace/batch.h"
#include "millrace/sample.h"

namespace millrace {

// Executes each slot's record, so that all slots have the same window, in the middle; sizes stay.
void execute_records(Batch& batch);

struct Box {
  int top = 0, left = 0, height = 0, width = 0;
};

// image = (own * image + (256 - own) * other) / 256, rounded.
void blend(std::uint8_t* image, const std::uint8_t* other, std::size_t bytes, int own);
// Copies the box's pixels from the other image. Both images have this shape.
void paste(std::uint8_t* image, const std::uint8_t* other, ImageShape shape, const Box& box);

// Calls mix(slot, partner's original pixels) for every slot with weight whose partner, `shift` further around the batch, has
// weight too. REQUIRES: 0 < shift < batch.count.
template <class MixSlot>
void for_each_pair(Batch& batch, std::uint32_t shift, std::uint8_t* first, MixSlot mix) {
  const std::size_t bytes = batch.image.bytes();
  std::uint32_t left = batch.count;
  // Steps of `shift` form one or several rings; in each, only the slot changed first is needed again, at the end.
  for (std::uint32_t start = 0; left > 0; ++start) {
    std::copy_n(batch.pixels + start * bytes, bytes, first);
    for (std::uint32_t slot = start;; --left) {
      const std::uint32_t partner = (slot + shift) % batch.count;
      const bool whole = batch.weights[slot] > 0 && batch.weights[partner] > 0;
      if (whole) mix(slot, partner, partner == start ? first : batch.pixels + partner * bytes);
      if (partner == start) {
        --left;
        break;
      }
      slot = partner;
    }
  }
}

}  // namespace millrace
