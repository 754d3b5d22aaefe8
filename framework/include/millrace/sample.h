// Samples: images with labels, numbers or targets, on their way from the source to the network. All memory of a sample belongs to
// its slot in a circulating Batch (batch.h) and is reused: in steady state nothing is allocated for a sample, nothing is
// gathered, and no lock is taken.
//
//   void process(millrace::Sample& sample, millrace::Draw& draw) override {  // of a SampleTransform that is_random() (stage.h)
//     if (!draw.chance(0.5)) return;
//     const millrace::Image& image = sample.change_colours();
//     for (std::size_t i = 0; i < image.shape.bytes(); ++i) image.data[i] = static_cast<std::uint8_t>(255 - image.data[i]);
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/affine_map.h"
#include "millrace/detail/random.h"
#include "millrace/detail/tensor.h"

namespace millrace {

// Bytes whose capacity survives resize(); new bytes are not initialised.
class ByteBuffer {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 62U;  // bytes; the capacity for as many is still a number

  // Keeps no content when it has to grow. Throws Error(data) for more than kMost, and keeps everything then.
  std::uint8_t* resize(std::size_t size);
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

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

enum class Border : std::uint8_t {
  constant,  // the fill value
  reflect,   // mirrored about the edge pixel, which is not repeated: 2 1 | 0 1 2
  edge,      // the edge pixel repeated
};

// What `augment` leaves to the device: the pixel that the network sees at (row i, column j) is the stored one at
// (y + step_y * i, x + step_x * j); the border rule says what lies outside. Plain data, copied to devices.
struct AugmentationRecord {
  std::int16_t x = 0, y = 0;
  std::int8_t step_x = 1, step_y = 1;  // 1 or -1
  Border border = Border::constant;
  std::uint8_t fill[4] = {0, 0, 0, 0};  // per channel, for Border::constant
  std::uint8_t scale = 1;               // of a target's record: TargetSpec::scale. Border::reflect mirrors by its image's pixels
  // Deviation of Gaussian noise, in grey levels, that the device adds in float to what the network sees:
  // normal_deviate(noise_seed, (row * width + column) * channels + channel), in the window. Not in apply_record(), nor in a
  // target's record. 0: none.
  float noise = 0;
  std::uint32_t noise_seed = 0;

  void flip_x(int width);  // mirrors what the network sees, left and right; width of the window
  void flip_y(int height);
  void translate(int dx, int dy);  // moves what the network sees by dx to the right and dy down
  // From pixels of the window to stored pixels.
  AffineMap to_stored() const { return {double(step_x), 0, double(x), 0, double(step_y), double(y)}; }
  bool is_identity() const { return x == 0 && y == 0 && step_x == 1 && step_y == 1; }
};

// Where a sample's pixels come from: the image in its file, upright where decode_image turned it, before it was cut or resized.
// Coordinates are pixels, with centres at whole numbers, as in AffineMap. What lies outside was filled in by a border rule.
struct SourceMap {
  std::int32_t height = 0, width = 0;  // of that image; 0: nothing is known, and the map means nothing
  AffineMap map;                       // from pixels of the sample's image to pixels of that one

  bool is_known() const { return height > 0 && width > 0; }
  // The map of an image made of this one, whose pixel p shows what this one shows at `to_this`(p). Unknown stays unknown.
  SourceMap behind(const AffineMap& to_this) const;
  friend bool operator==(const SourceMap&, const SourceMap&) = default;
};

// A second image: of class indices (segmentation), or one to be reproduced (denoising). It has `scale` times the height and width
// of the first, and moves with it: pixel (y, x) covers its rows scale * y ... scale * y + scale - 1, and columns in the same way.
struct TargetSpec {
  enum class Kind : std::uint8_t { none, classes, image };

  Kind kind = Kind::none;
  std::uint8_t ignored = 255;               // of classes: counts nowhere; lies where an image is filled
  std::array<std::uint8_t, 256> classes{};  // of classes: the class index of each value in the label image, or `ignored`
  int scale = 1;                            // 1 ... kMostScale; above 1: super-resolution

  static constexpr int kMostScale = 16;

  int channels(int of_image) const { return kind == Kind::none ? 0 : kind == Kind::classes ? 1 : of_image; }
  ImageShape shape(const ImageShape& image) const {  // of the target of such an image, always 8-bit
    return {image.height * scale, image.width * scale, channels(image.channels)};
  }
};

// The one reference of ingest: executes a record on the host. Backends are tested against it.
// `out` is (window.height, window.width, C); REQUIRES: image.shape.channels == window.channels <= 4.
void apply_record(const AugmentationRecord& record, const ImageView& image, ImageShape window, std::uint8_t* out);

// The record by which a target follows its image: the same, in the target's pixels, but for what fills the outside.
// REQUIRES: `scale` times the record's coordinates are within 16 bits, which stages that edit records see to.
AugmentationRecord target_record(const AugmentationRecord& record, const TargetSpec& target);

// Why a sample could not be used.
struct SampleFault {
  std::string stage;
  std::string cause;
};

// Where a sample comes from.
struct SampleOrigin {
  std::string url;           // a file, or the archive that holds it
  std::string member;        // of an archive: its name there; empty for a file
  std::uint64_t offset = 0;  // of an archive: where its bytes begin
  std::string target_url;    // of the target, where it is a file of its own; for messages

  std::string place() const;  // for messages: "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
};

// One slot of a batch on its way from the source to the network.
class Sample : public SampleOrigin {
 public:
  SampleKey key;
  ByteBuffer encoded;                // the file's bytes; may be pixels already, see `decoded`
  ByteBuffer encoded_target;         // its target's
  ImageShape decoded;                // not empty: `encoded` holds pixels of this shape, and is not to be decoded
  std::int32_t label = -1;           // class index
  std::vector<float> numbers;        // to be predicted: as many as Source::numbers() says, or rows of as many one after the other
                                     // (Source::has_rows()). What is a place (boxes) is meant in the source image: seen_source()
  AugmentationRecord record;         // pending; executed at ingest or by apply_pending()
  float noise = 0;                   // what `batch` puts into the record: AugmentationRecord::noise. No other stage touches it
  std::uint32_t noise_seed = 0;      // of it
  bool windowed = false;             // the record places the network's window in this image; see place_window()
  bool cached = false;               // came out of a SampleCache: stages before it are to leave it alone
  std::uint64_t content = 0;         // hash of the encoded bytes, target and numbers included
  std::uint64_t first_hash = 0;      // of position, index, label and content
  std::uint64_t hash = 0;            // the same, and every draw so far
  std::optional<SampleFault> fault;  // set by the graph when a stage threw ErrorKind::content; later stages skip the sample

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
  // Makes a buffer from new_image() the sample's image. Drops a pending record and clears resident(). A decoder, which makes the
  // first image, knows its source.
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

  // An image, the batch's slot for it, and two buffers to change it in turns.
  struct Plane {
    Image image, slot;
    ByteBuffer scratch[2];

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
// Executes a pending record on the host, for image and target: before pixels are resampled, or changed by where they are. What
// recolours each pixel alone need not call it; what a shift uncovers then keeps its fill. `window`: what the record yields; one
// that is not static: the whole image.
void apply_pending(Sample& sample, ImageShape window);

// From pixels of the window to pixels of the source image, the record included; unknown where source_map() is. For masks and
// boxes at the size of the source image.
SourceMap seen_source(const Sample& sample, ImageShape window);  // a window that is not static: the whole image

}  // namespace millrace
