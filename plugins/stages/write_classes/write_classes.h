#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/finite_count.h"
#include "millrace/util/output_file.h"

namespace millrace {

// Writes the most probable classes of each image into a file, in order of the source.
//
//   [predict]
//   every = "never"                      # runs with: pipeline-run FILE --graph predict --weights W
//   flow  = ["read", "decode_image", "batch", "forward", "write_classes"]
//
//   [predict.write_classes]
//   file = "found.csv"                   # in the run's folder; .jsonl writes an object a line; without: predictions.csv
//   top  = 5                             # or columns = "classes": a column for the score of each class
//
// CSV (RFC 4180, with a first row of names): path,label,class_1,score_1,class_2,score_2,...,error, or with columns = "classes"
// path,label,predicted,cat,dog,...,error. JSON lines:
// {"path":"a.jpg","label":"cat","classes":["cat","dog"],"scores":[0.9,0.05]}. A sample that could not be used has a row too, with
// the reason as its `error` and without classes. The label is empty or null where the image has
// none. A score is the softmax of the network's output, in float64; of a network that ends with a softmax layer, the output
// itself. It is written with as many digits as it takes to read the same number again. Of equal outputs the class with the lower
// number comes first. Class names are those of the source or else those that the weights were trained with; where there are none,
// classes are written as numbers.
//
// Ports: in, Predictions of (C) float32.
// Threading: rows are made and written on a thread of its own (PredictionLine).
// Errors: an output that is no vector, a name of unknown format: ErrorKind::usage, in the constructor. A folder where nothing can
// be written, in open(), or a full disk: ErrorKind::storage. The file appears under its name when a pass is whole.
class WriteClasses : public Stage {
 public:
  struct Params {
    std::string file;
    std::string format = "auto";
    std::int64_t top = 5;
    std::string columns = "top";
  };
  static void describe(StageDescription<Params>& d);
  WriteClasses(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override;

 private:
  void write(const Predictions& share);
  void write_rows(const Predictions& share);
  void rank(std::span<const float> outputs);
  void append_row(const Predictions::Sample& sample);
  void append_object(const Predictions::Sample& sample);
  std::string names_row() const;
  void append_score(std::size_t i);
  void append_best_classes();
  void append_scores_by_class();
  std::string_view name_of(std::int32_t label);

  const Params params_;
  const DataContext context_;
  const bool json_, by_class_, probabilities_;
  std::size_t top_ = 0;
  std::vector<std::string> classes_;  // by label
  std::vector<std::string> outputs_;  // names of the network's outputs
  std::string path_;

  // Used on the line's thread alone.
  std::optional<OutputFile> file_;  // of the pass under way
  FiniteCount finite_;
  std::string text_, place_, number_;
  std::vector<std::size_t> ranked_;    // the first top_ are in order
  std::vector<double> scores_;         // of these
  std::vector<std::size_t> place_of_;  // in ranked_, of each class

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

}  // namespace millrace
