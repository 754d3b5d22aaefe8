// Annotations in another format.
#pragma once

#include <cstddef>
#include <string>

#include "millrace/plugin.h"

namespace millrace {

struct Conversion {
  std::string annotations;  // a file or folder, in any format
  std::string images;       // their folder; empty: names and sizes are those of the annotations
  std::string to;           // "coco": a file; "yolo": a folder with data.yaml and labels/
  std::string out;
};

struct Converted {
  std::size_t images = 0, shapes = 0, classes = 0;
  std::string warning;  // what is left out; empty: nothing
};

// Throws ErrorKind::data for annotations that cannot be read, or not be written in the other format, before it writes anything.
Converted convert(const Registry& registry, const Conversion& conversion);

}  // namespace millrace
