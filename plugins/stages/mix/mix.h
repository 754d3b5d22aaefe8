#pragma once

#include <string>
#include <vector>

#include "children.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/label_values.h"
#include "millrace/util/source_parts.h"

namespace millrace {

// A source made of others.
//
//   [train.read]
//   stage   = "mix"
//   shuffle = "every-epoch"
//   sources = [
//     { stage = "read_folder", path = "data/photos", weight = 2.0 },
//     { stage = "read_list", path = "data/drawings/metadata.csv" },    # a weight that is left out is 1
//   ]
//
// The samples of one source come after those of the one before, as the index counts them. With weights, each source fills as
// much of an epoch as its weight says, and the epoch keeps its length; without any, every sample comes once. Classes are one list
// by name: the sources' own when it is the same for all, otherwise every name once, sorted bytewise. Colours of classes are those
// of the first source that names them; a list of several sources' classes has none.
//
// Which samples and in which order (`shuffle`, `limit`, `part`, `only`) is the mixture's business: the framework chooses by
// index, after the sources are put together, so that they take none of these themselves. Numbers to be predicted and targets must
// be the same in all sources.
//
// Ports: out, SampleChunk. Ownership: owns its sources. Threading: as its sources.
// Errors: theirs, with "sources[1]" added; sources that do not fit together: ErrorKind::usage.
class Mix : public Source, public MadeOfParts, public NamesLabelValues, public KnowsFileSizes {
 public:
  struct Params : SourceParams {
    Value sources = Value(Array());
  };
  static void describe(StageDescription<Params>& description);

  Mix(const Params& params, const StageSite& site);

  void open() override;
  void stop() noexcept override;
  std::uint64_t size() const override { return children_.back().end; }
  std::vector<std::string> classes() const override { return classes_; }
  std::vector<std::string> colours() const override;
  std::int32_t label(std::uint64_t index) const override;
  std::uint32_t numbers() const override { return children_.front().source->numbers(); }
  bool has_rows() const override { return children_.front().source->has_rows(); }
  std::optional<TargetSpec> target() const override { return children_.front().source->target(); }
  bool names(std::uint8_t value) const override;
  ImageShape image_shape() const override;
  std::vector<SourcePart> parts() const override;
  std::size_t largest_encoded() const override;
  std::uint32_t file_bytes(std::uint64_t index) const override;
  bool is_missing(std::uint64_t index) const override;
  std::uint64_t fingerprint() const override;
  std::uint64_t listing_hash() const override;
  bool place(std::uint64_t index, SampleOrigin& origin) const override;
  void read(Sample& sample) override;
  std::size_t memory_bound() const override;

 private:
  const Child& child_of(std::uint64_t index) const;
  void require_same_targets() const;

  std::vector<Child> children_;
  std::vector<std::string> classes_;
};

}  // namespace millrace
