// --predict -: paths on standard input, each answered by a line on standard output.
#pragma once

#include <istream>
#include <string>

#include "millrace/plugin.h"

namespace millrace {

struct LinesRequest {
  std::string weights;  // a file or its URL, or the folder of a run
  std::string device;   // see PredictorOptions::device
};

// Opens the weights once. Answers each path with an object, which is flushed before the next path is read:
//
//   {"path":"a.jpg","classes":["star","cross"],"scores":[0.91,0.06]}     the five most probable ones
//   {"path":"b.jpg","labels":["cat","dog"],"scores":[0.8,0.1]}           of all labels
//   {"path":"c.jpg","numbers":[3.25]}
//   {"path":"d.jpg","error":"decode_image: the file is truncated"}
//
// A path may be a URL of any storage. Names are positions if their number is not the network's. Only files of up to 1 GiB are read. Empty lines are ignored. Throws
// Error(usage) for weights of other tasks, whose results are images, and for several devices, and Error(storage) if standard
// output cannot be written.
void predict_lines(const LinesRequest& request, std::istream& paths, const Registry& registry);

}  // namespace millrace
