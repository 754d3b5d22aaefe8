#include "planted.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/storage.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// "slowdisk:///tmp/a" is the file /tmp/a.
class SlowStorage final : public Storage {
 public:
  explicit SlowStorage(std::chrono::milliseconds latency) : latency_(latency) {}

  void list(const std::string& url, const std::function<void(Object)>& found) override {
    std::vector<Object> objects;
    const fs::path root = path_of(url);
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) objects.push_back({fs::relative(entry.path(), root).string(), entry.file_size(), "1"});
    }
    std::ranges::sort(objects, {}, &Object::name);
    for (Object& object : objects) found(std::move(object));
  }
  Object stat(const std::string& url) override {
    const fs::path path = path_of(url);
    if (!fs::is_regular_file(path)) fail(ErrorKind::data, "'{}' is not there", url);
    return {path.filename().string(), fs::file_size(path), "1"};
  }
  void read(const std::string& url, ByteBuffer& out) override {
    const std::size_t size = stat(url).bytes;
    read(url, 0, size, out.resize(size));
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    std::this_thread::sleep_for(latency_);
    std::ifstream file(path_of(url), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(size));
    if (!file) fail(ErrorKind::storage, "'{}' is shorter", url);
  }
  std::unique_ptr<Writer> write(const std::string& url) override { return std::make_unique<SlowWriter>(path_of(url), latency_); }
  void remove(const std::string& url) override { fs::remove(path_of(url)); }
  bool is_empty(const std::string& url) override { return !fs::exists(path_of(url)) || fs::is_empty(path_of(url)); }

 private:
  class SlowWriter final : public Writer {
   public:
    SlowWriter(fs::path path, std::chrono::milliseconds latency) : path_(std::move(path)), latency_(latency) {}
    void write(const void* data, std::size_t bytes) override { bytes_.append(static_cast<const char*>(data), bytes); }
    void commit() override {
      std::this_thread::sleep_for(10 * latency_);
      fs::create_directories(path_.parent_path());
      std::ofstream(path_, std::ios::binary) << bytes_;
    }

   private:
    const fs::path path_;
    const std::chrono::milliseconds latency_;
    std::string bytes_;
  };

  static fs::path path_of(const std::string& url) { return url.substr(url.find("://") + 3); }
  const std::chrono::milliseconds latency_;
};

class Locked : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("locked").text("Holds a lock.").input(payload::kImageChunk).output(payload::kImageChunk);
  }
  Locked(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {
    const std::lock_guard lock(mutex_);
    std::this_thread::sleep_for(std::chrono::milliseconds(12));
  }

 private:
  std::mutex mutex_;
};

class OneByOne : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) {
    d.name("one_by_one").text("Takes one packet at a time.").input(payload::kImageChunk).output(payload::kImageChunk).serial();
  }
  OneByOne(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(12);
    while (std::chrono::steady_clock::now() < end) continue;
  }
};

// Sums over the replicas of one process.
class Throttled final : public Communicator {
 public:
  explicit Throttled(std::span<Device* const> devices) : stream_(devices[0]->make_stream("throttled")) {}
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override {
    std::vector<const float*> all;
    for (const auto& bucket : buckets) {
      stream_->wait(bucket->ready);
      all.push_back(bucket->data);
    }
    stream_->call([] { std::this_thread::sleep_for(std::chrono::milliseconds(40)); });
    stream_->sum(buckets[0]->data, all, buckets[0]->elements);
    for (const auto& bucket : buckets.subspan(1)) stream_->copy(bucket->data, buckets[0]->data, bucket->elements);
    for (const auto& bucket : buckets) bucket->ready = stream_->record();
  }

 private:
  std::unique_ptr<Stream> stream_;
};

}  // namespace

void add_planted(Registry& registry) {
  registry.add(
      StorageType{{"slowdisk", "Local files, each 10 ms."}, std::make_shared<SlowStorage>(std::chrono::milliseconds(10))});
  registry.add(
      StorageType{{"farstore", "Local files, each 30 ms."}, std::make_shared<SlowStorage>(std::chrono::milliseconds(30))});
  registry.add_stage<Locked>();
  registry.add_stage<OneByOne>();
  registry.add(CommunicatorType{{"throttled", "Sums that take their time."}, "", [](const auto& setting) {
                                  return std::make_unique<Throttled>(setting.devices);
                                }});
}

}  // namespace millrace::test
