// Which sample stands at which position of an epoch: a source's SampleParams put into effect. A pure function of the listing, the
// seed and (epoch, position), so that any position of any epoch is found without what came before. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

// Order of things: `only`, then `part` (of files, where the source knows them), then `limit` choose the samples; then a weighted
// order is made of groups (classes, or the parts of a mixture), and `shuffle` permutes. In a weighted order each group fills as
// many positions as its weight says (largest remainders), and goes through its samples in turns, so that within an epoch no
// sample comes twice more than another of its group.
class SampleOrder {
 public:
  // REQUIRES: an opened source. Errors: an unknown or repeated class, a part that is none, weights that fit no class:
  // ErrorKind::usage; nothing left: ErrorKind::data.
  SampleOrder(const Source& source, std::uint64_t seed);

  std::uint64_t size() const { return size_; }                             // positions of an epoch
  std::uint64_t index(std::uint64_t epoch, std::uint64_t position) const;  // REQUIRES: position < size()
  // What stands in for a bad sample of this epoch, by a number evenly drawn from 0 ... size() - 1: as likely a sample of each
  // group as its weight says.
  std::uint64_t replacement(std::uint64_t epoch, std::uint64_t drawn) const;
  std::int32_t label(std::int32_t of_source) const;  // as `only` numbers it
  std::vector<std::string> classes() const { return classes_; }

  // The chosen samples, each once, in the order of the listing.
  std::uint64_t listed() const { return all_ ? all_ : chosen_.size(); }
  std::uint64_t listed(std::uint64_t at) const { return all_ ? at : chosen_[at]; }

 private:
  struct Group {
    std::uint64_t begin = 0, count = 0;  // in members_, or in the listing itself where members_ is empty
    std::uint64_t first = 0, last = 0;   // positions before shuffling
  };

  void choose_classes(const Source& source);
  void choose_part(const Source& source);
  void limit(std::uint64_t most);
  void group_by_class(const Source& source);
  void group_by_part(const Source& source);
  void share_out(const std::vector<double>& weights);
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t count, std::uint64_t at, std::uint64_t salt) const;
  void materialise();  // `chosen_` takes over from `all_`

  const SourceParams sampling_;
  std::uint64_t seed_;
  std::uint64_t all_ = 0;               // every sample is chosen: no list is kept; 0: see chosen_
  std::vector<std::uint32_t> chosen_;   // ascending
  std::vector<std::uint32_t> members_;  // by group
  std::vector<Group> groups_;           // empty: every sample once
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;  // new label by the source's; empty: the same
  std::uint64_t size_ = 0;
};

}  // namespace millrace
