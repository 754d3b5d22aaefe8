#include <cassert>

#include "base/json.h"
#include "millrace/output_file.h"
#include "network/safetensors.h"

namespace millrace {
namespace {

std::string header_text(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    assert(tensor.name != "__metadata__" && !header.contains(tensor.name));
    assert(static_cast<std::int64_t>(tensor.values.size()) == tensor.shape.elements());
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the values then begin at a multiple of eight
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  OutputFile file(path);
  write_safetensors([&](const void* data, std::size_t bytes) { file.write(data, bytes); }, tensors, metadata);
  file.commit();
}

void write_safetensors(const TakeBytes& take, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  take(&length, sizeof length);
  take(header.data(), header.size());
  for (const NamedTensor& tensor : tensors) take(tensor.values.data(), tensor.values.size() * sizeof(float));
}

}  // namespace millrace
