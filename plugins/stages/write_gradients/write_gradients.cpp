#include "write_gradients.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "millrace/plugin.h"
#include "millrace/util/output_file.h"

namespace millrace {

void WriteGradients::describe(StageDescription<Params>& d) {
  d.name("write_gradients")
      .text(
          "Writes a step's gradients at intervals to gradients.safetensors in the run's folder, for observers of their size: "
          "PARAMETER/gradient, one row each, in the device's order, unlike weights.safetensors. Belongs after allreduce.")
      .input(payload::kGradientBucket)
      .output(payload::kGradientBucket)
      .per_replica();
  d.params.add("every", &Params::every).range(1).unit("steps").text("interval between files; each replaces the last");
}

void WriteGradients::open() {
  const bool writes = context_.replica == 0 && context_.first_replica == 0 && context_.run != nullptr;
  const std::string folder = writes ? context_.run->output_folder() : std::string();
  if (folder.empty()) return;
  file_ = folder + "/gradients.safetensors";
  Device& device = *context_.devices.front();
  stream_ = device.make_stream("write_gradients");
  buckets_ = context_.replicas.front()->buckets();
  for (const Bucket& bucket : buckets_) readbacks_.emplace_back(device, bucket.elements * sizeof(float));
  scale_ = std::make_unique<Readback>(device, sizeof(float));
}

void WriteGradients::process(int, Packet packet, Output& output) {
  auto& bucket = static_cast<GradientBucket&>(*packet.payload);
  if (!file_.empty() && (bucket.step + 1) % every_ == 0 && !context_.run->is_dry_run()) copy(bucket, output);
  output.emit(0, std::move(packet));
}

void WriteGradients::copy(GradientBucket& bucket, Output& output) {
  if (!copy_) {
    copy_ = std::make_shared<Copy>();
    copy_->values.resize(static_cast<std::size_t>(bucket.buckets));
  }
  const auto number = static_cast<std::size_t>(bucket.bucket);
  const std::shared_ptr<Copy> to = copy_;
  if (++to->submitted == to->values.size()) copy_ = nullptr;  // the next one belongs to another step
  stream_->wait(bucket.ready);
  if (bucket.scale != nullptr) {
    scale_->read(*stream_, bucket.scale, output,
                 [to](const std::uint8_t* bytes) { std::memcpy(&to->scale, bytes, sizeof(float)); });
  }
  readbacks_[number].read(*stream_, bucket.data, output, [this, to, number](const std::uint8_t* bytes) {
    std::vector<float>& values = to->values[number];
    values.resize(buckets_[number].elements);
    std::memcpy(values.data(), bytes, values.size() * sizeof(float));
    if (++to->there == to->values.size()) write(*to);
  });
  bucket.ready = stream_->record();
}

// safetensors: the length of the header, the header as JSON, and the values, little endian.
void WriteGradients::write(const Copy& copy) const {
  std::string header = "{", values;
  for (std::size_t b = 0; b < copy.values.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
      const Parameter& parameter = context_.network->parameters[static_cast<std::size_t>(buckets_[b].parameters[i])];
      const auto elements = static_cast<std::size_t>(parameter.shape.elements());
      if (header.size() > 1) header += ',';
      append_json(header, parameter.name + "/gradient");
      header += fmt::format(R"(:{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", elements, values.size(),
                            values.size() + elements * sizeof(float));
      for (std::size_t e = 0; e < elements; ++e) {
        const float value = copy.scale * copy.values[b][buckets_[b].offsets[i] + e];
        values.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
    }
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t length = header.size();
  OutputFile file(file_, OutputFile::Sync::later);
  file.write(&length, sizeof length);
  file.write(header);
  file.write(values);
  file.commit();
}

MILLRACE_PLUGIN("write_gradients", "1.0", "Gradients of a step as a file.") { registry.add_stage<WriteGradients>(); }

}  // namespace millrace
