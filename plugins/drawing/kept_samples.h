// Samples of a pass for a sheet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/util/joint_sink.h"
#include "sheet.h"

namespace millrace::drawing {

struct KeptSample {
  double loss = 0;             // higher ones come first; never NaN
  std::uint64_t position = 0;  // in the pass; among equal losses the lower one comes first
  SheetCell cell;
  std::string row = {};                    // in the table that accompanies the sheet
  std::vector<std::uint8_t> classes = {};  // classes in it, for a legend; ascending
};

// Keeps a fixed number of first samples. The selection does not depend on the order of arrival or on the processes: a sheet of a
// pass looks the same for any number of these.
class KeptSamples {
 public:
  explicit KeptSamples(std::size_t most) : most_(most) {}

  bool takes(double loss, std::uint64_t position) const;  // true if it is one of the first so far
  bool counts(double loss, std::uint64_t position) {      // the same, for a sample that count() counts
    ++count_;
    return takes(loss, position);
  }
  void add(KeptSample sample);
  const std::vector<KeptSample>& samples() const { return samples_; }
  double count() const { return count_; }
  void clear() {
    samples_.clear();
    count_ = 0;
  }

  // At the end of a pass, gives the first process the first samples and the count of all processes. Only images that it keeps are
  // sent.
  void join(JointSink& processes);

  Sheet sheet() const;                // their cells, without a title
  std::string rows() const;           // concatenated
  std::vector<bool> classes() const;  // classes in any of them, by number: 256

 private:
  struct Place {
    double loss = 0;
    std::uint64_t position = 0;
  };
  static bool comes_first(const Place& one, const Place& other);

  std::size_t most_;
  double count_ = 0;
  std::vector<KeptSample> samples_;  // sorted
};

std::string file_of(const Predictions::Sample& sample);  // its name without folders: "00042.jpg"
// The image as the network saw it, at most at its drawn size. REQUIRES: share.batch.
KeptImage kept_image(const Predictions& share, std::size_t sample);

// Chooses evenly spaced samples of a pass, because sources often list one class after the other.
class EvenlySpaced {
 public:
  EvenlySpaced(std::size_t most, std::uint64_t of) : every_(of / (most > 0 ? most : 1)) {}
  bool takes(std::uint64_t position) const { return every_ < 2 || position % every_ == 0; }

 private:
  std::uint64_t every_;
};

}  // namespace millrace::drawing
