#include "millrace/backend/readback.h"

#include <gtest/gtest.h>

#include <cstring>

#include "millrace/error.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace {
namespace {

// Completes when the test says so.
class LateEvent : public Event {
 public:
  bool complete() const override { return false; }
  void wait() const override {}
  void then(Callback done) override { done_ = std::move(done); }
  void signal(const Error* failure) { std::exchange(done_, nullptr)(failure); }

 private:
  Callback done_;
};

class LateStream : public testkit::PlainStream {
 public:
  Ref<Event> record() override { return last = make_ref<LateEvent>(); }
  Ref<LateEvent> last;
};

class ReadbackTest : public testing::Test {
 protected:
  void read(std::int32_t value) {
    readback_.read(stream_, &value, output_, [this](const std::uint8_t* bytes) {
      std::int32_t known = 0;
      std::memcpy(&known, bytes, sizeof known);
      if (known < 0) fail(ErrorKind::run, "below zero");
      known_.push_back(known);
    });
  }

  const std::unique_ptr<Device> device_ = testkit::make_plain_backend()->open(0, {});
  Readback readback_{*device_, sizeof(std::int32_t)};
  LateStream stream_;
  testkit::CollectingOutput output_;
  std::vector<std::int32_t> known_;
};

TEST_F(ReadbackTest, TellsWhatWasThereWhenItHasBeenCopied) {
  read(7);
  EXPECT_TRUE(known_.empty());
  EXPECT_EQ(output_.holds(), 1) << "the graph does not end before";
  stream_.last->signal(nullptr);
  EXPECT_EQ(known_, std::vector<std::int32_t>{7});
  EXPECT_EQ(output_.holds(), 0);
  EXPECT_TRUE(output_.errors().empty());
}

TEST_F(ReadbackTest, OfADeviceThatHasFailedNothingIsKnown) {
  read(7);
  const Error failure(ErrorKind::device, "the device is lost");
  stream_.last->signal(&failure);
  EXPECT_TRUE(known_.empty());
  ASSERT_EQ(output_.errors().size(), 1U);
  EXPECT_MESSAGE(output_.errors()[0].message());
  EXPECT_EQ(output_.errors()[0].kind(), ErrorKind::device);
  EXPECT_EQ(output_.holds(), 0);
}

TEST_F(ReadbackTest, WhatTheReaderThrowsEndsTheRun) {
  read(-1);
  stream_.last->signal(nullptr);
  ASSERT_EQ(output_.errors().size(), 1U);
  EXPECT_EQ(output_.errors()[0].message(), "below zero");
}

}  // namespace
}  // namespace millrace
