#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"
#include "millrace/util/finite_count.h"
#include "millrace/util/output_file.h"

namespace millrace {

// Writes a layer's output for each image into one array, in order of the source.
//
//   [predict.write_features]
//   layer = "avgpool"                    # or "layer:port"; `pipeline-inspect FILE` lists the layers
//   file  = "features.safetensors"       # in the run's folder; or .npy
//
// The array is float32, (images, C) or (images, C, H, W). In a safetensors file it has the layer's name. Next to it, a CSV file
// of the same name, features.csv, has path and label of each row, and a column for each number that `columns` names. An unusable
// sample has a row of NaN, and the reason in the column `error` of the CSV file.
//
// Ports: in, Predictions. A requested output is not fused with the next layer, so values may differ in the last digits.
// Threading: rows are written on a separate thread (PredictionLine).
// Errors: a layer that the network does not have, a name of unknown format: ErrorKind::usage, before the run. An unwritable
// folder (in open()) or a full disk: ErrorKind::storage. The files appear under their names when a pass is complete.
class WriteFeatures : public Stage {
 public:
  struct Params {
    std::string layer;
    std::string file = "features.safetensors";
    std::vector<std::string> columns;
    bool probabilities = false;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  WriteFeatures(const Params& params, const DataContext& context);

  void open() override;
  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override;

 private:
  void write(const Predictions& share);
  void write_rows(const Predictions& share);
  void begin();
  void finish();
  void forget();
  std::string header(std::uint64_t rows) const;  // the same length for any number of rows

  const Params params_;
  const DataContext context_;
  const bool numpy_;
  LayerPort port_ = 0;
  std::string name_;  // the tensor's name
  Shape shape_;       // for one image
  std::string path_, names_path_;

  // Used only on the line's thread.
  std::optional<OutputFile> features_, names_;  // the current pass's
  std::uint64_t rows_ = 0;
  FiniteCount finite_;
  std::string text_, place_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the other members
};

}  // namespace millrace
