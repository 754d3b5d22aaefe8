// Sources: where samples come from.
//
//   class Colours : public millrace::Source {  // images of one colour each; the label says which
//    public:
//     struct Params : millrace::SourceParams { std::int64_t count = 30; };
//     static void describe(millrace::StageDescription<Params>& d) {
//       d.name("colours").text("Images of one colour.").output(millrace::payload::kImageChunk);
//       d.params.add("count", &Params::count).range(1).unit("images").text("in an epoch");
//       millrace::SourceParams::describe(d.params);
//     }
//     Colours(const Params& params, const millrace::StageSite&) : Source(params), count_(params.count) {}
//     void open() override {}
//     std::uint64_t size() const override { return static_cast<std::uint64_t>(count_); }
//     std::vector<std::string> classes() const override { return {"red", "green", "blue"}; }
//     std::int32_t label(std::uint64_t index) const override { return static_cast<std::int32_t>(index % 3); }
//     std::size_t largest_encoded() const override { return 0; }
//     void read(millrace::Sample& sample) override { ... sample.set_image(image, millrace::SourceMap{8, 8, {}}); }
//    private:
//     const std::int64_t count_;
//   };
//   MILLRACE_PLUGIN("colours", "1.0", "A source.") { registry.add_stage<Colours>(); }
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/params.h"
#include "millrace/stage.h"

namespace millrace {

// Keys that every source takes: which samples, in which order. The framework applies them by index.
struct SourceParams {
  std::string shuffle = "never";
  std::optional<std::int64_t> limit;
  Range part = {0, 1};
  std::int64_t part_seed = 0;
  std::vector<std::string> only;
  bool balance = false;
  std::vector<double> class_weights;

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("shuffle", &Params::shuffle)
        .choices({"never", "once", "every-epoch"})
        .text("order of samples: as listed, one fixed permutation, or a new permutation each epoch");
    set.add("limit", &Params::limit).range(1).unit("samples").text("at most so many, spread evenly over the listing");
    set.add("part", &Params::part)
        .text(
            "the part of each class to take: [0, 0.9] here and [0.9, 1] in another graph share no sample. Who belongs where is "
            "drawn from part_seed");
    set.add("part_seed", &Params::part_seed).text("draws who belongs to which part; not run.seed, so that a test set stays one");
    set.add("only", &Params::only).text("only samples of these classes; labels are numbered in this order");
    set.add("balance", &Params::balance).text("every class equally often in an epoch, which keeps its length");
    set.add("class_weights", &Params::class_weights)
        .text("how often each class comes in an epoch, in proportion; instead of balance");
  }
};

// Samples with stable indices 0 ... size()-1.
class Source : public Stage {
 public:
  explicit Source(SourceParams sampling) : sampling_(std::move(sampling)) {}

  void open() override = 0;                                        // lists the samples; ErrorKind::data when there are none
  virtual std::uint64_t size() const = 0;                          // valid after open()
  virtual std::vector<std::string> classes() const { return {}; }  // names by label
  virtual std::vector<std::string> colours() const { return {}; }  // of each class in pictures, "#804080"; empty: none are named
  virtual std::int32_t label(std::uint64_t) const { return -1; }   // of a sample, without reading it; -1 when not known
  virtual std::size_t largest_encoded() const = 0;                 // bytes of the largest sample; bounds the memory
  virtual std::uint32_t numbers() const { return 0; }              // that each sample has to be predicted
  virtual bool has_rows() const { return false; }          // a sample has any number of rows of numbers() each, such as boxes
  virtual std::uint64_t fingerprint() const { return 0; }  // another one when a sample may have changed; 0: it cannot tell
  // A hash of names below the root, labels and order: the same where the data have been moved. A run resumes with the same one.
  // The default knows the labels alone.
  virtual std::uint64_t listing_hash() const;

  // A source made of others: their samples come one after the other, each part as often in an epoch as its weight says.
  struct Part {
    std::uint64_t size = 0;
    double weight = 1;
  };
  virtual std::vector<Part> parts() const { return {}; }

  // Fills url, encoded, label and all else that the source knows of the sample key.index. Runs on several I/O threads at once and
  // may block. ErrorKind::content: a bad sample, as read_sample_file() (files.h) says of a missing file. Others end the run.
  virtual void read(Sample& sample) = 0;

  const SourceParams& sampling() const { return sampling_; }
  void process(int, Packet, Output&) final {}  // the framework drives read() itself

 private:
  SourceParams sampling_;
};

}  // namespace millrace
