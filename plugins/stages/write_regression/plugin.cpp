#include "millrace/plugin.h"
#include "write_label_scores.h"
#include "write_regression.h"

MILLRACE_PLUGIN("write_regression", "1.0", "Predicted numbers and labels compared with the samples', as CSV and pictures.") {
  registry.add_stage<millrace::WriteRegression>();
  registry.add_stage<millrace::WriteLabelScores>();
}
