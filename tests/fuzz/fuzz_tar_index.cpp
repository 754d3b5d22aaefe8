// An index file, as written by an attacker who knows its checksum.
#include <cstring>

#include "fuzz.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "tar_index.h"

namespace millrace::fuzz {

namespace {

constexpr std::size_t kChecksum = 8, kKey = 16, kAfterKey = 40;
const IndexKey kOurs{100'000, 1, 2};

std::string file(int samples, bool targets, int numbers) {
  IndexWriter writer;
  for (int i = 0; i < samples; ++i) {
    IndexWriter::Sample sample;
    sample.name = std::to_string(i) + ".jpg";
    sample.image = {512U * static_cast<unsigned>(i + 1), 100};
    sample.target = {1024, 7};
    sample.label.kind = i % 2 == 0 ? Label::Kind::number : Label::Kind::name;
    sample.label.number = i;
    sample.label.name = "class " + std::to_string(i % 3);
    sample.numbers.assign(static_cast<std::size_t>(numbers), 1.5F);
    writer.add(sample);
  }
  const TarIndex index = std::move(writer).finish(kOurs, targets);
  return {index.bytes().begin(), index.bytes().end()};
}

}  // namespace

std::vector<std::string> seeds() {
  return {file(0, false, 0), file(1, false, 0), file(5, true, 0), file(4, false, 3), file(6, true, 2)};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  std::vector<std::uint8_t> bytes(data, data + size);
  if (size >= fuzz::kAfterKey) {
    std::memcpy(bytes.data() + fuzz::kKey, &fuzz::kOurs, sizeof(fuzz::kOurs));
    const std::uint64_t checksum = hash_bytes(bytes.data() + fuzz::kKey, size - fuzz::kKey);
    std::memcpy(bytes.data() + fuzz::kChecksum, &checksum, sizeof(checksum));
  }
  try {
    const TarIndex index(std::move(bytes), fuzz::kOurs);
    std::vector<float> numbers;
    std::size_t characters = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      for (const TarIndex::Member member : {index.image(i), index.target(i)}) {
        fuzz::require(member.offset + member.bytes <= fuzz::kOurs.shard_bytes, "members lie inside the shard");
      }
      for (const char c : index.name(i)) characters += c != 0 ? 1U : 0U;
      index.numbers(i, numbers);
      const std::int32_t label = index.label(i);
      const auto names = static_cast<std::int64_t>(index.class_names().size());
      fuzz::require(label >= TarIndex::kUnreadable || TarIndex::kFirstName - std::int64_t{label} < names,
                    "labels are numbers, or names there are");
    }
    fuzz::require(characters <= size, "names are part of the file");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::data, "what is wrong with an index is an error of the data");
  }
  return 0;
}
