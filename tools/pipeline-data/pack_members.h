// What `pack` makes of one sample.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/plugin.h"
#include "millrace/util/image_facts.h"
#include "millrace/util/resample.h"

namespace millrace {

struct PackRecipe {
  std::int64_t short_side = 0;  // images whose shorter side is longer are resized to it; 0: none
  std::int64_t quality = 0;     // of JPEG; 0: files stay as they are unless they have to be resized, and are of 90 then
  bool decode = false;          // every image and target, to find broken ones, even where files stay as they are
};

// Members of a sample's archive. A file is taken over byte by byte where it may stay as it is; pixels that were no file become
// PNG. Label images are decoded, so that their values are class numbers, and become PNG.
class MemberMaker {
 public:
  // `target` is the source's. Decoding is done by the stage "decode_image", which is looked up in the registry when needed.
  MemberMaker(const PackRecipe& recipe, const TargetSpec& target, const Registry& registry);

  // Appends the members of `sample`, which is as its source gave it, under the name "000000123" for number 123. Called on many
  // threads, with a sample each. ErrorKind::content for what is no image.
  void append(Sample& sample, std::uint64_t number, std::string& archive) const;

 private:
  bool has_classes() const { return target_.kind == TargetSpec::Kind::classes; }
  bool decode(Sample& sample) const;  // true when it was resized
  ImageFacts::Origin origin_of(const Sample& sample) const;
  // `origin`: of an image that has changed.
  std::string image_member(Sample& sample, const ImageFacts::Origin* origin, std::string& extension) const;

  PackRecipe recipe_;
  TargetSpec target_;
  std::shared_ptr<SampleTransform> decoder_;  // null where nothing is to be decoded
};

}  // namespace millrace
