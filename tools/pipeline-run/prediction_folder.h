// The folder of --out: whose files lie in it, and what an earlier prediction has left there.
#pragma once

#include <string>
#include <vector>

#include "made_files.h"

namespace millrace {

// How the first line of each pipeline.toml and network.toml begins that --predict writes. A folder with such a pipeline belongs
// to --predict: its next run there removes what the earlier one has left.
inline constexpr const char* kMadeByPredict = "# Made by pipeline-run --predict.";

// `read`: absolute paths of folders and lists that the prediction reads. Throws Error(usage) for a folder that cannot be one,
// that is or lies in a folder of `read`, or that has files which a prediction would replace and no prediction wrote;
// Error(storage) where it cannot be listed.
void check_prediction_folder(const std::string& folder, const std::vector<std::string>& read);

// Removes the files of an earlier prediction, and what killed ones have left, but not those of `made`. Throws Error(storage).
// REQUIRES: check_prediction_folder() has taken the folder.
void remove_old_prediction(const std::string& folder, const MadeFiles& made);

}  // namespace millrace
