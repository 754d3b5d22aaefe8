#include "send_samples.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "millrace/backend/network.h"
#include "millrace/error.h"

namespace millrace {

void SendSamples::describe(StageDescription<Params>& d) {
  d.name("send_samples").text("Sends images and outputs through a pipe.").input(payload::kPredictions).serial();
  d.params.add("layer", &Params::layer).text("layer of the outputs; default: the network's last");
  d.params.add("descriptor", &Params::descriptor).range(0, 1 << 20).text("pipe, open for writing");
}

namespace {

LayerPort port_of(const SendSamples::Params& params, const StageSite& site) {
  return find_output(site, "layer", params.layer.empty() ? site.network->layers.back().name : params.layer);
}

}  // namespace

void SendSamples::request(const Params& params, const StageSite& site, CompileRequest& request) {
  request.needs_image = true;
  request.read(port_of(params, site));
}

SendSamples::SendSamples(const Params& params, const DataContext& context) : params_(params), context_(context) {
  port_ = port_of(params, context);
}

void SendSamples::write(const Predictions& share) {
  if (context_.run->is_dry_run()) return;
  const Shape& shape = context_.network->shape_of(port_);
  const ImageShape& image = share.batch->window;
  if (!has_begun_) {
    has_begun_ = true;
    const std::string head = fmt::format("{{\"image\": [{}, {}, {}], \"output\": [{}]}}\n", image.height, image.width,
                                         image.channels, fmt::join(shape.begin(), shape.end(), ", "));
    send(head.data(), head.size());
  }
  std::vector<std::uint32_t> used;
  for (std::uint32_t i = 0; i < share.count; ++i) {
    if (share.samples[i].counts) used.push_back(i);
  }
  const auto add = [&](const void* data, std::size_t bytes) {
    const auto* const begin = static_cast<const std::uint8_t*>(data);
    frame_.insert(frame_.end(), begin, begin + bytes);
  };
  frame_.clear();
  const auto count = static_cast<std::uint32_t>(used.size());
  if (count > 0) {
    add(&count, sizeof count);
    for (const std::uint32_t i : used) add(&share.samples[i].label, sizeof(std::int32_t));
    std::vector<std::uint8_t> pixels(image.bytes());
    for (const std::uint32_t i : used) {
      share.copy_image(i, pixels.data());
      add(pixels.data(), pixels.size());
    }
    for (const std::uint32_t i : used) add(share.output(port_).row(i).data(), share.output(port_).row(i).size_bytes());
  }
  const std::uint32_t end = 0;
  if (share.last) add(&end, sizeof end);
  send(frame_.data(), frame_.size());
}

void SendSamples::send(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::write(static_cast<int>(params_.descriptor), at, bytes);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail(ErrorKind::run, "the program that compares results has ended: {}", std::strerror(errno));
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

}  // namespace millrace
