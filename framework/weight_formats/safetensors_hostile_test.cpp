#include <algorithm>

#include "weight_formats/hostile_fixture.h"
#include "weight_formats/safetensors.h"
#include "weight_formats/safetensors_fixture.h"

namespace millrace::safetensors_hostile_test {
namespace {

using namespace hostile;
using namespace safetensors_fixture;

Mutant with_lines(const std::vector<Line>& lines, Promise promise) {
  return {file_of(header_of(lines), small_values()), promise};
}

// The small file with another description of its first tensor, of which a part is written again.
Mutant with_part(const std::string& part, const std::string& instead) {
  std::string header = header_of(small_lines());
  header.replace(header.find(part), part.size(), instead);
  return {file_of(header, small_values()), Promise::refused};
}

Mutant flips_in_the_header(Draw& draw) {
  const std::string whole = small_file();
  return {flipped(draw, whole, 0, whole.size() - small_values().size()), Promise::sound};
}
Mutant cut(Draw& draw) {
  const std::string whole = small_file();
  return {whole.substr(0, below(draw, whole.size())), Promise::refused};
}
Mutant added_to(Draw& draw) { return {small_file() + std::string(1 + below(draw, 4096), '\0'), Promise::refused}; }
Mutant header_of_any_length(Draw& draw) {
  const std::uint64_t length = one_of<std::uint64_t>(draw, {std::uint64_t{1} << 63U, ~std::uint64_t{0}, ~std::uint64_t{0} - 7,
                                                            std::uint64_t{1} << 32U, 0x7fffffff, 100'000'000, 100'000'001, 0, 1});
  return {length_bytes(length) + small_file().substr(8), Promise::refused};
}
Mutant tensor_twice(Draw& draw) {
  std::vector<Line> lines = small_lines();
  lines.insert(lines.begin() + draw.integer(0, 4), lines[below(draw, 4)]);
  return {file_of(header_of(lines), small_values()), Promise::refused, "twice"};
}
Mutant tensors_that_overlap(Draw& draw) {
  std::vector<Line> lines = small_lines();
  Line& line = lines[1 + below(draw, 3)];
  const auto back = static_cast<std::uint64_t>(draw.integer(1, static_cast<std::int64_t>(line.begin)));
  line.begin -= back;
  line.end -= back;
  return with_lines(lines, Promise::refused);
}
Mutant tensors_with_a_gap(Draw& draw) {
  std::vector<Line> lines = small_lines();
  const auto gap = one_of<std::uint64_t>(draw, {1, 4, 8, 1000, 0x7fffffff, 0xffffffff, INT64_MAX});
  Line& line = lines[below(draw, 4)];
  line.begin += gap;
  line.end += gap;
  return with_lines(lines, Promise::refused);
}
Mutant hostile_shape(Draw& draw) {
  std::vector<Line> lines = small_lines();
  lines[0].shape = one_of<std::string>(
      draw, {"[2,4]", "[-2,3]", "[2.0,3]", "[6e0]", "[18446744073709551615]", "[18446744073709551616]", "[9223372036854775808,2]",
             "[0,9223372036854775807,9223372036854775807]", "[4294967296,4294967296,4294967296]", "[4611686018427387910]",
             "[1,1,1,1,1,1,6]", "\"6\"", "null", "[null]", "[[6]]", "[\"6\"]", "{}", "[true,6]",
             fmt::format("[{}]", std::string(5000, '6'))});
  return with_lines(lines, Promise::refused);
}
Mutant hostile_offsets(Draw& draw) {
  return with_part("[0,24]",
                   one_of<std::string>(draw, {"[24,0]", "[0]", "[0,24,0]", "[-0,24]", "[0.0,24]", "[0,1e400]", "[0,2.4e1]",
                                              "[0,18446744073709551616]", "[18446744073709551592,18446744073709551615]", "null",
                                              "24", "[[0],[24]]"}));
}
Mutant hostile_type(Draw& draw) {
  return with_part("\"F32\"", one_of<std::string>(draw, {"\"F64\"", "\"F12\"", "\"f32\"", "\"\"", "\"I8\"", "32", "null",
                                                         "[\"F32\"]", fmt::format("\"\\u001b[2J{}\"", std::string(3000, 'F'))}));
}
Mutant hostile_metadata(Draw& draw) {
  return with_part("{\"epoch\":\"3\"}", one_of<std::string>(draw, {"3", "[]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":null}",
                                                                   "{\"a\":\"1\",\"a\":\"2\"}", "\"text\""}));
}
Mutant nested_deeply(Draw& draw) {
  const std::size_t depth = 1 + below(draw, 50'000);
  const bool lists = draw.chance(0.5);
  std::string nest;
  for (std::size_t i = 0; i < depth; ++i) nest += lists ? "[" : "{\"a\":";
  nest += lists ? "" : "1";
  nest += std::string(depth, lists ? ']' : '}');
  return with_part("\"__metadata__\":", "\"x\":" + nest + ",\"__metadata__\":");
}
Mutant many_values(Draw& draw) {
  std::string list = "[0";
  for (std::size_t i = 2000 + below(draw, 20'000); i > 0; --i) list += ",0";
  return with_part("[2,3]", list + "]");
}
Mutant bytes_that_are_no_text(Draw& draw) {
  std::string header = header_of(small_lines());
  header.insert(below(draw, header.size() + 1), 1, one_of<char>(draw, {'\0', '\x01', '\x7f', '\x80', '\xc0', '\xff'}));
  return {file_of(header, small_values()), Promise::sound};
}
Mutant written_differently(Draw& draw) {
  std::vector<Line> lines = small_lines();
  for (std::size_t i = lines.size(); i > 1; --i) std::swap(lines[i - 1], lines[below(draw, i)]);
  std::string header = header_of(lines);
  for (std::size_t at = header.find(':'); at != std::string::npos; at = header.find(':', at + 1)) {
    if (draw.chance(0.5)) header.insert(at, one_of<std::string>(draw, {" ", "\n", "\t ", "    "}));
    at = header.find(':', at);
  }
  return {file_of(header + std::string(below(draw, 64), ' '), small_values()), Promise::same};
}

TEST(SafetensorsMutants, AreRefusedByNameOrReadToTheSameValues) {
  constexpr Make kKinds[] = {flips_in_the_header,
                             cut,
                             added_to,
                             header_of_any_length,
                             tensor_twice,
                             tensors_that_overlap,
                             tensors_with_a_gap,
                             hostile_shape,
                             hostile_offsets,
                             hostile_type,
                             hostile_metadata,
                             nested_deeply,
                             many_values,
                             bytes_that_are_no_text,
                             written_differently};
  look_at_mutants(Judge("mutant.safetensors", read_safetensors, small_file()), kKinds);
}

}  // namespace
}  // namespace millrace::safetensors_hostile_test
