// The reader of CIFAR's files.
#include "memory_storage.h"
#include "read_cifar.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  const std::string names = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  std::vector<std::string> all;
  for (const int kind : {0, 1, 2, 3, 4, 7}) {
    all.push_back(std::string{static_cast<char>(kind), static_cast<char>(names.size())} + names + "\3\5");
    all.push_back(std::string{static_cast<char>(kind), 0} + std::string(3073, '\2') + "\5");
  }
  return all;
}

}  // namespace millrace::fuzz

// Byte 0: bit 0 the data set, bit 1 coarse labels, bit 2 whether the last record is padded. Byte 1: the length of the names.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static fuzz::Bench bench;
  if (size < 2) return 0;
  const bool hundred = (data[0] & 1U) != 0, coarse = (data[0] & 2U) != 0, filled = (data[0] & 4U) == 0;
  const std::size_t names = std::min<std::size_t>(data[1], size - 2);
  std::string records(data + 2 + names, data + size);
  const std::size_t record = hundred ? 3074 : 3073;
  if (filled) records.resize((records.size() + record - 1) / record * record, '\1');
  bench.storage->objects.clear();
  bench.storage->objects[hundred ? coarse ? "coarse_label_names.txt" : "fine_label_names.txt" : "batches.meta.txt"].assign(
      data + 2, data + 2 + names);
  bench.storage->objects[hundred ? "train.bin" : "data_batch_1.bin"] = std::move(records);
  ReadCifar::Params params;
  params.path = "in";
  params.labels = coarse ? "coarse" : "fine";
  ReadCifar source(params, bench.context);
  fuzz::read_all(source);
  return 0;
}
