// Small members that give an image's label.
#include <cmath>

#include "fuzz.h"
#include "label.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  return {"7",
          " 042\n",
          "tabby cat",
          R"({"class": 3})",
          R"({"class": "dog", "y": [1, -2.5e3]})",
          R"({"y": 1, "class": null, "z": {"a": [[], {}]}})",
          "[1, 2",
          "\xff\xfe{",
          R"({"class": "\u00e4\ud83d\ude00"})"};
}

namespace {

void check(const Label& label) {
  if (label.kind == Label::Kind::number) require(label.number >= 0 && label.number <= kLargestLabel, "labels have bounds");
  if (label.kind == Label::Kind::name)
    require(!label.name.empty() && label.name.size() <= kLongestClassName, "names of classes have bounds");
  require(label.kind != Label::Kind::name || label.name.find('\0') == std::string::npos, "names of classes are texts");
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::check(label_of_text({reinterpret_cast<const char*>(data), size}));
  fuzz::check(label_of_json({data, size}, "class"));
  for (const float number : numbers_of_json({data, size}, "y")) fuzz::require(std::isfinite(number), "numbers are finite");
  return 0;
}
