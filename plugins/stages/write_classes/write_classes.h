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
// path,label,predicted,cat,dog,...,error. JSON lines: {"path":"a.jpg","label":"cat","classes":["cat","dog"],"scores":[0.9,0.05]}.
// An unusable sample has a row with the reason in `error` and without classes. The label of an unlabelled image is empty or null.
// A score is the softmax of the network's output, in float64; if the network ends with a softmax layer, the output itself. It has
// enough digits to read back the same number. Among equal outputs the lower class comes first. Class names are the source's, else
// those stored with the weights, else numbers.
//
// Ports: in, Predictions of (C) float32.
// Threading: rows are made and written on a separate thread (PredictionLine).
// Errors: an output that is not a vector, a name of unknown format: ErrorKind::usage, in the constructor. An unwritable folder
// (in open()) or a full disk: ErrorKind::storage. The file appears under its name when a pass is complete.
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

  // Used only on the line's thread.
  std::optional<OutputFile> file_;  // the current pass's
  FiniteCount finite_;
  std::string text_, place_, number_;
  std::vector<std::size_t> ranked_;    // the first top_ are in order
  std::vector<double> scores_;         // one per output
  std::vector<std::size_t> place_of_;  // each class's index in ranked_

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
