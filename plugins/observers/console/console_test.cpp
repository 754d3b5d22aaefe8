#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <thread>

#include "millrace/observer.h"
#include "observer_fixture.h"

#include "testkit/messages.h"

namespace millrace::observer_test {
namespace {

TickEvent tick_event() {
  TickEvent event;
  event.graph = "train";
  event.epoch = 1.25;
  event.epochs = 2;
  event.step = 5;
  event.steps = 8;
  event.figures = {{"loss", 0.25, false, false}, {"accuracy", 0.5, true, true}, {"top5", 0.75, true, true}};
  event.images_per_second = 412.4;
  event.waits_for = "observer metrics";
  event.seconds_left = 130;
  return event;
}

// Text on a terminal up to the last written mark. The kernel forwards text with a delay.
std::string text_before(char mark, int terminal) {
  constexpr int kPatience = 60'000;  // ms
  std::string text;
  pollfd event{terminal, POLLIN, 0};
  for (char next = 0; poll(&event, 1, kPatience) == 1 && read(terminal, &next, 1) == 1 && next != mark;) text += next;
  std::erase(text, '\r');
  return text;
}

// Text written to standard error meanwhile, with standard error a terminal of this width.
std::string on_a_terminal(unsigned short columns, const std::function<void()>& work) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  grantpt(terminal);
  unlockpt(terminal);
  const int screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);  // NOLINT(concurrency-mt-unsafe): one thread
  winsize size{};
  size.ws_col = columns;
  ioctl(screen, TIOCSWINSZ, &size);
  const int before = dup(STDERR_FILENO);
  dup2(screen, STDERR_FILENO);
  work();
  constexpr char kMark = '\x03';
  std::fputc(kMark, stderr);
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text = text_before(kMark, terminal);
  close(screen);
  close(terminal);
  return text;
}

class ConsoleObserverTest : public ObserverFixture {
 protected:
  std::string said(const std::function<void(RunObserver&)>& work, bool quiet = false) {
    const auto observer = make("console", Value(Table{{"quiet", {}, Value(quiet)}}));
    testing::internal::CaptureStderr();
    observer->start(start_event(), control_);
    work(*observer);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(ConsoleObserverTest, SaysEpochsAndPasses) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    observer.epoch(epoch_event());
    observer.pass(pass_event());
  }));
}

TEST_F(ConsoleObserverTest, SaysWhichWeightsWereEvaluatedAndNoCheckpointThatNobodyAskedFor) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    PassEvent pass = pass_event();
    pass.best_step = 12;
    observer.pass(pass);
    CheckpointEvent checkpoint;
    checkpoint.by_default = true;
    observer.checkpoint(checkpoint);
  }));
}

TEST_F(ConsoleObserverTest, SaysThatNothingWasMeasured) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    EpochEvent epoch = epoch_event();
    epoch.figures.clear();
    observer.epoch(epoch);
    PassEvent pass = pass_event();
    pass.figures.clear();
    observer.pass(pass);
    pass.samples = 0;
    observer.pass(pass);
  }));
}

// An exploding loss would have 22 digits, and a vanishing one none.
TEST_F(ConsoleObserverTest, SaysFiguresThatDecimalsDoNotShowByTheirSize) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<double, std::string>> figures = {{123456789012345678901.0, "1.235e+20"},
                                                               {-2.5e6, "-2.500e+06"},
                                                               {999999, "999999.0000"},
                                                               {1234.5, "1234.5000"},
                                                               {0.0001, "0.0001"},
                                                               {1.2346e-7, "1.235e-07"},
                                                               {0, "0.0000"},
                                                               {infinity, "inf"}};
  for (const auto& [value, text] : figures) {
    EXPECT_EQ(said([&, loss = value](RunObserver& observer) {
                PassEvent pass = pass_event();
                pass.figures[0].value = loss;
                observer.pass(pass);
              }),
              fmt::format("validate: 130 images  loss {}  mean iou 12.50 %  0.5 s\n", text));
  }
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    PassEvent pass = pass_event();
    pass.figures = {{"error", 1e20, true, false}, {"accuracy", 0.00001, true, true}};
    observer.pass(pass);
  }));
}

TEST_F(ConsoleObserverTest, SaysWhereARunGoesOn) {
  EXPECT_MESSAGE(said([this](RunObserver& observer) {
    RunStart start = start_event();
    start.resumed = true;
    start.checkpoint = "runs/x/checkpoints/step-000000005";
    start.checkpoint_step = 5;
    for (const std::uint64_t first : {6, 9}) {
      start.first_step = first;
      observer.start(start, control_);
    }
  }));
}

