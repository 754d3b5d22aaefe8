#include "weight_formats/hostile_fixture.h"
#include "weight_formats/torch_file.h"
#include "weight_formats/torch_file_fixture.h"

namespace millrace::torch_stream_hostile_test {
namespace {

using namespace hostile;
using namespace torch_fixture;

std::string whole() { return small_old_state_dict(); }
std::string with(const std::string& value) { return stream(value, small_old_storages()); }
std::size_t begin_of_values() { return whole().size() - 8 - 32 - 8 - 8; }

Mutant flips(Draw& draw) { return {flipped(draw, whole(), 0, whole().size()), Promise::sound}; }
Mutant flips_in_the_pickles(Draw& draw) { return {flipped(draw, whole(), 0, begin_of_values()), Promise::sound}; }
Mutant flips_in_counts(Draw& draw) {
  const std::size_t count = begin_of_values() + (draw.chance(0.5) ? 16 : 0);
  std::string bytes = whole();
  char& byte = bytes[count + below(draw, 8)];
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ static_cast<unsigned char>(draw.integer(1, 255)));
  return {bytes, Promise::refused, "it was changed"};
}
Mutant cut(Draw& draw) { return {whole().substr(0, below(draw, whole().size())), Promise::refused}; }
Mutant added_to(Draw& draw) {
  const std::string more(1 + below(draw, 70'000), 'P');
  return {whole() + more, Promise::refused, "it was added to"};
}
Mutant in_another_order(Draw& draw) {
  std::vector<Stored> storages = small_old_storages();
  if (draw.chance(0.5)) std::swap(storages[0], storages[1]);
  return {stream(ordered_dict(small_old_items()), storages), Promise::same};
}
Mutant other_storages(Draw& draw) {
  std::vector<Stored> storages = small_old_storages();
  Stored& one = storages[below(draw, 2)];
  switch (below(draw, 4)) {
    case 0: one.key += "1"; break;
    case 1: storages.push_back(one); break;
    case 2: one.bytes.resize(one.bytes.size() - 1); break;
    default: storages.erase(storages.begin() + 1);  // of the values; the first one is not needed
  }
  return {stream(ordered_dict(small_old_items()), storages), Promise::refused};
}
Mutant large_storage(Draw& draw) {  // the pickle and the file agree on its size
  const auto elements = one_of<std::int64_t>(
      draw, {9, 1 << 20, std::int64_t{1} << 40U, std::int64_t{1} << 61U, std::int64_t{1} << 62U, INT64_MAX, INT64_MAX / 4 + 1});
  const std::string value = tensor(old_storage("FloatStorage", "1", elements), 0, {elements}, {1});
  return {stream(ordered_dict({{"w", value}}), {{"1", bytes_of<float>({1, 2, 3}), static_cast<std::uint64_t>(elements)}}),
          Promise::refused, "does not fit the 12 bytes"};
}
Mutant other_machine(Draw& draw) {
  const std::string rest = pickle(ordered_dict(small_old_items())) + stored(small_old_storages());
  const std::string value = one_of<std::string>(draw, {"N", "\x89", text("x"), "}", integer(1002)});
  return {(draw.chance(0.5) ? stream_head(value) : stream_head(integer(1001), value)) + rest, Promise::refused};
}
Mutant nested_pickle(Draw& draw) {
  const std::size_t depth = 1 + below(draw, 20'000);
  return {with(one_of<std::string>(
              draw, {std::string(depth, '(') + std::string(depth, 't'), std::string(depth, ']') + std::string(depth - 1, 'a'),
                     std::string(depth, '('), std::string(depth, 'N') + std::string(depth, '\x85')})),
          Promise::refused};
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
  std::vector<Item> all = small_old_items();
  all.insert(all.begin() + draw.integer(0, 3), {"x", found + tuple({text("true")}) + "R"});
  return {with(ordered_dict(all)), Promise::refused, "would run " + module + "." + name + ": refused"};
}
Mutant foreign_function_elsewhere(Draw& draw) {
  const std::string call = function("os", "system") + tuple({text("true")}) + "R";
  const std::string state = pickle(ordered_dict(small_old_items())), values = stored(small_old_storages());
  const std::string bytes =
      one_of<std::string>(draw, {stream_head(call) + state + values, stream_head(integer(1001), call) + state + values,
                                 stream_head() + state + pickle(call) + values});
  return {bytes, Promise::refused, "would run os.system: refused"};
}
Mutant hostile_tensor(Draw& draw) {
  std::int64_t offset = 2, first = 0, elements = 8;
  std::vector<std::int64_t> size = {2, 3}, stride = {3, 1};
  const auto large =
      one_of<std::int64_t>(draw, {9, 1 << 20, std::int64_t{1} << 31U, std::int64_t{1} << 62U, INT64_MAX, -1, INT64_MIN});
  std::int64_t* const figures[] = {&offset, &size[0], &size[1], &stride[0], &stride[1], &first, &elements};
  *figures[below(draw, 7)] = large;
  if (draw.chance(0.3)) *figures[below(draw, 7)] = large;
  const std::string part = old_storage("FloatStorage", "94210", 8, tuple({text("1"), integer(first), integer(elements)}));
  std::vector<Item> all = small_old_items();
  all.push_back({"w", tensor(part, offset, size, stride)});
  return {with(ordered_dict(all)), Promise::refused, "tensor 'w': "};
}
Mutant many_views(Draw& draw) {  // of one storage, each of which is read by itself
  const std::string all_of_it = tensor(old_storage("FloatStorage", "94210", 8), 0, {8}, {1});
  std::string program = "}(";
  for (std::size_t i = 0, count = 500 + below(draw, 2000); i < count; ++i)
    program += text(std::to_string(i)) + (i == 0 ? all_of_it + "q\1" : "h\1");
  return {stream(program + "u", {small_old_storages()[1]}), Promise::sound};
}
Mutant many_tables(Draw& draw) {  // each of which takes the same long list
  std::string program = "](";
  for (int i = 0; i < 3000; ++i) program += "](NNe";
  program += "eq\1" + std::string("0](");
  for (std::size_t i = 0, count = 300 + below(draw, 20'000); i < count; ++i)
    program += function("collections", "OrderedDict") + "(h\1tR";
  return {with(program + "e"), Promise::refused, "more than 1000000 values"};
}

TEST(TorchStreamMutants, AreRefusedByNameOrReadToTheSameValues) {
  constexpr Make kKinds[] = {flips,          flips_in_the_pickles, flips_in_counts,  cut,
                             added_to,       in_another_order,     other_storages,   large_storage,
                             other_machine,  nested_pickle,        foreign_function, foreign_function_elsewhere,
                             hostile_tensor, many_views,           many_tables};
  look_at_mutants(Judge(
                      "old_mutant.pth", [](const std::string& path) { return read_torch_file(path); }, whole()),
                  kKinds);
}

}  // namespace
}  // namespace millrace::torch_stream_hostile_test
