// Samples: images with labels, numbers or targets, on their way from the source to the network. All memory of a sample belongs to
// its slot in a circulating Batch (batch.h) and is reused: in steady state nothing is allocated, and no lock is taken.
//
//   void process(millrace::Sample& sample, millrace::Draw& draw) override {  // of a SampleTransform that is_random() (stage.h)
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

// Pixels that the caller owns: (H, W, C) uint8, rows contiguous, channels in the order R, G, B. Where `shape` is not is_plain(),
// `data` is where the elements of shape.type begin, (frames, H, W, C); everything here that reads pixels REQUIRES plain images.
struct Image {
  std::uint8_t* data = nullptr;
  ImageShape shape;
};

// The same to be read only. What reads an image takes a view; every Image is one.
struct ImageView {
  const std::uint8_t* data = nullptr;
  ImageShape shape;

  ImageView() = default;
  ImageView(const std::uint8_t* data_, const ImageShape& shape_) : data(data_), shape(shape_) {}
  ImageView(const Image& image) : data(image.data), shape(image.shape) {}  // NOLINT(google-explicit-constructor): see above
};

// Where a sample comes from.
struct SampleOrigin {
  std::string url;           // a file, or the archive that holds it
  std::string member;        // of an archive: its name there; empty for a file
  std::uint64_t offset = 0;  // of an archive: where its bytes begin
  std::string target_url;    // of the target, where it is a file of its own; for messages

  std::string place() const;  // for messages: "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
};

// One slot of a batch on its way from the source to the network. SampleState holds what the framework keeps of it.
class Sample : public SampleOrigin, public SampleState {
 public:
  SampleKey key;
  ByteBuffer encoded;          // the file's bytes; may be pixels already, see `decoded`
  ByteBuffer encoded_target;   // its target's
  ImageShape decoded;          // not empty: `encoded` holds pixels of this shape, and is not to be decoded
  std::int32_t label = -1;     // class index
  std::vector<float> numbers;  // to be predicted: as many as Source::numbers() says, or rows of as many one after the other
                               // (Source::has_rows()). What is a place (boxes) is meant in the source image: seen_source()
  AugmentationRecord record;   // pending; executed at ingest or by execute_pending()

  ImageView image() const { return pixels_.image; }  // the pixels, to be read
  // Mutable access to the pixels, for any change; clears resident() and source_map().
  const Image& change_pixels() {
    source_map_ = {};
    return change_colours();
  }
  // The same for changes after which every pixel still shows the same place (colours, noise, blur): source_map() stays.
  const Image& change_colours() {
    resident_ = false;
    return pixels_.image;
  }
  const Image& target() const { return target_.image; }
  const TargetSpec& target_spec() const { return *target_spec_; }
  const SourceMap& source_map() const { return source_map_; }  // of image(), before the record; right or unknown

  // A buffer for an image of this shape, other than that of image(); the batch's own slot where the shape is the batch's.
  Image new_image(ImageShape shape);
  // Makes a buffer from new_image() the sample's image. Drops a pending record; clears resident(). A decoder knows the source.
  void set_image(const Image& image, const SourceMap& source = {});
  // An image made of the one before: its pixel p shows what that one showed at to_before(p), borders apart. source_map() follows.
  void set_image(const Image& image, const AffineMap& to_before);
  // The same for the target. REQUIRES: by the time a stage is left, its shape is target_spec().shape(image().shape).
  Image new_target(ImageShape shape);
  void set_target(const Image& target);

  // Whether the pixels are the same whenever this index comes, so that a device may keep them (SampleCache). Records may differ.
  bool resident() const { return resident_; }
  void set_resident() { resident_ = true; }

  // Called by the graph before the slot is filled again. `target` lives as long as the sample.
  void reset(const SampleKey& new_key, Image slot, const TargetSpec& target = kNoTarget, Image target_slot = {});

 private:
  static const TargetSpec kNoTarget;

  struct Plane {
    Image image, slot;      // the batch's slot for the image,
    ByteBuffer scratch[2];  // and two buffers to change it in turns
    Image next(ImageShape shape);
    void reset(Image new_slot);
  };

  Plane pixels_, target_;
  SourceMap source_map_;
  const TargetSpec* target_spec_ = &kNoTarget;
  bool resident_ = false;
};

// Centres the window in the image (centre.h), by the record, once after set_image(). Stages that edit the record call it first.
void place_window(Sample& sample, ImageShape window);
// Executes a pending record on the host, for image and target. Stages call it that cut out or resample pixels, or change them by
// their position; those that recolour each pixel alone need not, and what a shift uncovers keeps its fill. The image keeps its
// size and is mirrored about its own middle. The window in its middle then shows what the record yields, or a pixel beside that
// where it cannot lie in the middle. A `window` that is not static: the whole image.
void execute_pending(Sample& sample, ImageShape window);
// The same where the window alone is wanted: the image becomes what the record yields.
void apply_pending(Sample& sample, ImageShape window);

// From pixels of the window to pixels of the source image, the record included; unknown where source_map() is. For masks and
// boxes at the size of the source image.
SourceMap seen_source(const Sample& sample, ImageShape window);  // a window that is not static: the whole image

}  // namespace millrace
