#include "weights/weights_writer.h"

#include <fmt/format.h>

#include "millrace/error.h"
#include "util/scratch_folder.h"

namespace millrace {

namespace fs = std::filesystem;

fs::path WeightsWriter::best_path() const { return setting_.folder / kBestWeights; }

void WeightsWriter::exchange() {
  for (const auto& replica : view_.replicas) {
    if (!view_.evaluated.empty()) replica->swap_with(view_.evaluated);
    replica->finish();
  }
}

// `use` reads the replicas' values while it writes them.
void WeightsWriter::with_weights(const std::function<void(WeightsFile& weights)>& use, const Metadata& more) {
  if (!setting_.writes) return;
  Metadata metadata = setting_.metadata();
  metadata.insert(more.begin(), more.end());
  exchange();
  const auto put_back = [&] {  // a device lost from now on costs nothing, unless averages were exchanged
    if (!view_.evaluated.empty()) exchange();
  };
  try {
    const auto statistics = mean_statistics(view_.replicas, view_.network, view_.load, view_.group);
    const auto fetch = [&](int parameter) {
      const auto found = statistics.find(parameter);
      return found != statistics.end() ? found->second : view_.replicas.front()->read(kValue, parameter);
    };
    WeightsFile weights(view_.network, fetch, std::move(metadata));
    if (!setting_.folder.empty()) use(weights);
  } catch (...) {
    const Error error = current_error();
    put_back();
    throw error;
  }
  put_back();
}

void WeightsWriter::write(const WeightsFile& weights, const fs::path& path) const {
  try {
    weights.write(path.string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::run) throw setting_.advise(error);
    throw;
  }
}

std::string WeightsWriter::save(const std::string& name) {
  std::string file;
  with_weights([&](WeightsFile& weights) {
    const fs::path path = setting_.folder / name;
    write(weights, path);
    file = path.string();
  });
  return file;
}

std::string WeightsWriter::save_last(std::uint64_t step) {
  std::string file;
  const auto write_or_rescue = [&](const WeightsFile& weights) {
    const fs::path path = setting_.folder / kLastWeights;
    try {
      write(weights, path);
      file = path.string();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::storage) throw;
      rescue(weights, kLastWeights, "the weights are not written", error.what());
    }
  };
  with_weights(write_or_rescue, metadata_of_last(step));
  return file;
}

// False if the disk failed; the weights are kept.
bool WeightsWriter::write_best(const Best& best, WeightsFile weights) {
  waiting_.reset();
  try {
    write(weights, best_path());
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::storage) throw;
    weights.keep(best_path().string());
    waiting_ = Waiting{best, std::move(weights), error.what()};
  }
  if (!std::exchange(is_reported_, true)) {
    setting_.warn(
        fmt::format("the best weights, after step {}, stay in memory for another attempt: {}", best.step, waiting_->cause));
  }
  return false;
}

void WeightsWriter::save_best(const Best& best) {
  try {
    with_weights(
        [&](WeightsFile& weights) {
          if (write_best(best, std::move(weights))) setting_.report_best(best, best_path().string(), "");
        },
        metadata_of(best));
  } catch (const Error& error) {
    setting_.report_best(best, best_path().string(), error.what());
  }
}

void WeightsWriter::export_best(const Best& best, const WeightsFile::Fetch& values) {
  Metadata metadata = export_metadata_;
  metadata.merge(metadata_of(best));
  const bool is_written = write_best(best, WeightsFile(view_.network, values, std::move(metadata)));
  if (is_written && setting_.reports_exports) setting_.report_best(best, best_path().string(), "");
}

void WeightsWriter::resume_best(const std::string& figure, const std::optional<Best>& known,
                                const std::optional<WeightsFile::Fetch>& values, bool rewinds_history) {
  const fs::path path = best_path();
  const std::optional<Best> there = best_there();
  std::error_code ignored;
  const bool is_unreadable = !there && fs::exists(path, ignored);
  if (there == known || is_unreadable) return;
  // A later step will repeat: its weights are on the disk, but its checkpoint is not.
  const bool is_later = there && known && there->figure == known->figure && there->step > known->step;
  if (is_later && !rewinds_history) return;
  const bool is_other = there && there->figure != figure;
  if (there && (rewinds_history || is_other)) {
    const char* const of = rewinds_history ? " of an abandoned branch of the run" : "";
    try {
      const fs::path aside = set_aside(path, *there);
      setting_.warn(fmt::format("the best weights{}, {} = {} after step {}, are in '{}' now; {}", of, there->figure, there->value,
                                there->step, aside.string(),
                                known && values  ? fmt::format("'{}' holds those after step {} again", path.string(), known->step)
                                : figure.empty() ? "run.best names no figure, so the last weights are the run's"
                                                 : "the next value counts as the best"));
    } catch (const Error& error) {
      return setting_.warn(fmt::format("'{}' holds the best weights{} by {}, after step {}: {}", path.string(), of, there->figure,
                                       there->step, error.what()));
    }
  }
  if (known && values) export_best(*known, *values);
  if (known && !values && !there) {
    setting_.warn(fmt::format("'{}' is missing, and no checkpoint for this network holds the best weights, after step {}",
                              path.string(), known->step));
  }
}

void WeightsWriter::retry_best() {
  if (!waiting_) return;
  try {
    write(waiting_->weights, best_path());
  } catch (const Error& error) {
    waiting_->cause = error.what();
    return;
  }
  const Best written = waiting_->best;
  waiting_.reset();
  setting_.report_best(written, best_path().string(), "");
}

std::string WeightsWriter::finish_best() {
  retry_best();
  if (!waiting_) return {};
  const std::string text =
      rescue(waiting_->weights, kBestWeights,
             fmt::format("the best weights, after step {}, are not written", waiting_->best.step), waiting_->cause);
  waiting_.reset();
  return text;
}

std::string WeightsWriter::rescue(const WeightsFile& weights, const std::string& name, const std::string& what,
                                  const std::string& cause) {
  std::string text = fmt::format("{}: {}", what, cause);
  const bool is_asked = !setting_.rescue.empty();
  try {
    if (rescue_.empty()) rescue_ = is_asked ? setting_.rescue : make_scratch_folder("rescue");
    const std::string instead = (rescue_ / name).string();
    weights.write(instead);
    text += fmt::format("; they are in '{}' instead", instead);
  } catch (const Error& error) {
    text += fmt::format("; {}: {}", is_asked ? "--rescue" : "nor among temporary files", error.what());
  }
  lost_ += (lost_.empty() ? "" : "; ") + text;
  return text;
}

}  // namespace millrace
