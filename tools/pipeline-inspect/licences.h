// What Millrace is linked with or contains: tools/packaging/licences.txt, installed in share/millrace.
#pragma once

#include <string>
#include <vector>

namespace millrace {

struct LinkedWork {
  std::string name, file;  // "oneTBB", "libtbb.so"; "-": it is compiled in
};

std::string licence_table();             // the file's text; throws Error(usage) if it is missing
std::vector<LinkedWork> linked_works();  // its rows; empty without the file

}  // namespace millrace
