// The images of a pass whose pixels a network was most wrong about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/class_colours.h"
#include "millrace/util/picture.h"
#include "pixel_verdict.h"

namespace millrace {

// Keeps the images of the highest mean loss over their pixels, each beside its label image and the predicted classes, in colours,
// at the size at which they are drawn. Among equal losses those that came first stay and stand first. An image without a pixel
// that counts is left out. The same predictions in the same order give the same sheet.
class WorstImages {
 public:
  WorstImages(std::size_t most, const ClassColours& colours) : most_(most), colours_(colours) {}

  struct Maps {
    ImageShape shape;  // of both, one channel
    std::span<const std::uint8_t> labels, predicted;
  };
  // REQUIRES: share.batch, unless `most` is 0.
  void add(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample);
  std::size_t count() const { return count_; }  // that were added
  void clear();

  std::string csv() const;                            // a row for each that was kept, the highest loss first
  Picture sheet() const;                              // the same, row after row
  static std::size_t memory_bound(std::size_t most);  // bytes, the sheet and its file included

 private:
  static constexpr std::size_t kPanels = 3;  // image, label, prediction
  struct Panel {
    ImageShape shape;
    std::vector<std::uint8_t> pixels;
  };
  struct Entry {
    PixelVerdict verdict;
    std::uint64_t index = 0;  // of the sample, in its source
    std::string place, file;  // "shards/3.tar: a/00042.png", "00042.png"
    std::vector<Panel> panels;
  };
  struct Grid {
    int columns = 1, panel_height = 0, panel_width = 0, cell_height = 0, cell_width = 0;
  };

  Entry made(const PixelVerdict& verdict, const Maps& maps, const Predictions& share, std::size_t sample) const;
  Panel coloured(std::span<const std::uint8_t> classes, ImageShape shape) const;
  Grid grid() const;
  static void draw(Picture& picture, int top, int left, const Grid& grid, const Entry& entry);

  std::size_t most_, count_ = 0;
  ClassColours colours_;
  std::vector<Entry> worst_;
};

}  // namespace millrace
