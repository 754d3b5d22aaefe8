#include "drawn_data.h"

#include <fmt/format.h>

#include <fstream>

#include "tests/fuzz/tar_bytes.h"

namespace millrace::generator {

namespace {

namespace fs = std::filesystem;

constexpr int kEach = 5;  // images of a class, and of pairs
constexpr int kShards = 2;

void write(const fs::path& path, const void* bytes, std::size_t size) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}
void write(const fs::path& path, const std::string& text) { write(path, text.data(), text.size()); }
void write(const fs::path& path, const std::vector<std::uint8_t>& bytes) { write(path, bytes.data(), bytes.size()); }

// Lists and shards are written with their photos.
struct Listing {
  std::string csv = "file_name,label,x,y\n", tsv = "file_name\tlabel\tx\ty\n", jsonl;
  std::string shards[kShards];
  int count = 0;

  void add(const std::string& name, const std::string& label, std::size_t number, const ImageBytes& image, double x, double y) {
    csv += fmt::format("{},{},{},{}\n", name, label, x, y);
    tsv += fmt::format("{}\t{}\t{}\t{}\n", name, label, x, y);
    jsonl += fmt::format("{{\"file_name\": \"{}\", \"label\": \"{}\", \"x\": {}, \"y\": {}}}\n", name, label, x, y);
    const std::string key = fmt::format("{:08}", count);
    std::string& shard = shards[count++ * kShards / (kEach * static_cast<int>(DataSet::kClasses.size()))];
    shard += fuzz::tar_member(key + "." + image.extension, {image.bytes.begin(), image.bytes.end()});
    shard += fuzz::tar_member(key + ".cls", std::to_string(number));
    shard += fuzz::tar_member(key + ".json", fmt::format("{{\"label\": \"{}\", \"numbers\": [{}, {}]}}", label, x, y));
  }
};

void seal(std::string& shard) {
  shard += std::string(1024, '\0');
  fuzz::seal_headers(shard);
}

void write_photos(Draw& draw, const DataSet& data) {
  Listing listing;
  for (std::size_t number = 0; number < DataSet::kClasses.size(); ++number) {
    for (int i = 0; i < kEach; ++i) {
      const ImageBytes image = drawn_image(draw, data.one_size ? data.size : drawn_size(draw), data.one_size);
      const std::string& label = DataSet::kClasses[number];
      const std::string name = fmt::format("{}/{:02}.{}", label, i, image.extension);
      write(data.folder / "photos" / name, image.bytes);
      listing.add("photos/" + name, label, number, image, draw.uniform(), draw.uniform());
    }
  }
  write(data.folder / "list.csv", listing.csv);
  write(data.folder / "list.tsv", listing.tsv);
  write(data.folder / "list.jsonl", listing.jsonl);
  for (int i = 0; i < kShards; ++i) {
    seal(listing.shards[i]);
    write(data.folder / "shards" / fmt::format("photos-{}.tar", i), listing.shards[i]);
  }
  write(data.folder / "shards" / "classes.txt", "ant\nbee\ncow\n");
}

// Images with label images, and with larger target images; both also as shards.
void write_pairs(Draw& draw, const DataSet& data) {
  const int classes = static_cast<int>(DataSet::kClasses.size());
  std::string labels, targets;
  for (int i = 0; i < kEach; ++i) {
    ImageSize size = data.one_size ? data.size : drawn_size(draw);
    const ImageBytes image = drawn_image(draw, size, true);
    const std::vector<std::uint8_t> mask = drawn_labels(draw, size, classes);
    const std::string name = fmt::format("{:02}", i), content(image.bytes.begin(), image.bytes.end());
    write(data.folder / "pairs/images" / (name + "." + image.extension), image.bytes);
    write(data.folder / "pairs/labels" / (name + ".png"), mask);
    labels += fuzz::tar_member(name + "." + image.extension, content);
    labels += fuzz::tar_member(name + ".label.png", {mask.begin(), mask.end()});
    size.height *= data.scale;
    size.width *= data.scale;
    const ImageBytes target = drawn_image(draw, size, true);
    write(data.folder / "pairs/targets" / (name + "." + target.extension), target.bytes);
    targets += fuzz::tar_member(name + "." + image.extension, content);
    targets += fuzz::tar_member(name + ".target." + target.extension, {target.bytes.begin(), target.bytes.end()});
  }
  seal(labels);
  seal(targets);
  write(data.folder / "shards_of_labels/0.tar", labels);
  write(data.folder / "shards_of_labels/classes.txt", "ant\nbee\ncow\n");
  write(data.folder / "shards_of_targets/0.tar", targets);
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

void write_pixels(Draw& draw, const DataSet& data) {
  constexpr int kCount = 12, kSide = 14;
  const auto noise = [&](int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(draw.bits()));
    return bytes;
  };
  for (const char* set : {"train", "t10k"}) {
    std::string labels = big_endian(0x801) + big_endian(kCount), records;
    for (int i = 0; i < kCount; ++i) {
      labels.push_back(static_cast<char>(i % 3));
      records += static_cast<char>(i % 3) + noise(3 * 32 * 32);
    }
    const std::string images = big_endian(0x803) + big_endian(kCount) + big_endian(kSide) + big_endian(kSide);
    write(data.folder / "idx" / fmt::format("{}-images-idx3-ubyte", set), images + noise(kCount * kSide * kSide));
    write(data.folder / "idx" / fmt::format("{}-labels-idx1-ubyte", set), labels);
    write(data.folder / "cifar" / (set[1] == 'r' ? "data_batch_1.bin" : "test_batch.bin"), records);
  }
}

}  // namespace

DataSet drawn_data(Draw& draw, const fs::path& folder) {
  DataSet data;
  data.folder = folder;
  data.scale = static_cast<int>(draw.integer(1, 3));
  data.one_size = draw.chance(0.5);
  data.size = {static_cast<int>(draw.integer(6, 40)), static_cast<int>(draw.integer(6, 40))};
  write_photos(draw, data);
  write_pairs(draw, data);
  write_pixels(draw, data);
  return data;
}

}  // namespace millrace::generator
