// Lists of files: the first byte chooses the format, the rest is the list.
#include <cmath>

#include "file_list.h"
#include "fuzz.h"
#include "millrace/error.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  return {"0file_name,label,x\na.jpg,cat,1.5\n\"b \"\"c\"\".jpg\",dog,-2e3\n",
          "0\xef\xbb\xbf"
          "x,label,file_name\r\n1,0,a/b.jpg\r\n\r\n2,10,a/c.jpg",
          "0file_name,label,x\n\"two\nlines\",a,0\n",
          "1file_name\tlabel\tx\na.jpg\t7\t1\nb.jpg\t9\t2\n",
          "2{\"file_name\": \"a.jpg\", \"label\": \"c\\u00e4t\", \"x\": 1.25}\n\n{\"x\": 3, \"label\": 0, \"file_name\": \"b\", "
          "\"y\": [{}]}\n",
          "2{\"file_name\": \"a.jpg\", \"label\": \"c\", \"x\": 2e426}\n",
          "2{\"file_name\": [\"a\"], \"label\": {}}\n",
          "0file_name,file_name\n,\n\"",
          "0file_name,label,x\na,b,nan\na,b,1e999\n",
          "3a.jpg,cat,1\nb/c.jpg,dog,2\n",
          "4file_name,label,x\na.jpg,cat,1\nb.jpg,1,2\n"};
}

namespace {

void check(const FileList& list, const ListColumns& columns) {
  const std::size_t size = list.paths.size();
  require(size > 0 && list.lines.size() == size, "a list names a file");
  require(list.labels.size() == size && list.numbers.size() == size * columns.numbers.size(),
          "every file has its label and numbers");
  for (const float number : list.numbers) require(std::isfinite(number), "numbers are finite");
  for (const std::int32_t label : list.labels) {
    require(label >= 0 && static_cast<std::size_t>(label) < list.classes.size(), "labels are classes");
  }
  for (std::size_t i = 0; i < size; ++i) {
    const std::string path = list.paths[i];
    require(!path.empty() && path.back() != '/' && path.find('\0') == path.npos, "paths name files");
  }
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  using Kind = TableFormat::Kind;
  if (size == 0) return 0;
  const ListColumns columns{.file = "file_name", .label = "label", .numbers = {"x"}, .join = false, .ending = {}};
  const int way = (data[0] + 2) % 5;  // '0' to '4', and every other byte
  const TableFormat format{way == 1   ? Kind::tsv
                           : way == 2 ? Kind::json_lines
                                      : Kind::csv,
                           way == 3 ? std::vector<std::string>{"file_name", "label", "x"} : std::vector<std::string>()};
  const std::vector<std::string> classes = way == 4 ? std::vector<std::string>{"dog", "cat"} : std::vector<std::string>();
  try {
    fuzz::check(read_list({reinterpret_cast<const char*>(data) + 1, size - 1}, format, "list", columns, classes), columns);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::data, "what is wrong with a list is an error of the data");
  }
  return 0;
}
