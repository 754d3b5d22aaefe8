#include "checkpoint/sent_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "files/crc64.h"
#include "files/scratch_folder.h"
#include "millrace/error.h"
#include "millrace/util/wire.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) fail(ErrorKind::run, "'{}' cannot be read: {}", path.string(), std::strerror(errno));
  return bytes;
}

std::string checksum_of(const Checkpoint& checkpoint) {
  Crc64 sum;
  const auto add = [&sum](const std::string& text) { sum.add(text.data(), text.size()); };
  add(to_json(checkpoint.state));
  add(checkpoint.pipeline);
  for (const NamedTensor& tensor : checkpoint.tensors) {
    add(tensor.name);
    sum.add(tensor.values.data(), tensor.values.size() * sizeof(float));
  }
  return sum.text();
}

std::vector<std::byte> packed(const Checkpoint& checkpoint) {
  const ScratchFolder scratch("checkpoint");
  write_checkpoint(scratch.path(), checkpoint);
  const fs::path folder = scratch.path() / checkpoint_names(scratch.path()).at(0);
  WireWriter writer;
  for (const auto& entry : fs::directory_iterator(folder)) {
    writer.put(std::string_view(entry.path().filename().native())).put(std::string_view(bytes_of_file(entry.path())));
  }
  return writer.bytes();
}

Checkpoint unpacked(const std::vector<std::byte>& bytes) {
  const ScratchFolder scratch("checkpoint");
  for (WireReader reader(bytes); !reader.is_done();) {
    const fs::path name = fs::path(reader.get<std::string>()).filename();  // so that nothing is written elsewhere
    const std::string content = reader.get<std::string>();
    std::ofstream file(scratch.path() / name, std::ios::binary);
    if (!file.write(content.data(), static_cast<std::streamsize>(content.size())).flush()) {
      fail(ErrorKind::storage, "the checkpoint of rank 0 cannot be kept in '{}': {}", scratch.path().string(),
           std::strerror(errno));
    }
  }
  return read_checkpoint(scratch.path());
}

}  // namespace

void send_where_missing(std::optional<Checkpoint>& checkpoint, Group& group) {
  const std::string mine = checkpoint ? checksum_of(*checkpoint) : std::string();
  const auto all = group.all_gather(Group::kRun, std::as_bytes(std::span(mine)));
  if (std::ranges::all_of(all, [&](const auto& each) { return each == all[0]; })) return;
  std::vector<std::byte> bytes;
  if (group.rank() == 0) bytes = packed(*checkpoint);
  group.broadcast(Group::kRun, 0, bytes);
  if (all[static_cast<std::size_t>(group.rank())] != all[0]) checkpoint = unpacked(bytes);
}

}  // namespace millrace
