// Sources read samples.
//
//   class Colours : public millrace::Source {  // images of a single colour; the label is its index
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

// Keys of every source: they select samples and their order. The framework applies these by index.
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
        .text("sample order: as listed, one fixed permutation, or a new one each epoch");
    set.add("limit", &Params::limit).range(1).unit("samples").text("maximum number, spread evenly over the listing");
    set.add("part", &Params::part)
        .text("part of each class to use: [0, 0.9] and [0.9, 1] in another graph share no sample; part_seed draws the division");
    set.add("part_seed", &Params::part_seed)
        .text("draws the division into parts; independent of run.seed to keep test sets fixed");
    set.add("only", &Params::only).text("use only these classes; labels are numbered in this order");
    set.add("balance", &Params::balance).text("draw every class equally often; the epoch keeps its length");
    set.add("class_weights", &Params::class_weights).text("relative frequency of each class in an epoch; instead of balance");
  }
};

// Provides samples with stable indices 0 ... size()-1. The framework applies SourceParams by index: order, shuffling, parts and
// limits.
class Source : public Stage {
 public:
  explicit Source(SourceParams sampling) : sampling_(std::move(sampling)) {}

  void open() override = 0;                                        // lists the samples; throws ErrorKind::data if there are none
  virtual std::uint64_t size() const = 0;                          // valid after open()
  virtual std::vector<std::string> classes() const { return {}; }  // names by label
  virtual std::vector<std::string> colours() const { return {}; }  // of each class in pictures, "#804080"; empty: none given
  virtual std::int32_t label(std::uint64_t) const { return -1; }   // of a sample, without reading it; -1 if unknown
  // Sets url and member as read() does, without reading the sample. Returns false if they are unknown. Valid after open().
  // Thread-safe.
  virtual bool place(std::uint64_t /*index*/, SampleOrigin& /*origin*/) const { return false; }
  virtual std::size_t largest_encoded() const = 0;         // bytes of the largest sample; bounds the memory
  virtual std::uint32_t numbers() const { return 0; }      // how many numbers of each sample are predicted
  virtual bool has_rows() const { return false; }          // samples have any number of rows of numbers() values, such as boxes
  virtual std::uint64_t fingerprint() const { return 0; }  // changes whenever the data may have changed; 0 if unknown
  // A hash of names below the root, labels and order. A run resumes only if it is unchanged; moving the data keeps it. The
  // default covers the labels alone.
  virtual std::uint64_t listing_hash() const;

  // Fills url, encoded, label and all other known fields of sample key.index. Called on several I/O threads at once; may block.
  // Throws ErrorKind::content for a bad sample, as read_sample_file() (files.h) does for a missing file; other errors end the
  // run.
  virtual void read(Sample& sample) = 0;

  const SourceParams& sampling() const { return sampling_; }
  void process(int, Packet, Output&) final {}  // the framework calls read() itself

 private:
  SourceParams sampling_;
};

}  // namespace millrace
