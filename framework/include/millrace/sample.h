// Samples: images with labels, numbers or targets, between the source and the network. A sample's memory belongs to its slot in a
// circulating Batch (batch.h) and is reused: in steady state nothing is allocated and no lock is taken.
//
//   void process(millrace::Sample& sample, millrace::Draw& draw) override {  // in a SampleTransform that is_random() (stage.h)
//     if (!draw.chance(0.5)) return;
//     const millrace::Image& image = sample.change_colours();
//     for (std::size_t i = 0; i < image.shape.bytes(); ++i) image.data[i] = static_cast<std::uint8_t>(255 - image.data[i]);
//   }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/detail/affine_map.h"
#include "millrace/detail/augmentation_record.h"
#include "millrace/detail/byte_buffer.h"
#include "millrace/detail/random.h"
#include "millrace/detail/sample_state.h"
#include "millrace/detail/target_spec.h"
#include "millrace/detail/tensor.h"

namespace millrace {

// Pixels owned by the caller: (H, W, C) uint8, contiguous rows, channels in the order R, G, B. Where `shape` is not is_plain(),
// `data` points to elements of shape.type, (frames, H, W, C); all functions here that read pixels REQUIRE plain images.
struct Image {
  std::uint8_t* data = nullptr;
  ImageShape shape;
};

// The read-only version. Code that reads an image takes a view; every Image converts to one.
struct ImageView {
  const std::uint8_t* data = nullptr;
  ImageShape shape;

  ImageView() = default;
  ImageView(const std::uint8_t* data_, const ImageShape& shape_) : data(data_), shape(shape_) {}
  ImageView(const Image& image) : data(image.data), shape(image.shape) {}  // NOLINT(google-explicit-constructor): see above
};

// Where a sample was read from.
struct SampleOrigin {
  std::string url;           // the file, or the archive that contains it
  std::string member;        // name within an archive; empty for a file
  std::uint64_t offset = 0;  // where its bytes begin in an archive
  std::string target_url;    // set if the target is a file of its own; for messages

  std::string place() const;  // for messages: "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
};

// One slot of a batch between the source and the network. SampleState holds the framework's part.
class Sample : public SampleOrigin, public SampleState {
 public:
  SampleKey key;
  ByteBuffer encoded;          // the file's bytes, or pixels if `decoded` is set
  ByteBuffer encoded_target;   // likewise for its target
  ImageShape decoded;          // if not empty, `encoded` already holds pixels of this shape and must not be decoded
  std::int32_t label = -1;     // class index
  std::vector<float> numbers;  // to be predicted: Source::numbers() values, or consecutive rows of that many
                               // (Source::has_rows()). Coordinates (boxes) refer to the source image: seen_source()
  AugmentationRecord record;   // pending; executed at ingest or by execute_pending()

  ImageView image() const { return pixels_.image; }  // read-only
  // Mutable access to the pixels, for any change; clears resident() and source_map().
  const Image& change_pixels() {
    source_map_ = {};
    return change_colours();
  }
  // For changes that keep every pixel in its place (colours, noise, blur): source_map() stays.
  const Image& change_colours() {
    resident_ = false;
    return pixels_.image;
  }
  const Image& target() const { return target_.image; }
  const TargetSpec& target_spec() const { return *target_spec_; }
  const SourceMap& source_map() const { return source_map_; }  // of image(), before the record; exact or unknown

  // Returns a buffer for an image of this shape, distinct from that of image(); the batch's own slot if the shape is the batch's.
  Image new_image(ImageShape shape);
  // Makes a buffer from new_image() the sample's image. Drops a pending record; clears resident(). Decoders pass `source`.
  void set_image(const Image& image, const SourceMap& source = {});
  // For an image made from the previous one: its pixel p shows what the previous image showed at to_before(p), except at borders.
  // Updates source_map().
  void set_image(const Image& image, const AffineMap& to_before);
  // Likewise for the target. REQUIRES: when the stage returns, its shape is target_spec().shape(image().shape).
  Image new_target(ImageShape shape);
  void set_target(const Image& target);

  // True if this index always has the same pixels, so that a device may keep them (SampleCache). Records may differ.
  bool resident() const { return resident_; }
  void set_resident() { resident_ = true; }

  // The graph calls this before it fills the slot again. `target` lives as long as the sample.
  void reset(const SampleKey& new_key, Image slot, const TargetSpec& target = kNoTarget, Image target_slot = {});

 private:
  static const TargetSpec kNoTarget;

  struct Plane {
    Image image, slot;      // the batch's slot for the image
    ByteBuffer scratch[2];  // two buffers, used in turn for changes
    Image next(ImageShape shape);
    void reset(Image new_slot);
  };

  Plane pixels_, target_;
  SourceMap source_map_;
  const TargetSpec* target_spec_ = &kNoTarget;
  bool resident_ = false;
};

// Centres the window in the image (centre.h) through the record, once after set_image(). Stages that edit the record call it
// first.
void place_window(Sample& sample, ImageShape window);
// Executes a pending record on the host, for image and target. Stages that crop or resample pixels, or change them by position,
// call this; stages that recolour each pixel independently need not, and areas uncovered by a shift keep their fill. The image
// keeps its size and is mirrored about its own centre. The central window then shows the record's result, shifted by a pixel
// where it cannot be centred. A `window` that is not static stands for the whole image.
void execute_pending(Sample& sample, ImageShape window);
// Executes the record for the window alone: the image becomes the record's result.
void apply_pending(Sample& sample, ImageShape window);

// Maps pixels of the window to pixels of the source image, through the record; unknown where source_map() is. For masks and boxes
// at the size of the source image.
SourceMap seen_source(const Sample& sample, ImageShape window);  // a window that is not static: the whole image

}  // namespace millrace
