// Reading, decoding and batching JPEG files by the graph, compared with bare libjpeg-turbo on the same files with the same number
// of threads. Both alternate in one run, so that other load disturbs both alike. Files come from the page cache (the uncounted
// first pass loads them).
//
//   ninja -C build decode_bench && build/bin/decode_bench FOLDER [threads [pairs [batch]]] [--crop SIZE]
//
// FOLDER contains class folders, as for read_folder; all files must have one size. With --crop the graph decodes a random resized
// crop of each file, to SIZE x SIZE; bare libjpeg-turbo still decodes the whole file. The last line reports what it could save by
// such crops, alternating image by image, without resampling.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
// jpeglib.h needs FILE and size_t before it
#include <jpeglib.h>

#include "common/arguments.h"
#include "graph/graph.h"
#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "prepare/graph_build.h"

namespace {

using namespace millrace;

struct Time {
  double wall = 0, processor = 0;  // seconds; processor: sum over all threads
};

Time now() {
  const auto read = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return {read(CLOCK_MONOTONIC), read(CLOCK_PROCESS_CPUTIME_ID)};
}

struct Speed {
  double rate = 0;   // images per second
  double price = 0;  // microseconds of processor time per image: steadier on a busy machine
};

Speed speed_since(const Time& start, std::uint64_t images) {
  const Time end = now();
  const auto count = static_cast<double>(images);
  return {count / (end.wall - start.wall), 1e6 * (end.processor - start.processor) / count};
}

std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".jpg") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(ErrorKind::data, "no .jpg file below '{}'", folder);
  return files;
}

// One thread's reading and decoding in the plainest form: no checks, and only libjpeg's error handling, which exits.
class BareDecoder {
 public:
  BareDecoder() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~BareDecoder() { jpeg_destroy_decompress(&info_); }
  BareDecoder(const BareDecoder&) = delete;
  BareDecoder& operator=(const BareDecoder&) = delete;

  Size decode(const std::string& path) {
    start(path);
    read_rows(info_.output_height);
    jpeg_finish_decompress(&info_);
    return {static_cast<std::int64_t>(info_.output_height), static_cast<std::int64_t>(info_.output_width)};
  }

  // Decodes only the crop's pixels; draws like random_resized_crop.
  void decode_crop(const std::string& path, Draw& draw) {
    start(path);
    const double height = info_.output_height, width = info_.output_width;
    double h = height, w = width;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = height * width * (0.08 + 0.92 * draw.uniform());
      const double aspect = std::exp((2 * draw.uniform() - 1) * std::log(4.0 / 3));
      const double new_h = std::nearbyint(std::sqrt(area / aspect)), new_w = std::nearbyint(std::sqrt(area * aspect));
      if (new_h > height || new_w > width) continue;
      h = new_h;
      w = new_w;
      break;
    }
    const auto top = static_cast<JDIMENSION>(draw.uniform() * (height - h + 1));
    auto left = static_cast<JDIMENSION>(draw.uniform() * (width - w + 1)), columns = static_cast<JDIMENSION>(w);
    if (columns < info_.output_width) jpeg_crop_scanline(&info_, &left, &columns);
    if (top > 0) jpeg_skip_scanlines(&info_, top);
    read_rows(top + static_cast<JDIMENSION>(h));
    jpeg_abort_decompress(&info_);
  }

 private:
  void start(const std::string& path) {
    read(path);
    jpeg_mem_src(&info_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
  }
  void read_rows(JDIMENSION end) {
    const std::size_t stride = std::size_t{3} * info_.output_width;
    const JDIMENSION begin = info_.output_scanline;
    if (pixels_.size() < stride * (end - begin)) pixels_.resize(stride * (end - begin));
    JSAMPROW rows[16];
    while (info_.output_scanline < end) {
      const JDIMENSION count = std::min<JDIMENSION>(16, end - info_.output_scanline);
      for (JDIMENSION i = 0; i < count; ++i) rows[i] = pixels_.data() + (info_.output_scanline - begin + i) * stride;
      jpeg_read_scanlines(&info_, rows, count);
    }
  }
  void read(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) fail(ErrorKind::storage, "cannot open '{}'", path);
    bytes_.resize(static_cast<std::size_t>(status.st_size));
    const ssize_t got = ::read(file, bytes_.data(), bytes_.size());
    close(file);
    if (got != static_cast<ssize_t>(bytes_.size())) fail(ErrorKind::storage, "cannot read '{}'", path);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::vector<std::uint8_t> bytes_, pixels_;
};

