// Event files, read back with TensorBoard's framing. tests/records uses TensorBoard's own reader.
#include <event.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "event_file.h"
#include "millrace/observer.h"
#include "millrace/util/load_plugins.h"
#include "observer_fixture.h"
#include "testkit/small_files.h"

namespace millrace::observer_test {
namespace {

namespace fs = std::filesystem;
using tensorboard::Event;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The records of a file, with verified lengths and checksums.
std::vector<Event> events_of(const fs::path& path) {
  std::vector<Event> events;
  const std::string bytes = bytes_of_file(path);
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  const auto masked = [](std::string_view text) {
    const std::uint32_t sum = tensorboard::crc32c(text);
    return (sum >> 15U | sum << 17U) + 0xa282ead8U;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = number(at);
    EXPECT_LE(at + 16 + size, bytes.size()) << "a torn record";
    EXPECT_EQ(number(at + 4), 0U);
    EXPECT_EQ(number(at + 8), masked(std::string_view(bytes).substr(at, 8)));
    const std::string_view record = std::string_view(bytes).substr(at + 12, size);
    EXPECT_EQ(number(at + 12 + size), masked(record));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(record.data(), static_cast<int>(record.size())));
    at += 16 + size;
  }
  return events;
}

class TensorboardTest : public ObserverFixture {
 protected:
  TensorboardTest() { load_plugin(registry_, MILLRACE_PLUGINS "/observer_tensorboard.so"); }
  std::shared_ptr<RunObserver> make(const Value& table = {}) const {
    Diagnostics errors;
    auto observer = registry_.observers().find("tensorboard")->create(table, "[observe.tensorboard]", errors);
    EXPECT_EQ(errors.text(), "");
    return observer;
  }
  // Sorted by name, like readers do.
  fs::path events() const { return folder_.parent_path() / "tensorboard" / folder_.filename(); }
  std::vector<fs::path> files() const { return files(events()); }
  static std::vector<fs::path> files(const fs::path& in) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(in)) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }
  // "train/loss@3=0.25"
  static std::vector<std::string> scalars(const fs::path& file) {
    std::vector<std::string> found;
    for (const Event& event : events_of(file)) {
      for (const auto& value : event.summary().value()) {
        if (value.value_case() != tensorboard::Summary::Value::kSimpleValue) continue;
        found.push_back(fmt::format("{}@{}={}", value.tag(), event.step(), value.simple_value()));
      }
    }
    return found;
  }

 private:
  Registry registry_;
};

