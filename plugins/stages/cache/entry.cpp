#include "entry.h"

#include <cstring>

namespace millrace {

namespace {

static_assert(sizeof(EntryHeader) == 152, "no padding: entries are compared and hashed as bytes");

EntryExtents extents(const ImageShape& shape) { return {shape.height, shape.width, shape.channels}; }
ImageShape shape_of(const EntryExtents& extents) { return {extents.height, extents.width, extents.channels}; }

EntryHeader header_of(const Sample& sample) {
  EntryHeader header{};
  header.index = sample.key.index;
  header.content = sample.content;
  header.offset = sample.offset;
  header.label = sample.label;
  header.url = static_cast<std::uint32_t>(sample.url.size());
  header.member = static_cast<std::uint32_t>(sample.member.size());
  header.target_url = static_cast<std::uint32_t>(sample.target_url.size());
  header.numbers = static_cast<std::uint32_t>(sample.numbers.size());
  header.pixels = sample.image().data != nullptr ? 1 : 0;
  if (header.pixels != 0) {
    const ImageShape image = sample.image().shape;
    const ImageShape target = sample.target().data != nullptr ? sample.target().shape : ImageShape{};
    header.image = extents(image);
    header.target = extents(target);
    header.source_map = sample.source_map();
    header.first_bytes = image.bytes();
    header.second_bytes = target.bytes();
  } else {
    header.image = extents(sample.decoded);
    header.first_bytes = sample.encoded.size();
    header.second_bytes = sample.encoded_target.size();
  }
  header.bytes = sizeof header + header.url + header.member + header.target_url + header.numbers * sizeof(float) +
                 header.first_bytes + header.second_bytes;
  return header;
}

bool is_whole(const EntryHeader& header, std::size_t bytes) {
  const std::uint64_t parts[] = {header.url,         header.member,      header.target_url, header.numbers * sizeof(float),
                                 header.first_bytes, header.second_bytes};
  std::uint64_t left = bytes;
  if (header.bytes != bytes || left < sizeof header) return false;
  left -= sizeof header;
  for (const std::uint64_t part : parts) {
    if (part > left) return false;
    left -= part;
  }
  if (left != 0 || header.pixels > 1) return false;
  const auto fits = [](const ImageShape& shape, std::uint64_t have) {
    return shape.height >= 0 && shape.width >= 0 && shape.channels >= 0 && shape.channels <= 4 && shape.bytes() == have;
  };
  const ImageShape image = shape_of(header.image), target = shape_of(header.target);
  return header.pixels == 0 || (image.is_static() && fits(image, header.first_bytes) && fits(target, header.second_bytes));
}

}  // namespace

std::size_t entry_bytes(const Sample& sample) { return header_of(sample).bytes; }

void write_entry(const Sample& sample, std::uint8_t* out) {
  const EntryHeader header = header_of(sample);
  const auto put = [&out](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(out, from, bytes);
    out += bytes;
  };
  put(&header, sizeof header);
  put(sample.url.data(), header.url);
  put(sample.member.data(), header.member);
  put(sample.target_url.data(), header.target_url);
  put(sample.numbers.data(), header.numbers * sizeof(float));
  put(header.pixels != 0 ? sample.image().data : sample.encoded.data(), header.first_bytes);
  put(header.pixels != 0 ? sample.target().data : sample.encoded_target.data(), header.second_bytes);
}

bool read_entry(std::span<const std::uint8_t> entry, Sample& sample) {
  EntryHeader header;
  if (entry.size() < sizeof header) return false;
  std::memcpy(&header, entry.data(), sizeof header);
  if (header.index != sample.key.index || !is_whole(header, entry.size())) return false;
  const std::uint8_t* at = entry.data() + sizeof header;
  const auto text = [&at](std::string& into, std::size_t size) {
    into.assign(reinterpret_cast<const char*>(at), size);
    at += size;
  };
  const auto bytes = [&at](std::uint8_t* into, std::size_t size) {
    if (size > 0) std::memcpy(into, at, size);
    at += size;
  };
  sample.content = header.content;
  sample.offset = header.offset;
  sample.label = header.label;
  text(sample.url, header.url);
  text(sample.member, header.member);
  text(sample.target_url, header.target_url);
  sample.numbers.resize(header.numbers);
  bytes(reinterpret_cast<std::uint8_t*>(sample.numbers.data()), header.numbers * sizeof(float));
  if (header.pixels == 0) {
    sample.decoded = shape_of(header.image);
    bytes(sample.encoded.resize(header.first_bytes), header.first_bytes);
    bytes(sample.encoded_target.resize(header.second_bytes), header.second_bytes);
    return true;
  }
  const Image image = sample.new_image(shape_of(header.image));
  bytes(image.data, header.first_bytes);
  sample.set_image(image, header.source_map);
  if (header.second_bytes > 0) {
    const Image target = sample.new_target(shape_of(header.target));
    bytes(target.data, header.second_bytes);
    sample.set_target(target);
  }
  return true;
}

}  // namespace millrace
