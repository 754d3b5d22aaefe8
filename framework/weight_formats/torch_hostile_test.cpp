#include "weight_formats/hostile_fixture.h"
#include "weight_formats/torch_file.h"
#include "weight_formats/torch_file_fixture.h"

namespace millrace::torch_hostile_test {
namespace {

using namespace hostile;
using namespace torch_fixture;

// What the mutants are made of: a matrix and a vector in one storage, and an integer that is not read.
std::vector<Item> items() {
  const std::string values = storage("FloatStorage", "0", 8);
  return {{"conv.weight", tensor(values, 0, {2, 3}, {3, 1})},
          {"conv.bias", tensor(values, 6, {2}, {1})},
          {"count", tensor(storage("LongStorage", "1", 1), 0, {}, {})}};
}
std::vector<ZipEntry> entries_with(const std::string& program) {
  return entries_of(program, {{"0", bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7})}, {"1", bytes_of<std::int64_t>({9})}});
}
std::vector<ZipEntry> entries() { return entries_with(pickle(ordered_dict(items()))); }
std::string whole() { return zip(entries()); }
std::size_t directory_of(const std::string& archive) { return archive.find("PK\1\2"); }

std::string with_bytes(std::string archive, std::size_t at, const std::string& bytes) {
  return archive.replace(at, bytes.size(), bytes);
}

// Where the entry of this number begins in the list of entries.
std::size_t listed(const std::string& archive, std::size_t number) {
  std::size_t at = directory_of(archive);
  for (; number > 0; --number) at = archive.find("PK\1\2", at + 4);
  return at;
}

