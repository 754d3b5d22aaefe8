// Lists: CSV, TSV and JSON lines. The first byte chooses.
#include <cmath>

#include "file_list.h"
#include "fuzz.h"
#include "millrace/error.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  return {"0file_name,label\na.jpg,cat\nb.jpg,dog\n",
          "0\xef\xbb\xbf"
          "label,file_name,x\r\n\"a,\"\"b\"\"\",\"c\nd.jpg\",1.5\r\n",
          "1file_name\tlabel\na.jpg\t3\nb.jpg\t0",
          "2{\"file_name\": \"a.jpg\", \"label\": 2, \"x\": -1e3}\n{\"file_name\": \"b/\\u00e4.jpg\", \"label\": 0, \"x\": 0}\n",
          "2{\"file_name\": [\"a\"], \"label\": {}}\n",
          "0file_name,file_name\n,\n\"",
          "0file_name,label,x\na,b,nan\na,b,1e999\n"};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  TableFormat format;
  format.kind = data[0] % 3 == 0   ? TableFormat::Kind::csv
                : data[0] % 3 == 1 ? TableFormat::Kind::tsv
                                   : TableFormat::Kind::json_lines;
  for (const bool numbers : {false, true}) {
    ListColumns columns{"file_name", {}, {}};
    if (numbers) {
      columns.numbers = {"x"};
    } else {
      columns.label = "label";
    }
    try {
      const FileList list = read_list(text, format, "list", columns, {});
      const std::size_t rows = list.lines.size();
      fuzz::require(rows > 0, "a list without rows is refused");
      fuzz::require(list.labels.size() == (numbers ? 0 : rows), "every row has a label");
      for (const std::int32_t label : list.labels) {
        fuzz::require(label >= 0 && static_cast<std::size_t>(label) < list.classes.size(), "labels are classes");
      }
      fuzz::require(list.numbers.size() == (numbers ? rows : 0), "every row has its numbers");
      for (const float number : list.numbers) fuzz::require(std::isfinite(number), "numbers are finite");
    } catch (const Error& error) {
      fuzz::require(error.kind() == ErrorKind::data, "what is wrong with a list is an error of the data");
    }
  }
  return 0;
}
