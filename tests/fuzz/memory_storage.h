// The scheme "file", as a few objects in memory below "in".
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "fuzz.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/storage.h"

namespace millrace::fuzz {

class MemoryStorage : public Storage {
 public:
  std::map<std::string, std::string> objects;

  void list(const std::string&, const std::function<void(Object)>& found) override {
    for (const auto& [name, bytes] : objects) found({name, bytes.size(), "1"});
  }
  Object stat(const std::string& url) override { return {url.substr(3), content(url).size(), "1"}; }
  void read(const std::string& url, ByteBuffer& out) override {
    const std::string& bytes = content(url);
    std::copy(bytes.begin(), bytes.end(), out.resize(bytes.size()));
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    const std::string& bytes = content(url);
    require(offset <= bytes.size() && size <= bytes.size() - offset, "what is read lies inside the object");
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, out);
  }

 private:
  const std::string& content(const std::string& url) {
    const auto found = objects.find(url.substr(3));
    if (found == objects.end()) fail(ErrorKind::data, "'{}' does not exist", url);
    return found->second;
  }
};

// A registry with this storage only, and a context for sources.
struct Bench {
  std::shared_ptr<MemoryStorage> storage = std::make_shared<MemoryStorage>();
  Registry registry;
  StepContext context;

  Bench() {
    registry.add(StorageType{{"file", "objects"}, storage});
    context.registry = &registry;
  }
};

// Opens the source and reads all of its samples; may throw errors of data and content.
inline void read_all(Source& source) {
  try {
    source.open();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::data, "what is wrong with a file is an error of the data");
    return;
  }
  Sample sample;
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    sample.reset({0, i, i, 0}, {});
    try {
      source.read(sample);
      require(sample.decoded.is_static() && sample.encoded.size() == sample.decoded.bytes(),
              "pixels have the shape that is said");
      require(sample.encoded.size() <= source.largest_encoded(), "no sample is larger than the largest");
      require(sample.label == source.label(i), "labels are known without reading");
      require(sample.label >= 0 && static_cast<std::size_t>(sample.label) < source.classes().size(), "labels are classes");
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::content, "what is wrong with a sample is an error of its content");
    }
  }
}

}  // namespace millrace::fuzz
