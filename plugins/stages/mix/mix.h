#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/label_values.h"
#include "millrace/util/source_parts.h"

namespace millrace {

struct Child {
  std::shared_ptr<Source> source;
  std::string name;                  // "sources[0]"
  std::optional<double> weight;      // as configured
  std::uint64_t begin = 0, end = 0;  // its range of the mixture's samples; known after open()
  std::vector<std::int32_t> labels;  // from its labels to the mixture's; empty if equal
};

// A source that combines others.
//
//   [train.read]
//   stage   = "mix"
//   shuffle = "every-epoch"
//   sources = [
//     { stage = "read_folder", path = "data/photos", weight = 2.0 },
//     { stage = "read_list", path = "data/drawings/metadata.csv" },    # the default weight is 1
//   ]
//
// Indices number the sources' samples one source after the other. With weights, each source fills its weight's fraction of an
// epoch, whose length stays; without, every sample comes once. Classes form one list by name: the sources' own if they agree,
// otherwise every name once, sorted bytewise. Class colours are those of the first source that has some; a united list has none.
//
// Which samples and in which order (`shuffle`, `limit`, `part`, `only`) belong to the mixture: the framework chooses by index
// after combining the sources, so the sources do not accept these keys. Numbers to predict and targets must be the same in all
// sources.
//
// Ports: out, SampleChunk. Ownership: owns its sources. Threading: that of its sources.
// Errors: theirs, with "sources[1]" added; incompatible sources: ErrorKind::usage.
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
