// A machine and a queue on the fake runtime.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cuda_machine.h"
#include "fake_runtime.h"
#include "millrace/error.h"

namespace millrace::cuda {

class OnFakeRuntime : public testing::Test {
 protected:
  OnFakeRuntime() {
    fake::reset();
    DeviceInfo info;
    info.backend = "cuda";
    info.index = 3;
    fake::lie_on(info.index);
    info.name = "Acted 100";
    info.memory = 1 << 20;
    info.cache = 8192;
    gpu_ = std::make_shared<Gpu>(info, choices_.of(info));
    machine_ = std::make_shared<CudaMachine>(gpu_);
    queue_ = machine_->make_queue("compute");  // on stream 2: stream 1 is the machine's own
  }
  ~OnFakeRuntime() override {
    fake::fail_work(cudaSuccess);
    fake::release();
    queue_.reset();
    machine_.reset();
    gpu_.reset();
    EXPECT_EQ(fake::open_things(), 0);
  }

  template <class Call>
  static std::string message_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return error.what();
    }
    return "nothing was thrown";
  }

  ChoicesByModel choices_;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<CudaMachine> machine_;
  std::unique_ptr<Queue> queue_;
  int value_ = 0;
};

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace millrace::cuda