TEST_F(ConsoleObserverTest, SaysWhatNoStageReports) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    EpochEvent epoch = epoch_event();
    epoch.reported = false;
    observer.epoch(epoch);
    PassEvent pass = pass_event();
    pass.reported = false;
    observer.pass(pass);
  }));
  EXPECT_EQ(said([](RunObserver& observer) {
              PassEvent pass = pass_event();
              pass.reported = false;
              pass.samples = 1;
              observer.pass(pass);
            }),
            "validate: 1 image  260 images/s  0.5 s\n");
}

TEST_F(ConsoleObserverTest, NamesTheFirstBadSamples) {
  const std::string line = "bad sample replaced: 'a.tar (b.jpg)': the file is empty (decode_image)\n";
  EXPECT_EQ(said([](RunObserver& observer) {
              for (std::uint64_t count = 4; count <= 7; ++count) observer.bad_sample(bad_sample_event(count));
            }),
            line + line + "further bad samples are counted, and listed only in quarantine.jsonl\n");
  for (const std::uint64_t count : {5U, 6U}) {
    const std::string all =
        count == 5 ? "" : "warning: 6 bad samples in all; the last is 'a.tar (b.jpg)': the file is empty (decode_image)\n";
    EXPECT_EQ(said([&](RunObserver& observer) {
                observer.bad_sample(bad_sample_event(1));
                RunEnd end;
                end.bad_samples = count;
                observer.end(end);
              }),
              line + all);
  }
  EXPECT_EQ(said([&](RunObserver& observer) {
              RunStart without_folder = start_event();
              without_folder.folder.clear();
              observer.start(without_folder, control_);
              observer.bad_sample(bad_sample_event(5));
            }),
            line +
                "further bad samples are only counted; without a run folder, [observe.ledger] file needs an absolute path to "
                "list them\n");
}

TEST_F(ConsoleObserverTest, SaysWhatIsAskedForAndWhatBecameOfIt) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    RequestEvent request;
    request.by = "signal 2";
    request.signal = 2;
    observer.request(request);
    request.by = "observer page";
    request.signal = 0;
    observer.request(request);
    request.kind = RequestKind::rate_factor;
    request.factor = 0.5;
    request.step = 12;
    request.state = RequestEvent::State::completed;
    observer.request(request);
    request.kind = RequestKind::save;
    request.text = "runs/w.safetensors";
    observer.request(request);
    request.state = RequestEvent::State::refused;
    request.text = "the run has no folder";
    observer.request(request);
  }));
}

TEST_F(ConsoleObserverTest, SaysWhyTheRunWasStopped) {
  EXPECT_MESSAGE(said([](RunObserver& observer) {
    RequestEvent request;
    request.by = "[stop]";
    request.text = "stop.max_steps";
    request.step = 70;
    observer.request(request);
    request.state = RequestEvent::State::completed;
    observer.request(request);
  }));
}

TEST_F(ConsoleObserverTest, QuietSaysWarningsAndBadSamplesAlone) {
  const auto everything = [](RunObserver& observer) {
    observer.epoch(epoch_event());
    observer.bad_sample(bad_sample_event(1));
    observer.warning({"careful"});
  };
  EXPECT_MESSAGE(said(everything, true));
  EXPECT_NE(said(everything).find("warning: careful\n"), std::string::npos);
}

TEST_F(ConsoleObserverTest, RenewsItsLineOnATerminal) {
  const std::string line =
      "train: epoch 2/2  step 5/8  loss 0.250  accuracy 50.0 %  412 images/s  waits for: observer metrics  2 min 10 s left";
  bool was_early = false;  // the first tick; not on a machine that paused this thread
  const auto work = [&] {
    const auto observer = make("console");
    const auto begin = std::chrono::steady_clock::now();
    observer->start(start_event(), control_);
    observer->tick(tick_event());
    was_early = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(200);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    observer->tick(tick_event());
    observer->warning({"careful"});
  };
  for (const unsigned short columns : {std::uint16_t{200}, std::uint16_t{20}}) {
    std::string said;
    for (int attempt = 0; attempt < 20 && !was_early; ++attempt) said = on_a_terminal(columns, work);
    EXPECT_EQ(said, fmt::format("\x1b[K{}\x1b[Kwarning: careful\n", line.substr(0, columns - 1U)));
    was_early = false;
  }
}

}  // namespace
}  // namespace millrace::observer_test
