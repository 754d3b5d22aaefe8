// --watch: image files that arrive in a folder, each answered by a line on standard output.
#pragma once

#include <atomic>
#include <string>

#include "image_answers.h"
#include "millrace/plugin.h"
#include "report/activity.h"

namespace millrace {

struct WatchRequest {
  AnswersRequest answers;
  std::string folder;
  std::string out;  // the folder of the journal
};

// Answers the images in the folder and its subfolders, old ones and new ones, until a signal arrives. A file is taken when it is
// whole: renamed into the folder; closed by its writer; or else, as for files that were there before or come over a network,
// found unchanged for three seconds. A file that a process of this machine still writes is left alone, as are other endings than
// .jpg, .jpeg and .png, and names and folders that begin with a dot.
//
// An answer is printed first, and then entered into the journal: a program killed in between prints it again, with the same "id".
// A file that is written again under its name is another one. `activity` names what happens, with something to save once files
// are answered. Throws Error(usage) if the folder is missing at the start, and Error(storage) if standard output or the journal
// cannot be written. If the folder vanishes later, this is reported, and waited for.
void watch_folder(const WatchRequest& request, const std::atomic<int>& signal, Activity& activity, const Registry& registry);

}  // namespace millrace
