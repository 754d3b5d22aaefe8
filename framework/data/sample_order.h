// Maps positions of an epoch to samples, according to a source's SourceParams. A pure function of the listing, the seed and
// (epoch, position), so that any position can be computed directly. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

// Steps in order: `only`, then `part` (by file, if the source knows files), then `limit` choose the samples; then a weighted
// order is built from groups (classes, or the parts of a mixture), and `shuffle` permutes. In a weighted order each group fills
// positions according to its weight (largest remainders), and cycles through its samples, so that their counts within an epoch
// differ by at most one.
class SampleOrder {
 public:
  // REQUIRES: an opened source. Errors: an unknown or repeated class, an invalid part, weights that fit no class:
  // ErrorKind::usage; no samples left: ErrorKind::data.
  SampleOrder(const Source& source, std::uint64_t seed);

  std::uint64_t size() const { return size_; }                             // positions per epoch
  std::uint64_t index(std::uint64_t epoch, std::uint64_t position) const;  // REQUIRES: position < size()
  // The replacement for a bad sample of this epoch, from a number drawn uniformly from 0 ... size() - 1: groups are chosen in
  // proportion to their weights.
  std::uint64_t replacement(std::uint64_t epoch, std::uint64_t drawn) const;
  std::int32_t label(std::int32_t of_source) const;  // as renumbered by `only`
  std::vector<std::string> classes() const { return classes_; }

  // The chosen samples, each once, in the listing's order.
  std::uint64_t listed() const { return all_ ? all_ : chosen_.size(); }
  std::uint64_t listed(std::uint64_t at) const { return all_ ? at : chosen_[at]; }

 private:
  struct Group {
    std::uint64_t begin = 0, count = 0;  // in members_, or in the listing itself if members_ is empty
    std::uint64_t first = 0, last = 0;   // positions before shuffling
  };

  void choose_classes(const Source& source);
  void choose_part(const Source& source);
  void limit(std::uint64_t most);
  void group_by_class(const Source& source);
  void group_by_part(const Source& source);
  void share_out(const std::vector<double>& weights);
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t count, std::uint64_t at, std::uint64_t salt) const;
  void materialise();  // fills `chosen_` from `all_`

  const SourceParams sampling_;
  std::uint64_t seed_;
  std::uint64_t all_ = 0;               // every sample is chosen, without a list; 0: see chosen_
  std::vector<std::uint32_t> chosen_;   // ascending
  std::vector<std::uint32_t> members_;  // by group
  std::vector<Group> groups_;           // empty: every sample once
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;  // new label by the source's label; empty: unchanged
  std::uint64_t size_ = 0;
};

}  // namespace millrace