TEST(Crc32c, IsThatOfThePublishedVectors) {
  EXPECT_EQ(tensorboard::crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(tensorboard::crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
}

TEST_F(TensorboardTest, HasTheScalarsOfTrainingAndValidationUnderTheirUsualNames) {
  const auto observer = make();
  observer->start(start_event(), control_);
  observer->step(step_event());
  observer->epoch(epoch_event());
  observer->pass(pass_event());
  PassEvent best = pass_event();
  best.best_step = 2;
  observer->pass(best);
  observer->end({});
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(scalars(files()[0]),
            (std::vector<std::string>{"train/loss@3=0.25", "train/accuracy@3=0.5", "learning_rate@3=0.1",
                                      "images_per_second@3=100", "train/epoch_loss@4=0.25", "train/epoch_accuracy@4=0.5",
                                      "train/epoch_top5@4=0.75", "train/epoch_images_per_second@4=100", "resident_bytes@4=1024",
                                      "validate/loss@4=0.5", "validate/mean_iou@4=0.125", "validate/images_per_second@4=260",
                                      "validate/best_loss@2=0.5", "validate/best_mean_iou@2=0.125"}));
  const std::vector<Event> events = events_of(files()[0]);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  const auto step = std::ranges::find(events, 3, &Event::step);
  EXPECT_NEAR(step->wall_time() - events[0].wall_time(), 1, 1e-6) << "the run's clock, and not the time of writing";
}

TEST_F(TensorboardTest, KeepsThePipelineAsHyperparametersWithoutItsPasswords) {
  std::ofstream(folder_ / "pipeline.toml")
      << "[train.batch]\nsize = 100\n[train.augment]\nflip = true\nx = [-2, 2]\n[train.read]\npath = \"https://me:pw@host/a\"\n";
  const auto observer = make();
  observer->start(start_event(), control_);
  observer->end({});
  std::map<std::string, std::string> shown;
  tensorboard::Hyperparameters data;
  for (const Event& event : events_of(files().at(0))) {
    for (const auto& value : event.summary().value()) {
      shown[value.tag()] = value.metadata().plugin_data().plugin_name();
      EXPECT_EQ(value.SerializeAsString().find("pw@"), std::string::npos) << value.tag();
      if (value.tag().ends_with("start_info")) data.ParseFromString(value.metadata().plugin_data().content());
    }
  }
  EXPECT_EQ(shown,
            (std::map<std::string, std::string>{
                {"_hparams_/session_start_info", "hparams"}, {"_hparams_/session_end_info", "hparams"}, {"pipeline", "text"}}));
  const auto& settings = data.start().settings();
  EXPECT_EQ(settings.at("train.batch.size").number(), 100);
  EXPECT_TRUE(settings.at("train.augment.flip").boolean());
  EXPECT_EQ(settings.at("train.augment.x").text(), "[-2, 2]");
  EXPECT_EQ(settings.at("train.read.path").text(), "https://me:***@host/a");
}

TEST_F(TensorboardTest, AResumedRunSaysFromWhichStepOnItCountsInALaterFile) {
  {
    const auto observer = make();
    observer->start(start_event(), control_);
    observer->step(step_event());
  }
  for (int times = 0; times < 2; ++times) {  // within one second
    RunStart resumed = start_event();
    resumed.resumed = true;
    resumed.first_step = 3;
    resumed.checkpoint_step = 2;
    const auto observer = make();
    observer->start(resumed, control_);
    observer->step(step_event());
  }
  const std::vector<fs::path> all = files();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(events_of(all[0])[1].step(), 0);
  for (const std::size_t file : {1, 2}) {
    const std::vector<Event> events = events_of(all[file]);
    ASSERT_EQ(events.size(), 3U) << "version, start and step; no hyperparameters again";
    EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
    EXPECT_EQ(events[1].step(), 3);
  }
}

// `runs/NAME/latest` leads to the run's folder, and TensorBoard follows links.
TEST_F(TensorboardTest, SeesEachRunOnceThoughLatestLeadsToIt) {
  fs::create_directory_symlink(folder_.filename(), folder_.parent_path() / "latest");
  {
    const auto observer = make();
    observer->start(start_event(), control_);
    observer->step(step_event());
  }
  EXPECT_EQ(files().size(), 1U);
  EXPECT_TRUE(files(folder_).empty());
  EXPECT_TRUE(files(folder_.parent_path() / "latest").empty());
}

TEST_F(TensorboardTest, ARunOfAnEarlierVersionGoesOnWhereItsEventsAre) {
  std::ofstream(folder_ / "events.out.tfevents.0000000007.host") << "";
  RunStart resumed = start_event();
  resumed.resumed = true;
  const auto observer = make();
  observer->start(resumed, control_);
  EXPECT_EQ(files(folder_).size(), 2U);
  EXPECT_FALSE(fs::exists(events()));
}

// A checkpoint's values in safetensors format.
void write_tensors(const fs::path& path, const std::string& header, const std::vector<float>& values) {
  fs::create_directories(path.parent_path());
  const std::uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
}

TEST_F(TensorboardTest, ShowsWeightsAndMomentumOfEachCheckpointWhereAsked) {
  CheckpointEvent checkpoint;
  checkpoint.step = 4;
  checkpoint.path = folder_ / "checkpoints/step-000000004";
  write_tensors(checkpoint.path / "state.safetensors",
                R"({"fc/value":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                R"("fc/momentum":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                R"("bn/value/1":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})",
                {-1, 0, std::numeric_limits<float>::quiet_NaN(), 2, 1, 1, 7});
  write_tensors(folder_ / "gradients.safetensors", R"({"fc/gradient":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                {0, 0.5});
  const auto observer = make(Value(Table{{"histograms", {}, Value(true)}}));
  observer->start(start_event(), control_);
  observer->checkpoint(checkpoint);
  checkpoint.path = folder_ / "checkpoints/gone";
  observer->checkpoint(checkpoint);
  observer->end({});
  std::map<std::string, tensorboard::Histogram> found;
  for (const Event& event : events_of(files().at(0))) {
    for (const auto& value : event.summary().value()) {
      if (!value.has_histogram()) continue;
      EXPECT_EQ(event.step(), 4);
      found[value.tag()] = value.histogram();
    }
  }
  ASSERT_EQ(found.size(), 3U) << "of replicas the first";
  EXPECT_EQ(found.at("gradient/fc").maximum(), 0.5);
  const tensorboard::Histogram& weights = found.at("weights/fc");
  EXPECT_EQ(weights.count(), 3) << "the finite ones";
  EXPECT_EQ(weights.minimum(), -1);
  EXPECT_EQ(weights.sum_of_squares(), 5);
  ASSERT_EQ(weights.bucket_size(), weights.limit_size());
  EXPECT_EQ(std::accumulate(weights.bucket().begin(), weights.bucket().end(), 0.0), 3);
  EXPECT_EQ(weights.limit(weights.limit_size() - 1), 2);
  EXPECT_EQ(found.at("momentum/fc").bucket_size(), 1) << "all values are the same";
  EXPECT_EQ(scalars(files()[0]),
            (std::vector<std::string>{
                fmt::format("momentum_to_weights/fc@4={}", std::sqrt(3.0F / 5.0F)),
                fmt::format("gradient_to_weights/fc@4={}", static_cast<float>(std::sqrt(0.125) / std::sqrt(5.0 / 3)))}));
  EXPECT_TRUE(control_.texts.empty());
}

TEST_F(TensorboardTest, ShowsThePicturesOfTheFolderEachTimeTheyHaveChanged) {
  const auto draw = [&](const char* name, char width) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << std::string_view("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0", 19) << width
                                                    << std::string("\0\0\0\x03\x08\x02\0\0\0", 9) << "....";
  };
  draw("first_batches.png", 5);
  draw("results.png", 5);
  draw("checkpoints/step-1/a.png", 5);
  draw("worst/first.png", 6);
  std::ofstream(folder_ / "torn.png") << "no picture";
  const auto observer = make(Value(Table{{"images", {}, Value(true)}}));
  observer->start(start_event(), control_);
  observer->epoch(epoch_event());
  draw("worst/first.png", 7);
  fs::last_write_time(folder_ / "worst/first.png", fs::file_time_type::clock::now() + std::chrono::seconds(2));
  observer->end({});
  std::vector<std::string> shown;
  for (const Event& event : events_of(files().at(0))) {
    for (const auto& value : event.summary().value()) {
      if (value.has_image()) shown.push_back(fmt::format("{} {}x{}", value.tag(), value.image().width(), value.image().height()));
    }
  }
  EXPECT_EQ(shown, (std::vector<std::string>{"first_batches 5x3", "worst/first 6x3", "worst/first 7x3"}));
}

TEST_F(TensorboardTest, AFullDiskLosesNothingThatFitsLater) {
  const auto observer = make();
  observer->start(start_event(), control_);
  StepEvent step = step_event();
  {
    const testkit::SmallFiles full(fs::file_size(files().at(0)) + 10);  // the next record is incomplete
    for (step.step = 1; step.step <= 3; ++step.step) observer->step(step);
    observer->flush();
  }
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_NE(control_.texts[0].find("events wait in memory until they can be written"), std::string::npos) << control_.texts[0];
  observer->end({});
  EXPECT_EQ(scalars(files()[0]).size(), 12U);
}

}  // namespace
}  // namespace millrace::observer_test
