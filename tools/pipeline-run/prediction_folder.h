// The folder of --out: checks its files, and removes an earlier prediction.
#pragma once

#include <string>
#include <vector>

#include "made_files.h"

namespace millrace {

// Beginning of the first line of each pipeline.toml and network.toml written by --predict. A folder with such a pipeline belongs
// to --predict: the next run there removes the earlier results.
inline constexpr const char* kMadeByPredict = "# Made by pipeline-run --predict.";

// `read`: absolute paths of the prediction's input folders and lists. Throws Error(usage) if the folder is impossible, is or lies
// in a folder of `read`, or has files which a prediction would replace but did not write; Error(storage) if it cannot be listed.
void check_prediction_folder(const std::string& folder, const std::vector<std::string>& read);

// Removes the files of earlier and killed predictions, but not those of `made`. Throws Error(storage). REQUIRES:
// check_prediction_folder() succeeded.
void remove_old_prediction(const std::string& folder, const MadeFiles& made);

}  // namespace millrace
