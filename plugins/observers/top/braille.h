// A plot of dots for a terminal: each character has two columns and four rows of them.
#pragma once

#include <string>
#include <vector>

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

}  // namespace millrace::top
