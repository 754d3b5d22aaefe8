// What a person sees while a run goes on: one line that renews itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace {

struct ProgressFigures {
  std::string name;
  double epoch = 0, epochs = 0;          // epoch: done so far, with its fraction
  std::uint64_t step = 0, steps = 0;     // done, of all
  std::string measured;                  // "loss 1.034  accuracy 63.2 %", of the epoch so far; empty: nothing
  double images_per_second = 0;
  double waiting_for_data = 0;           // share of the time since the last figures, 0 to 1
  std::string waits_for;                 // "data (decode_image)", "forward_backward": whoever is waited for now
  double seconds_left = 0;
};

// "epoch 3/15  step 412/2925  loss 1.034  accuracy 63.2 %  412 images/s  waits for forward_backward  2 min 10 s left"
std::string progress_line(const ProgressFigures& figures);

// Writes to standard error. Not thread-safe.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();                                    // ends an unfinished line
  bool due() const;                               // time for another show()
  void show(const ProgressFigures& figures);      // on a terminal: renews the line; elsewhere a plain line now and then
  void say(const std::string& line);              // a line of its own that stays

 private:
  bool quiet_;
  bool terminal_;
  bool open_line_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace millrace
