// State dicts of PyTorch: the archive or the stream, the pickles in it and the tensors.
#include <unistd.h>

#include <cstdio>

#include "fuzz.h"
#include "millrace/error.h"
#include "weights/torch_file.h"
#include "weights/torch_file_fixture.h"

namespace millrace::fuzz {

namespace {

using namespace torch_fixture;

// In memory, not on a disk.
std::string file_name() { return "/dev/shm/millrace_fuzz_" + std::to_string(getpid()) + ".pth"; }

std::string archive(const std::string& value, bool large) {
  return zip(entries_of(pickle(value), {{"0", bytes_of<double>({1, 2, 3, 4})}}), large);
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string values = storage("DoubleStorage", "0", 4);
  std::string views = "}(";  // many of one storage, each read separately
  for (int i = 0; i < 500; ++i) views += text(std::to_string(i)) + (i == 0 ? tensor(values, 0, {4}, {1}) + "q\1" : "h\1");
  views += "u";
  const std::string part = old_storage("DoubleStorage", "7", 4, tuple({text("8"), integer(1), integer(3)}));
  return {
      small_state_dict(),
      small_old_state_dict(),
      stream(ordered_dict({{"w", old_tensor(part, 1, {2}, {1})}}), {{"7", bytes_of<double>({1, 2, 3, 4}), 4}}),
      stream(function("posix", "system") + tuple({text("true")}) + "R", {}),
      archive(ordered_dict({{"model", ordered_dict({{"w", parameter(tensor(values, 1, {2, 2}, {0, 2}))}})}}), false),
      archive(ordered_dict({{"w", tensor(values, 0, {2, 2}, {1, 2})}, {"v", tensor(values, 3, {}, {})}}), true),
      zip({{"a/data.pkl", pickle(ordered_dict({{"w", tensor(values, 0, {4}, {1})}})), 0, kSizesFollow},
           {"a/data/0", bytes_of<double>({1, 2, 3, 4}), 0, kSizesFollow}}),
      archive(function("posix", "system") + tuple({text("true")}) + "R", false),
      archive(ordered_dict({{"ema", ordered_dict({{"module", ordered_dict({{"w", tensor(values, 0, {4}, {1})}})}})}}), false),
      archive(ordered_dict({{"w", tensor(values, 0, {4}, {1})}, {"s", "\x8f(K\1\x90"}}), false),
      archive(std::string(20'000, '}') + text("x"), false),
      zip({{"a/data.pkl", std::string("\x80\x04\x95\x08\0\0\0\0\0\0\0}\x94\x8c\x01wNs.", 20)}}),
      archive(std::string(20'000, '(') + std::string(20'000, 't'), false),
      archive(std::string(20'000, 'N') + std::string(20'000, '\x85'), true),
      archive(ordered_dict({{"w", tensor(storage("DoubleStorage", "0", INT64_MAX), INT64_MAX, {1 << 20, INT64_MAX}, {-1, 3})}}),
              false),
      archive(views, false),
      stream(ordered_dict({{"w", tensor(old_storage("FloatStorage", "1", INT64_MAX / 4 + 1), 0, {INT64_MAX / 4 + 1}, {1})}}),
             {{"1", bytes_of<float>({1, 2, 3}), UINT64_MAX / 8 + 1}}),
      zip({{"a/data.pkl", pickle(views)}, {"a/data.pkl", pickle(views)}, {"b/data.pkl", pickle(views)}}, true)};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string path = fuzz::file_name();
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    if (size > 0) std::fwrite(data, 1, size, file);
    std::fclose(file);
  }
  try {
    std::size_t values = 0;
    for (const NamedTensor& tensor : read_torch_file(path).tensors) {
      fuzz::require(tensor.values.size() == static_cast<std::size_t>(tensor.shape.elements()), "a tensor has all its values");
      values += tensor.values.size();
    }
    fuzz::require(values <= 4 * size, "tensors take no more memory than their file is worth");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::data, "what is wrong with a file is an error of data");
    fuzz::require(std::string(error.what()).find(path) != std::string::npos, "the file is named");
  }
  std::remove(path.c_str());
  return 0;
}
