// Answers about image files, one JSON object a line: --predict - and --watch.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <string_view>

#include "millrace/plugin.h"
#include "predict/predictor.h"

namespace millrace {

struct AnswersRequest {
  const char* option;                                   // for messages
  std::string weights;                                  // a file or its URL, or the folder of a run
  std::string device;                                   // see PredictorOptions::device
  std::function<void(const std::string&)> notice = {};  // see RunHooks
};

// The members of a file's answer:
//
//   "path":"a.jpg","classes":["star","cross"],"scores":[0.91,0.06]     the five most probable ones
//   "path":"b.jpg","labels":["cat","dog"],"scores":[0.8,0.1]           of all labels
//   "path":"c.jpg","numbers":[3.25]
//   "path":"d.jpg","error":"decode_image: the file is truncated"
//
// Names are positions if their number is not the network's. Only files of up to 1 GiB are read. One thread at a time.
class ImageAnswers {
 public:
  // Opens the weights once. Throws Error(usage) for weights of other tasks, whose results are images, and for several devices.
  ImageAnswers(const AnswersRequest& request, const Registry& registry);

  // A path may be a URL of any storage. `is_same` is called when the file was read, or could not be read; if it returns false,
  // the result is empty. Throws errors of the device.
  std::string members(const std::string& path, const std::function<bool()>& is_same = {}) const;

 private:
  const Registry& registry_;
  const Predictor predictor_;
};

// Writes and flushes a line. Throws Error(storage) if standard output cannot be written.
void print_answer(std::string_view line);

// Answers each path, before the next one is read. Empty lines are ignored.
void answer_paths(const AnswersRequest& request, std::istream& paths, const Registry& registry);

}  // namespace millrace