Mutant flips(Draw& draw) { return {flipped(draw, whole(), 0, whole().size()), Promise::sound}; }
Mutant flips_in_the_list(Draw& draw) {
  return {flipped(draw, whole(), directory_of(whole()), whole().size()), Promise::same_or_refused};
}
Mutant flips_in_the_pickle(Draw& draw) {
  std::vector<ZipEntry> all = entries();
  all[0].content = flipped(draw, all[0].content, 0, all[0].content.size());
  return {zip(all), Promise::sound};
}
Mutant cut(Draw& draw) { return {whole().substr(0, below(draw, whole().size())), Promise::refused}; }
Mutant added_to(Draw& draw) {
  const std::string more(1 + below(draw, 70'000), 'P');
  return {draw.chance(0.5) ? whole() + more : more + whole(), Promise::refused};
}
Mutant large_figure(Draw& draw) {  // sizes, lengths of name, extra field and comment, offset
  const std::size_t field = one_of<std::size_t>(draw, {20, 24, 28, 30, 32, 42});
  const bool wide = field == 20 || field == 24 || field == 42;
  const std::string value =
      wide ? bytes_of<std::uint32_t>({one_of<std::uint32_t>(draw, {0xffffffff, 0x80000000, 0x7fffffff, 65536, 0})})
           : bytes_of<std::uint16_t>({one_of<std::uint16_t>(draw, {0xffff, 0x8000, 1000, 0})});
  const std::string archive = whole();
  return {with_bytes(archive, listed(archive, below(draw, 5)) + field, value), Promise::same_or_refused};
}
Mutant large_figure_of_zip64(Draw& draw) {
  const std::string archive = zip(entries(), /*large=*/true);
  const std::size_t record = archive.find("PK\6\6"), locator = archive.find("PK\6\7");
  const std::size_t at = one_of<std::size_t>(draw, {record + 24, record + 32, record + 40, record + 48, locator + 8});
  const auto value =
      one_of<std::uint64_t>(draw, {~std::uint64_t{0}, std::uint64_t{1} << 63U, std::uint64_t{1} << 32U, 1'000'000, 1});
  return {with_bytes(archive, at, bytes_of<std::uint64_t>({value})), Promise::same_or_refused};
}
Mutant wrong_count(Draw& draw) {
  const std::string archive = whole();
  const auto count = one_of<std::uint16_t>(draw, {0, 1, 4, 6, 0xffff});
  return {with_bytes(archive, archive.size() - 12, bytes_of<std::uint16_t>({count})), Promise::refused};
}
Mutant entry_twice(Draw& draw) {
  std::vector<ZipEntry> all = entries();
  all.push_back(all[below(draw, all.size())]);
  return {zip(all, draw.chance(0.5)), Promise::refused, "twice"};
}
Mutant two_pickles(Draw& draw) {
  std::vector<ZipEntry> all = entries();
  all.insert(all.begin() + draw.integer(0, 5), {std::string(1 + below(draw, 200), 'x') + "/data.pkl", all[0].content});
  return {zip(all), Promise::refused, "which one is meant"};
}
Mutant headers_of_others(Draw& draw) {  // the list says that an entry lies where another one does
  const std::string archive = whole();
  const std::size_t from = below(draw, 3), to = (from + 1 + below(draw, 2)) % 3;
  return {with_bytes(archive, listed(archive, to) + 42, archive.substr(listed(archive, from) + 42, 4)), Promise::refused};
}
Mutant zip64(Draw& draw) {
  std::vector<ZipEntry> all = entries();
  for (ZipEntry& entry : all) entry.flags = draw.chance(0.5) ? kSizesFollow : std::uint16_t{0};
  return {zip(all, draw.chance(0.5)), Promise::same};
}
Mutant other_methods(Draw& draw) {
  std::vector<ZipEntry> all = entries();
  ZipEntry& entry = all[below(draw, 3)];
  if (draw.chance(0.5))
    entry.method = static_cast<std::uint16_t>(draw.integer(1, 0xffff));
  else
    entry.flags = static_cast<std::uint16_t>(draw.integer(0, 0x7fff) * 2 + 1);
  return {zip(all), Promise::refused};
}
Mutant nested_pickle(Draw& draw) {
  const std::size_t depth = 1 + below(draw, 20'000);
  const std::string program = one_of<std::string>(
      draw, {std::string(depth, '(') + std::string(depth, 't'), std::string(depth, ']') + std::string(depth - 1, 'a'),
             "]q\1" + std::string(depth, '0'), std::string(depth, '('), std::string(depth, 'N') + std::string(depth, '\x85'),
             "}q\1" + text("x") + "h\1sh\1" + std::string(depth, '\x85')});
  return {zip(entries_with(pickle(program))), Promise::refused};
}
Mutant foreign_function(Draw& draw) {
  const auto& [module, name] = one_of<std::pair<std::string, std::string>>(draw, {{"os", "system"},
                                                                                  {"posix", "system"},
                                                                                  {"nt", "system"},
                                                                                  {"builtins", "eval"},
                                                                                  {"builtins", "exec"},
                                                                                  {"__builtin__", "apply"},
                                                                                  {"builtins", "getattr"},
                                                                                  {"subprocess", "Popen"},
                                                                                  {"shutil", "rmtree"},
                                                                                  {"torch.hub", "load"},
                                                                                  {"torch", "FloatStorage2"},
                                                                                  {"collections", "OrderedDict.update"}});
  const std::string found = draw.chance(0.5) ? function(module, name) : text(module) + text(name) + "\x93";
  std::vector<Item> all = items();
  all.insert(all.begin() + draw.integer(0, 3), {"x", found + tuple({text("true")}) + "R"});
  return {zip(entries_with(pickle(ordered_dict(all)))), Promise::refused, "would run " + module + "." + name + ": refused"};
}
Mutant hostile_tensor(Draw& draw) {
  std::int64_t elements = 8, offset = 2;
  std::vector<std::int64_t> size = {2, 3}, stride = {3, 1};
  const auto large =
      one_of<std::int64_t>(draw, {9, 1 << 20, std::int64_t{1} << 31U, std::int64_t{1} << 62U, INT64_MAX, -1, INT64_MIN});
  std::int64_t* const figures[] = {&elements, &offset, &size[0], &size[1], &stride[0], &stride[1]};
  *figures[below(draw, 6)] = large;
  if (draw.chance(0.3)) *figures[below(draw, 6)] = large;
  std::vector<Item> all = items();
  all.push_back({"w", tensor(storage("FloatStorage", "0", elements), offset, size, stride)});
  return {zip(entries_with(pickle(ordered_dict(all)))), Promise::refused, "tensor 'w': "};
}
Mutant many_views(Draw& draw) {  // of one storage, each of which is read by itself
  const std::string all_of_it = tensor(storage("FloatStorage", "0", 8), 0, {8}, {1});
  std::string program = "}(";
  for (std::size_t i = 0, count = 500 + below(draw, 2000); i < count; ++i)
    program += text(std::to_string(i)) + (i == 0 ? all_of_it + "q\1" : "h\1");
  return {zip(entries_with(pickle(program + "u"))), Promise::sound};
}

TEST(TorchMutants, AreRefusedByNameOrReadToTheSameValues) {
  constexpr Make kKinds[] = {flips,         flips_in_the_list, flips_in_the_pickle,   cut,
                             added_to,      large_figure,      large_figure_of_zip64, wrong_count,
                             entry_twice,   two_pickles,       headers_of_others,     zip64,
                             other_methods, nested_pickle,     foreign_function,      hostile_tensor,
                             many_views};
  look_at_mutants(Judge(
                      "mutant.pth", [](const std::string& path) { return read_torch_file(path); }, whole()),
                  kKinds);
}

}  // namespace
}  // namespace millrace::torch_hostile_test
