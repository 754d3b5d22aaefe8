// The lines that --top draws.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/util/course.h"
#include "millrace/util/recent_rates.h"

namespace millrace::top {

class Braille {
 public:
  Braille(int columns, int rows);             // in characters
  int width() const { return 2 * columns_; }  // in dots
  int height() const { return 4 * rows_; }
  void dot(int x, int y);  // y counts from the bottom; dots outside are ignored
  void line(int x0, int y0, int x1, int y1);
  std::vector<std::string> rows() const;  // from the top

 private:
  int columns_, rows_;
  std::vector<unsigned char> cells_;
};

// Not thread-safe.
class Screen {
 public:
  void begin(const RunStart& start);
  void add(const StepEvent& event);
  void add(const TickEvent& event) { tick_ = event; }
  void add(const TelemetryEvent& event) { rates_.add(event); }
  void say(const std::string& line);  // only the last few messages are shown

  // At most `rows` lines of at most `columns` columns. `colours`: with ANSI's colours.
  std::vector<std::string> lines(std::size_t columns, std::size_t rows, bool colours) const;

 private:
  std::vector<std::string> head(std::size_t columns) const;
  std::vector<std::string> stages(std::size_t columns, bool colours) const;
  std::vector<std::string> plot(std::size_t columns, std::size_t rows, bool colours) const;

  RunStart run_;
  TickEvent tick_;
  RecentRates rates_{1};
  std::map<std::string, Course> curves_;  // metrics of training
  std::map<std::string, double> scalars_;
  std::vector<std::string> messages_;
};

}  // namespace millrace::top