Speed bare(const std::vector<std::string>& files, int threads) {
  constexpr std::size_t kAtOnce = 16;
  std::atomic<std::size_t> next = 0;
  const Time start = now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      BareDecoder decoder;
      for (std::size_t begin = next.fetch_add(kAtOnce); begin < files.size(); begin = next.fetch_add(kAtOnce)) {
        for (std::size_t i = begin; i < std::min(begin + kAtOnce, files.size()); ++i) decoder.decode(files[i]);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return speed_since(start, files.size());
}

// What bare libjpeg-turbo saves by decoding only crops: processor time of whole images over that of crops, on one thread.
double bare_crop_ratio(const std::vector<std::string>& files) {
  BareDecoder decoder;
  Draw draw(1, {}, 0);
  double whole = 0, crops = 0;
  for (const std::string& file : files) {
    const Time start = now();
    decoder.decode(file);
    const Time middle = now();
    decoder.decode_crop(file, draw);
    whole += middle.processor - start.processor;
    crops += now().processor - middle.processor;
  }
  return whole / crops;
}

// read_folder -> decode_image -> batch; finished batches return at once.
class DataGraph {
 public:
  DataGraph(const std::string& folder, const Size& size, bool crop, std::int64_t batch_size, int threads)
      : workers_(threads, threads) {
    load_all_plugins(registry_);
    Value read, decode, batch;
    read.set("path", Value(folder));
    decode.set("size", Value(Array{Value(size.height), Value(size.width)}));
    if (crop) {
      Value part;
      part.set("area", Value(Array{Value(0.08), Value(1.0)}));
      decode.set("random_resized_crop", part);
    }
    batch.set("size", Value(batch_size));
    batch.set("last", Value(std::string("keep")));
    plan_.name = "bench";
    add("read_folder", read);
    add("decode_image", decode);
    add("batch", batch);
    plan_.edges = {{0, 0, 1, 0}, {1, 0, 2, 0}};
    StepContext context;
    context.registry = &registry_;
    build_ = std::make_unique<GraphBuild>(plan_, context);
    GraphOptions options;
    options.samples_per_epoch = build_->data().samples_per_epoch;
    options.steps_per_epoch = build_->data().steps_per_epoch();
    options.image = options.window = build_->data().image;
    build_->open_stages();
    graph_ = std::make_unique<Graph>(plan_, build_->stages(), options, workers_);
  }

  Speed epoch() {
    const Time start = now();
    graph_->start(step_, step_ + build_->data().steps_per_epoch());
    graph_->wait();
    step_ += build_->data().steps_per_epoch();
    return speed_since(start, build_->data().samples_per_epoch);
  }

 private:
  void add(const std::string& name, const Value& table) {
    const StageType* type = registry_.stages().find(name);
    if (type == nullptr) fail(ErrorKind::usage, "the plugin '{}' is not built", name);
    plan_.stages.push_back({name, type, table, {}, {}});
  }

  Registry registry_;
  GraphPlan plan_;
  Workers workers_;
  std::unique_ptr<GraphBuild> build_;
  std::unique_ptr<Graph> graph_;
  std::uint64_t step_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int count, char** arguments) {
  int crop = 0;
  if (count > 3 && std::string_view(arguments[count - 2]) == "--crop") {
    crop = std::max(1, std::atoi(arguments[count - 1]));
    count -= 2;
  }
  if (count < 2) fail(ErrorKind::usage, "usage: decode_bench FOLDER [threads [pairs [batch]]] [--crop SIZE]");
  const int threads = count > 2 ? std::max(1, std::atoi(arguments[2])) : static_cast<int>(std::thread::hardware_concurrency());
  const int pairs = count > 3 ? std::max(1, std::atoi(arguments[3])) : 5;
  const std::int64_t batch = count > 4 ? std::max(1, std::atoi(arguments[4])) : 256;
  const std::vector<std::string> files = list_files(arguments[1]);
  const Size size = BareDecoder().decode(files.front());
  DataGraph graph(arguments[1], crop > 0 ? Size{crop, crop} : size, crop > 0, batch, threads);
  fmt::print("{} files of {} x {}, {} threads\n{:>10} {:>10} {:>7} {:>10} {:>10} {:>7}\n", files.size(), size.height, size.width,
             threads, "bare/s", "graph/s", "ratio", "bare cpu", "graph cpu", "ratio");
  bare(files, threads);
  graph.epoch();
  std::vector<double> rates, prices;
  for (int pair = 0; pair < pairs; ++pair) {
    const Speed alone = bare(files, threads), ours = graph.epoch();
    rates.push_back(ours.rate / alone.rate);
    prices.push_back(alone.price / ours.price);
    fmt::print("{:10.0f} {:10.0f} {:7.3f} {:8.1f}us {:8.1f}us {:7.3f}\n", alone.rate, ours.rate, rates.back(), alone.price,
               ours.price, prices.back());
  }
  fmt::print("median ratio {:.3f}, by processor time {:.3f}\n", median(rates), median(prices));
  if (crop == 0) return 0;
  std::vector<double> ratios;
  for (int round = 0; round < std::max(5, pairs); ++round) ratios.push_back(bare_crop_ratio(files));
  fmt::print("bare crops, not resampled: {:.3f} by processor time\n", median(ratios));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return millrace::run_tool("decode_bench", [&] { return run(count, arguments); });
}
