#include <texts_fixture.h>

#include <cmath>
#include <filesystem>

#include "observer_fixture.h"
#include "results_picture.h"
#include "testkit/small_files.h"

namespace millrace::observer_test {
namespace {

class PicturesTest : public ObserverFixture {
 protected:
  static StepEvent step_at(std::uint64_t step, double seconds, double loss = 0.5) {
    StepEvent event = step_event();
    event.step = step;
    event.elapsed_seconds = seconds;
    event.figures[0].value = loss;
    return event;
  }
  static RunEnd end_event() {
    RunEnd end;
    end.elapsed_seconds = 60;
    return end;
  }
  bool exists(const char* name) const { return std::filesystem::exists(folder_ / name); }
  bool is_picture(const char* name) const {
    const std::string bytes = text_of(name);
    return bytes.starts_with("\x89PNG\r\n\x1a\n") && bytes.find("IEND") != std::string::npos;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

std::string all_text(const drawing::Picture& picture) {
  std::string all;
  for (const auto& text : picture.texts()) all += text.text + "\n";
  return all;
}

TEST_F(PicturesTest, AreDrawnWhileTheRunGoesEveryFewSecondsAndAtItsEnd) {
  const auto observer = make("pictures");
  observer->start(start_event(), control_);  // at 0.5 s
  observer->step(step_at(1, 4));
  EXPECT_TRUE(files().empty());
  observer->step(step_at(2, 6));
  EXPECT_TRUE(is_picture("results.png"));
  EXPECT_TRUE(text_of("results.svg").ends_with("</svg>\n"));
  EXPECT_EQ(files(), (std::vector<std::string>{"results.png", "results.svg"})) << "and nothing that is half written";
  const std::string before = text_of("results.png");
  observer->step(step_at(3, 7));
  EXPECT_EQ(text_of("results.png"), before) << "soon after the last one";
  EpochEvent epoch = epoch_event();
  epoch.elapsed_seconds = 9;
  observer->epoch(epoch);
  EXPECT_NE(text_of("results.png"), before);
  const std::string at_epoch = text_of("results.png");
  observer->end(end_event());
  EXPECT_NE(text_of("results.png"), at_epoch);
}

TEST_F(PicturesTest, AreNoneOfARunThatTrainsNothingOrHasNoFolder) {
  const auto observer = make("pictures");
  observer->start(start_event(), control_);
  StepEvent step = step_at(1, 50);
  step.scalars.clear();
  observer->step(step);
  observer->end(end_event());
  RunStart nowhere = start_event();
  nowhere.folder.clear();
  observer->start(nowhere, control_);
  observer->step(step_at(2, 100));
  observer->end(end_event());
  EXPECT_TRUE(files().empty());
}

TEST_F(PicturesTest, GoOnWhereTheRunThatIsResumedHadStopped) {
  std::ofstream(folder_ / "metrics.jsonl")
      << R"({"event":"start","name":"a"})"
         "\n"
      << R"({"event":"step","step":1,"loss":7.5,"learning_rate":0.1,"images_per_second":9,"elapsed_seconds":1})"
         "\n"
      << R"({"event":"step","step":2,"loss":null,"learning_rate":0.1,"images_per_second":9,"elapsed_seconds":2})"
         "\n"
      << R"({"event":"validate","graph":"validate","step":2,"loss":6.25,"elapsed_seconds":3})"
         "\n"
      << R"({"event":"step","step":3,"loss":100,"learning_rate":0.1,"images_per_second":9,"elapsed_seconds":4})"
         "\n"
      << R"({"event":"resume","step":2,"name":"a"})"
         "\n"
      << "{\"event\":\"step\",\"st";
  pictures::History history;
  history.start(start_event());
  history.read(folder_ / "metrics.jsonl", {3, 3});
  const auto& loss = history.figure("loss");
  const std::vector<drawing::Point> points = history.points(loss.steps);
  ASSERT_EQ(points.size(), 2U) << "the third was made again";
  EXPECT_EQ(points[0].y, 7.5);
  EXPECT_TRUE(std::isnan(points[1].y));
  EXPECT_EQ(loss.passes.at("validate").last.y, 6.25);
  EXPECT_EQ(history.first_not_finite(), 0.5) << "epochs, of four steps each";
}

// A run that went back to step 2: its earlier values for steps 3 and 4 are void.
TEST_F(PicturesTest, TellNothingOfStepsThatWereUndone) {
  std::ofstream(folder_ / "metrics.jsonl") << R"({"event":"step","step":2,"loss":5,"elapsed_seconds":1}
{"event":"validate","graph":"validate","step":2,"loss":4,"accuracy":0.5,"elapsed_seconds":2}
{"event":"step","step":3,"loss":null,"elapsed_seconds":3}
{"event":"validate","graph":"validate","step":4,"loss":null,"accuracy":0.9,"elapsed_seconds":4}
{"event":"validate","graph":"test","step":4,"loss":1,"elapsed_seconds":4}
{"event":"resume","step":2,"elapsed_seconds":5}
)";
  pictures::History history;
  history.start(start_event());
  history.read(folder_ / "metrics.jsonl", {8, 8});
  EXPECT_TRUE(std::isnan(history.first_not_finite())) << history.first_not_finite();
  EXPECT_EQ(history.steps_done(), 2U);
  const auto& accuracy = history.figure("accuracy").passes.at("validate");
  EXPECT_EQ(accuracy.highest.y, 0.5);
  EXPECT_EQ(accuracy.last.y, 0.5);
  EXPECT_EQ(history.figure("loss").passes.at("validate").last.y, 4);
  EXPECT_FALSE(history.figure("loss").passes.contains("test"));
}

TEST_F(PicturesTest, OutliveAFullDiskWithOneWarning) {
  const auto observer = make("pictures");
  observer->start(start_event(), control_);
  {
    const testkit::SmallFiles full(10);
    for (std::uint64_t step = 1; step < 4; ++step) observer->step(step_at(step, 10.0 * static_cast<double>(step)));
    EXPECT_FALSE(exists("results.png"));
  }
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_TRUE(control_.texts[0].starts_with("results.png keeps its old content until it can be drawn: ")) << control_.texts[0];
  observer->end(end_event());
  EXPECT_TRUE(is_picture("results.png"));
}

TEST_F(PicturesTest, ShowTheClassesOfAPassWhoseLossCountsThem) {
  const auto observer = make("pictures");
  observer->start(start_event(), control_);
  PassEvent pass = pass_event();
  pass.class_matrix = {90, 10, 5, 95};
  pass.classes = {"Straße", "朴素"};
  observer->pass(pass);
  for (const char* file : {"confusion.png", "classes.png"}) EXPECT_TRUE(is_picture(file)) << file;
  EXPECT_TRUE(exists("confusion.svg"));
}

TEST_F(PicturesTest, ShowTheFiltersOfTheFirstConvolution) {
  const std::string header = R"({"fc.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("conv.weight":{"dtype":"F32","shape":[2,1,2,2],"data_offsets":[8,40]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header + std::string(40, '\x3f');
  const auto end_with = [&](const std::string& weights) {
    std::ofstream(folder_ / "w.safetensors") << weights;
    std::filesystem::remove(folder_ / "filters.png");
    const auto observer = make("pictures");
    observer->start(start_event(), control_);
    observer->step(step_at(1, 1));
    RunEnd end = end_event();
    end.weights_file = (folder_ / "w.safetensors").string();
    observer->end(end);
  };
  end_with(bytes);
  EXPECT_TRUE(is_picture("filters.png"));
  for (const std::size_t length : {0UL, 5UL, 60UL, bytes.size() - 1}) {
    end_with(bytes.substr(0, length));
    EXPECT_FALSE(exists("filters.png")) << "of a file of " << length << " bytes";
  }
  EXPECT_TRUE(control_.texts.empty());
}

TEST_F(PicturesTest, HaveNoTextOverAnotherWhateverTheRunIsLike) {
  const std::vector<std::string> names = drawing::extreme_names(11);
  for (const std::uint64_t steps : {1, 40, 5000}) {
    for (const double steps_per_epoch : {0.0, 1.0, 40.0}) {
      pictures::History history;
      RunStart start = start_event();
      start.name = start.file = names[steps % names.size()] + std::string(200, 'x');
      start.steps = steps;
      start.steps_per_epoch = static_cast<std::uint64_t>(steps_per_epoch);
      start.epochs = 4;
      start.replicas = 8;
      history.start(start);
      for (std::uint64_t step = 1; step <= steps; ++step) {
        StepEvent event = step_at(step, 1, step % 3 == 2 ? NAN : 1e9 / static_cast<double>(step));
        event.figures.push_back({names[1], 0.5, true, true});
        history.step(event);
      }
      history.epoch(epoch_event());
      for (std::size_t graph = 0; graph < 4; ++graph) {
        PassEvent pass = pass_event();
        pass.graph = names[graph];
        history.pass(pass);
      }
      const drawing::Picture picture = results_picture(history, std::string(500, 'w'), std::string(500, 'e'));
      drawing::expect_apart(picture);
      const std::string text = all_text(picture);
      EXPECT_EQ(text.find("the loss is not finite from ") != std::string::npos, steps > 1) << text;
      EXPECT_NE(text.find("learning rate\n"), std::string::npos);
    }
  }
}

TEST_F(PicturesTest, KeepALongRunInConstantMemory) {
  pictures::History history;
  RunStart start = start_event();
  start.steps_per_epoch = 1;
  history.start(start);
  for (std::uint64_t step = 0; step < 200'000; ++step) {
    history.step(step_at(step, 1, step % 2 == 0 ? static_cast<double>(step) : NAN));
  }
  const std::vector<drawing::Point> points = history.points(history.figure("loss").steps);
  EXPECT_LE(points.size(), 1024U);
  EXPECT_GT(points.size(), 500U);
  for (const auto& [x, y] : points) EXPECT_NEAR(x, y, 400) << "a mean of its own steps";
}

}  // namespace
}  // namespace millrace::observer_test
