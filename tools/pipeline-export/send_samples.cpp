#include "send_samples.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/storage.h"
#include "millrace/util/paths.h"

namespace millrace {

void SendSamples::describe(StageDescription<Params>& d) {
  d.name("send_samples").text("Sends images and outputs through a pipe.").input(payload::kPredictions).serial();
  d.params.add("layer", &Params::layer).text("layer of the outputs; default: the network's last");
  d.params.add("folder", &Params::folder).text("folder for the files of the first samples; default: none are copied");
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
  for (const std::uint32_t i : used) keep(share.samples[i]);
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

void SendSamples::keep(const Predictions::Sample& sample) {
  if (kept_ >= kKept || params_.folder.empty()) return;
  const int number = kept_++;
  if (!sample.member.empty() || url_scheme(sample.url) != "file") return;
  const std::filesystem::path from = file_url_path(sample.url), folder = params_.folder;
  std::error_code error;  // without its copy, a proof only lacks the image file
  std::filesystem::copy_file(from, folder / fmt::format("{:02}-{}", number, from.filename().string()), error);
}

void SendSamples::send(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::write(static_cast<int>(params_.descriptor), at, bytes);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail(ErrorKind::run, "verify.py, which compares the results, has ended: {}", std::strerror(errno));
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

}  // namespace millrace
