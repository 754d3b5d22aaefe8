#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"

namespace millrace {

// Sends each image as the network sees it, and the network's output, through a pipe to verify.py. Only pipeline-export registers
// it.
//
// The first line is JSON: {"image": [H, W, C], "output": [C, H, W]}. Frames follow, numbers with the lowest byte first: uint32 n,
// int32 labels (n; -1: none), uint8 images (n, H, W, C), float32 outputs (n, output...). A frame with n = 0 ends the pass; a
// stream without it is incomplete. The files of the first dozen samples are copied to `folder`, "00-name.jpg" and so on, unless
// they are members of shards or on a server.
//
// Ports: in, Predictions. Samples that could not be read are left out. Threading: writes on a thread of its own (PredictionLine).
// Errors: Error(run) if the reader has closed the pipe.
class SendSamples : public Stage {
 public:
  static constexpr int kKept = 12;
  struct Params {
    std::string layer, folder;
    std::int64_t descriptor = -1;
  };
  static void describe(StageDescription<Params>& d);
  static void request(const Params& params, const StageSite& site, CompileRequest& request);
  SendSamples(const Params& params, const DataContext& context);

  void process(int, Packet packet, Output& output) override { line_.add(std::move(packet), output); }
  void stop() noexcept override { line_.stop(); }

 private:
  void write(const Predictions& share);
  void send(const void* data, std::size_t bytes) const;
  void keep(const Predictions::Sample& sample);

  const Params params_;
  const DataContext context_;
  LayerPort port_ = 0;
  bool has_begun_ = false;
  int kept_ = 0;
  std::vector<std::uint8_t> frame_;

  PredictionLine line_{[this](const Predictions& share) { write(share); }};  // last: its thread uses the rest
};

}  // namespace millrace
