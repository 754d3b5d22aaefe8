// Outlines of shapes that are neither boxes nor polygons.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace {

// The corners of a box turned clockwise about a point, by degrees: x, y, x, y, ...
std::vector<double> turned_box(double left, double top, double width, double height, double degrees, double about_x,
                               double about_y);

// A polygon of 64 corners on an ellipse, turned clockwise about its centre.
std::vector<double> ellipse(double centre_x, double centre_y, double radius_x, double radius_y, double degrees = 0);

// Runs over a whole image, column by column (AnnotatedShape::runs), of runs over a part of it, row by row. Throws ErrorKind::data
// if the runs do not fill the part, or the part leaves the image.
struct ImagePart {
  int left = 0, top = 0, width = 0, height = 0;
};
std::vector<std::uint32_t> runs_by_column(const std::vector<double>& runs, const ImagePart& part, int width, int height);

}  // namespace millrace
