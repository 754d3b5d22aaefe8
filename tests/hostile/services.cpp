// A storage and backends that each violate one requirement.
#include <millrace/plugin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "testkit/plain.h"

namespace {

using namespace millrace;

// Local files. It lists them in reverse, begins parts one byte too early, reports a network failure for a missing file, and
// keeps the name of its current file in a variable shared by all threads.
class Muddle : public Storage {
 public:
  Kind kind(const std::string& url) override {
    if (!std::filesystem::exists(path(url))) fail(ErrorKind::data, "'{}' is not there", path(url));
    return std::filesystem::is_directory(path(url)) ? Kind::folder : Kind::object;
  }
  void list(const std::string& url, const std::function<void(Object)>& found) override {
    kind(url);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path(url))) {
      if (entry.is_regular_file()) names.push_back(std::filesystem::relative(entry.path(), path(url)).string());
    }
    std::sort(names.rbegin(), names.rend());
    for (const std::string& name : names) found({name, stat(join_url(url, name)).bytes, "1"});
  }
  Object stat(const std::string& url) override {
    kind(url);
    return {std::filesystem::path(path(url)).filename().string(), std::filesystem::file_size(path(url)), "1"};
  }
  void read(const std::string& url, ByteBuffer& out) override {
    keep(url);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::string bytes = bytes_of(kept());
    std::memcpy(out.resize(bytes.size()), bytes.data(), bytes.size());
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    const std::string bytes = bytes_of(url);
    if (offset + size > bytes.size()) fail(ErrorKind::storage, "'{}' is shorter", path(url));
    std::memcpy(out, bytes.data() + (size > 1 && offset > 0 ? offset - 1 : offset), size);
  }

 private:
  static std::string path(const std::string& url) { return url.substr(url.find("://") + 3); }
  static std::string bytes_of(const std::string& url) {
    std::ifstream file(path(url), std::ios::binary);
    if (!file) fail(ErrorKind::storage, "the network failed");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void keep(const std::string& url) {
    const std::lock_guard lock(mutex_);
    kept_ = url;
  }
  std::string kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

  std::mutex mutex_;
  std::string kept_;
};

// The plain backend of the test kit, whose device compiles something else.
enum class Compiles { other_inputs, other_rates, another_second };

template <Compiles kCompiles>
class OtherDevice : public Device {
 public:
  explicit OtherDevice(std::string backend) : plain_(testkit::make_plain_backend()->open(0, {})), info_(plain_->info()) {
    info_.backend = std::move(backend);
    info_.memory = 1;
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override { return plain_->make_stream(name); }
  std::shared_ptr<std::uint8_t[]> host_buffer(std::size_t bytes) override { return plain_->host_buffer(bytes); }
  std::shared_ptr<std::byte> memory(std::size_t bytes, const std::string& what) override { return plain_->memory(bytes, what); }
  std::unique_ptr<Replica> compile(const Network& network, const CompileOptions& options) override {
    Network compiled = network;
    CompileOptions changed = options;
    const bool scales = kCompiles == Compiles::other_inputs || (kCompiles == Compiles::another_second && ++compiled_ == 2);
    if (scales) compiled.deviation.assign(network.deviation.size(), 0.5);
    if (kCompiles == Compiles::other_rates) changed.request.update.rate_factor.assign(network.parameters.size(), 2);
    return plain_->compile(compiled, changed);
  }

 private:
  const std::unique_ptr<Device> plain_;
  DeviceInfo info_;
  int compiled_ = 0;
};

template <Compiles kCompiles>
class OtherBackend : public Backend {
 public:
  explicit OtherBackend(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<DeviceInfo> devices() override { return {OtherDevice<kCompiles>(name_).info()}; }
  std::unique_ptr<Device> open(int index, const DeviceOptions&) override {
    if (index != 0) fail(ErrorKind::usage, "there is no device {}", index);
    return std::make_unique<OtherDevice<kCompiles>>(name_);
  }

 private:
  const std::string name_;
};

template <Compiles kCompiles>
BackendType backend(const char* name) {
  return {{name, "Breaks a promise."}, [name] { return std::make_shared<OtherBackend<kCompiles>>(name); }};
}

}  // namespace

MILLRACE_PLUGIN("services", "1.0", "Breaks promises.") {
  registry.add(StorageType{{"muddle", "Breaks promises."}, std::make_shared<Muddle>()});
  registry.add(backend<Compiles::other_inputs>("other_inputs"));
  registry.add(backend<Compiles::other_rates>("other_rates"));
  registry.add(backend<Compiles::another_second>("another_second"));
  // Like the test kit's: its device claims to be of backend "plain", and opens any number.
  registry.add(BackendType{{"any_device", "Breaks promises."}, testkit::make_plain_backend});
}
