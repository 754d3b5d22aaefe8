#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>

#include "base/json.h"
#include "millrace/util/output_file.h"
#include "weight_formats/safetensors.h"

namespace millrace {
namespace {

std::string quoted(const std::string& text) { return Json(text).dump(); }

// Written as text directly: a Json of nested lists allocates on destruction, and failing to do so ends the process.
std::string header_text(const std::vector<ListedTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(quoted(key) + ":" + quoted(value));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  std::uint64_t offset = 0;
  for (const ListedTensor& tensor : tensors) {
    assert(tensor.name != "__metadata__" && tensor.type == "F32");
    const std::uint64_t end = offset + static_cast<std::uint64_t>(tensor.shape.elements()) * sizeof(float);
    members.push_back(fmt::format(R"({}:{{"dtype":{},"shape":[{}],"data_offsets":[{},{}]}})", quoted(tensor.name),
                                  quoted(tensor.type), fmt::join(tensor.shape.begin(), tensor.shape.end(), ","), offset, end));
    offset = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the values to eight bytes
  return text;
}

void write_header(const TakeBytes& take, const std::vector<ListedTensor>& tensors,
                  const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  take(&length, sizeof length);
  take(header.data(), header.size());
}

void write_values(const TakeBytes& take, [[maybe_unused]] const Shape& shape, const std::vector<float>& values) {
  assert(static_cast<std::int64_t>(values.size()) == shape.elements());
  take(values.data(), values.size() * sizeof(float));
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
  std::vector<ListedTensor> listed;
  for (const NamedTensor& tensor : tensors) listed.push_back({tensor.name, "F32", tensor.shape});
  write_header(take, listed, metadata);
  for (const NamedTensor& tensor : tensors) write_values(take, tensor.shape, tensor.values);
}

void write_safetensors(const std::string& path, const std::vector<ListedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata, const FetchValues& fetch) {
  OutputFile file(path);
  const TakeBytes take = [&](const void* data, std::size_t bytes) { file.write(data, bytes); };
  write_header(take, tensors, metadata);
  for (std::size_t t = 0; t < tensors.size(); ++t) write_values(take, tensors[t].shape, fetch(t));
  file.commit();
}

}  // namespace millrace
