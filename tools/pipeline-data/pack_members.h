// Makes one sample's archive members for `pack`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/plugin.h"
#include "millrace/util/image_facts.h"
#include "millrace/util/resample.h"

namespace millrace {

struct PackRecipe {
  std::int64_t short_side = 0;  // images with a longer shorter side are resized to it; 0: no resizing
  std::int64_t quality = 0;     // JPEG quality; 0: files are unchanged unless resized, then 90
  bool decode = false;          // decodes every image and target, to find broken ones, even if files are unchanged
};

// Members of a sample's archive. A file is copied byte by byte if it may stay unchanged; pixels without a file become PNG. Label
// images are decoded, so that their values are class numbers, and become PNG.
class MemberMaker {
 public:
  // `target`: the source's. Decodes with the stage "decode_image", which is looked up in the registry if needed.
  MemberMaker(const PackRecipe& recipe, const TargetSpec& target, const Registry& registry);

  // Appends the members of `sample`, as received from its source, under the name "000000123" for number 123. Called on many
  // threads, each with its own sample. ErrorKind::content if it is not an image.
  void append(Sample& sample, std::uint64_t number, std::string& archive) const;

 private:
  bool has_classes() const { return target_.kind == TargetSpec::Kind::classes; }
  bool decode(Sample& sample) const;  // true when it was resized
  ImageFacts::Origin origin_of(const Sample& sample) const;
  // `origin`: of an image that has changed.
  std::string image_member(Sample& sample, const ImageFacts::Origin* origin, std::string& extension) const;

  PackRecipe recipe_;
  TargetSpec target_;
  std::shared_ptr<SampleTransform> decoder_;  // null if nothing is to be decoded
};

}  // namespace millrace
