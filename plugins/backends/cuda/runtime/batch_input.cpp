#include "batch_input.h"

#include <cstring>
#include <utility>
#include <vector>

namespace millrace::cuda {
namespace {

// (byte / 255 - mean) / deviation for every byte of every channel.
std::vector<float> pixel_values(const Network& network) {
  std::vector<float> values;
  for (std::size_t c = 0; c < network.mean.size(); ++c) {
    for (int byte = 0; byte < 256; ++byte) {
      values.push_back(static_cast<float>((byte / 255.0 - network.mean[c]) / network.deviation[c]));
    }
  }
  return values;
}

}  // namespace

BatchInput::BatchInput(Machine& machine, const Network& network, std::unique_ptr<Staging> staging, Queue& compute)
    : compute_(compute), staging_(std::move(staging)) {
  const std::vector<float> values = pixel_values(network);
  pixel_table_ = DeviceMemory(machine, values.size() * sizeof(float), "table of pixel values");
  const HostMemory host(machine, pixel_table_.bytes());
  machine.host_access(host.data(), host.bytes(), true);
  std::memcpy(host.data(), values.data(), host.bytes());
  compute_.copy_in(pixel_table_.data(), host.data(), host.bytes());
  compute_.mark()->wait();
}

void BatchInput::load(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
  staged_ = staging_->load(compute_, batch, begin, count);
}

void BatchInput::ingest(const Map& to, const View& view) {
  with_type(to.spec.type, [&]<class T>(T) {
    Ingest<T> kernel;
    kernel.pixels = staged_.pixels;
    kernel.records = staged_.records;
    kernel.index = staged_.image_of;
    kernel.table = pixel_table();
    kernel.out = to.as<T>();
    kernel.samples = staged_.images;
    kernel.count = staged_.count;
    kernel.image_height = staged_.image.height;
    kernel.image_width = staged_.image.width;
    kernel.channels = staged_.image.channels;
    kernel.window_height = staged_.window.height;
    kernel.window_width = staged_.window.width;
    kernel.dx = view.dx;
    kernel.dy = view.dy;
    kernel.flip_x = view.flip_x;
    kernel.border = view.border;
    compute_.run(kernel);
  });
}

}  // namespace millrace::cuda
