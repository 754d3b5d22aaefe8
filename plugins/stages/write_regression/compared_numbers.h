// Predicted and true numbers over a pass, shared by the stages in this folder.
#pragma once

#include <kept_samples.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/params.h"
#include "millrace/stage.h"
#include "millrace/util/joint_sink.h"
#include "millrace/util/output_file.h"

namespace millrace {

// Keys of every stage that compares numbers.
struct ComparisonParams {
  std::string folder = "evaluation";
  std::vector<std::string> columns;
  std::int64_t mistakes = 25;
  std::int64_t predictions = 25;

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("folder", &Params::folder).text("folder for CSV files and pictures, in the run's folder or an absolute path");
    set.add("columns", &Params::columns).text("names of the numbers; default: their positions");
    set.add("mistakes", &Params::mistakes)
        .range(0, 100)
        .unit("images")
        .text("images of the largest errors on a sheet; 0: no sheet")
        .in_recipes();
    set.add("predictions", &Params::predictions)
        .range(0, 100)
        .unit("images")
        .text("evenly spaced images of the pass, drawn with predictions; 0: no sheet")
        .in_recipes();
  }
};

struct NumberRow {
  std::uint64_t position = 0;  // in the pass
  std::string place;
  std::vector<float> targets, predicted;  // (columns)
};

// The rows of a pass, and two sheets: images from the whole pass, and those of the largest errors. Not thread-safe.
class ComparedNumbers {
 public:
  // A stage's rating of a row.
  struct Judge {
    std::function<double(const NumberRow& row)> error;                            // infinite for NaN predictions; never NaN
    std::function<std::vector<drawing::Caption>(const NumberRow& row)> captions;  // below the row's image
  };

  // Throws Error(usage): the network's result is not a vector, or has another length than `columns`.
  ComparedNumbers(const ComparisonParams& params, const DataContext& context, Judge judge);

  // Skipped samples are left out. REQUIRES: share.batch. Throws Error(data) for samples with another number of numbers.
  void add(const Predictions& share);
  // Gathers the rows of all processes, in order of the source, on the first one.
  void join(JointSink& processes);
  void clear();

  const std::vector<std::string>& names() const { return names_; }  // names of the numbers; without `columns` their indices
  const std::vector<NumberRow>& rows() const { return rows_; }
  std::string heading() const;  // a picture's heading: "60 images of validate"

  // A row for each sample: path, and for each column its target and `shown` of its prediction, under the column's name plus
  // `ending`.
  std::string csv(const char* ending, const std::function<std::string(float)>& shown) const;
  // Adds predictions.png and mistakes.png if enabled. The subtitles describe the text below an image and the order.
  void add_sheets(OutputFiles& files, const std::string& folder, const char* of_shown, const char* of_worst) const;
  std::size_t memory_bound() const;

 private:
  void add_row(const Predictions& share, std::size_t sample);
  void keep_if_shown(const NumberRow& row, const Predictions& share, std::size_t sample);

  const ComparisonParams params_;
  const DataContext context_;
  const Judge judge_;
  std::vector<std::string> names_;
  std::vector<NumberRow> rows_;
  drawing::EvenlySpaced spaced_;
  drawing::KeptSamples shown_, worst_;
};

}  // namespace millrace
