// The reader of tar headers, and the code that gathers members into samples.
#include "fuzz.h"
#include "index_store.h"
#include "millrace/error.h"
#include "tar_bytes.h"

namespace millrace::fuzz {

std::vector<std::string> seeds() {
  const std::string end(1024, '\0');
  const std::string image = tar_member("a/1.jpg", "image"), label = tar_member("a/1.cls", "3");
  std::string base256 = tar_member("b.png", "1");
  std::memcpy(base256.data() + 124, "\x80\0\0\0\0\0\0\0\0\0\0\1", 12);
  std::string prefixed = tar_member("c.jpg", "1");
  std::memcpy(prefixed.data() + 345, "prefix", 6);
  return {
      image + label + end,
      label + image + tar_member("a/1.label.png", "target") + tar_member("b.jpg", "") + tar_member("b.cls", "dog") + end,
      tar_member("././@LongLink", std::string(300, 'n') + ".jpg", 'L') + image + tar_member("k", "link", 'K') +
          tar_member("d", "", '5') + end,
      tar_member("pax", "20 path=x/long.jpg\n10 size=2\n", 'x') + image + tar_member("g", "14 path=a.cls\n", 'g') + label + end,
      base256 + prefixed + end,
      tar_member("s.jpg", "", 'S'),
      tar_member("l.jpg", "", '1'),
      tar_member("j.jpg", "1") + tar_member("j.json", R"({"class": "dog", "y": [1, 2]})") + end,
      image + label + image + end,
      image.substr(0, 515)};
}

namespace {

void read(const std::string& archive, const IndexSettings& settings) {
  Window window(
      [&](std::uint64_t offset, std::size_t size, std::uint8_t* out) {
        require(offset <= archive.size() && size <= archive.size() - offset, "fetches lie inside the object");
        std::memcpy(out, archive.data() + offset, size);
      },
      archive.size());
  const IndexKey key = index_key(archive.size(), "version", settings);
  try {
    const TarIndex index = build_index(window, key, settings);
    const TarIndex again({index.bytes().begin(), index.bytes().end()}, key);
    require(again.size() == index.size(), "an index that is written can be read");
    for (std::size_t i = 0; i < again.size(); ++i) {
      for (const TarIndex::Member member : {again.image(i), again.target(i)}) {
        require(member.offset <= archive.size() && member.bytes <= archive.size() - member.offset,
                "members lie inside the shard");
      }
      require(!again.name(i).empty() && again.name(i) == index.name(i), "samples have names");
    }
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::data, "what is wrong with a shard is an error of the data");
  }
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string archive(data, data + size);
  millrace::fuzz::seal_headers(archive);
  millrace::fuzz::read(archive, {"", "", "label"});
  millrace::fuzz::read(archive, {"class", "y", ""});
  return 0;
}
