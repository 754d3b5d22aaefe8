#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "millrace/error.h"

#if __has_include(<nvtx3/nvToolsExt.h>)  // header-only, from the CUDA toolkit
#include <nvtx3/nvToolsExt.h>
#else
static void nvtxRangePushA(const char*) {}
static void nvtxRangePop() {}
#endif

namespace millrace::cuda {
namespace {

// A profiler that uses NVTX sets this for its child, this process. Without one no text is made.
bool is_profiled() {
  static const bool profiled = std::getenv("NVTX_INJECTION64_PATH") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  return profiled;
}

struct Stretch {
  double begin, end;
};

// A queue's busy time, in order and without overlaps.
std::vector<Stretch> busy(const std::vector<TraceSpan>& spans, const std::string& queue) {
  std::vector<Stretch> stretches;
  for (const TraceSpan& span : spans) {
    if (span.queue == queue && span.end > span.begin) stretches.push_back({span.begin, span.end});
  }
  std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  std::vector<Stretch> merged;
  for (const Stretch& stretch : stretches) {
    if (merged.empty() || stretch.begin > merged.back().end)
      merged.push_back(stretch);
    else
      merged.back().end = std::max(merged.back().end, stretch.end);
  }
  return merged;
}

double total(const std::vector<Stretch>& stretches) {
  double sum = 0;
  for (const Stretch& stretch : stretches) sum += stretch.end - stretch.begin;
  return sum;
}

double common(const std::vector<Stretch>& a, const std::vector<Stretch>& b) {
  double sum = 0;
  for (const Stretch& one : a) {
    for (const Stretch& other : b) sum += std::max(0.0, std::min(one.end, other.end) - std::max(one.begin, other.begin));
  }
  return sum;
}

const char* from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

TraceSummary summarise(const std::vector<TraceSpan>& all, std::size_t warm_up) {
  const std::vector<TraceSpan> spans(all.begin() + static_cast<std::ptrdiff_t>(std::min(warm_up, all.size())), all.end());
  TraceSummary summary;
  if (spans.empty()) return summary;
  double begin = spans.front().begin, end = spans.front().end;
  for (const TraceSpan& span : spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
    const std::string name = span.queue + ": " + span.what;
    const auto known =
        std::find_if(summary.by_work.begin(), summary.by_work.end(), [&](const auto& e) { return e.first == name; });
    const double seconds = span.end - span.begin;
    if (known == summary.by_work.end())
      summary.by_work.emplace_back(name, seconds);
    else
      known->second += seconds;
  }
  const std::vector<Stretch> compute = busy(spans, "compute"), copies = busy(spans, "copy");
  summary.seconds = end - begin;
  if (summary.seconds > 0) summary.compute_idle = 1 - total(compute) / summary.seconds;
  summary.copies_hidden = copies.empty() ? 1 : common(copies, compute) / total(copies);
  return summary;
}

// The trace event format: complete events ("X") in microseconds, a process for the device, a thread for each queue.
std::string trace_json(const std::vector<TraceSpan>& spans, int device) {
  std::string text = fmt::format(R"({{"traceEvents":[
{{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"cuda:{0}"}}}})",
                                 device);
  std::map<std::string, int> queues;
  for (const TraceSpan& span : spans) {
    const auto [queue, is_new] = queues.try_emplace(span.queue, static_cast<int>(queues.size()));
    if (is_new) {
      text += fmt::format(
          ",\n"
          R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
          device, queue->second, span.queue);
    }
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        span.what, device, queue->second, span.begin * 1e6, (span.end - span.begin) * 1e6);
  }
  return text + "\n]}\n";
}

std::unique_ptr<StepTrace> StepTrace::from_environment(Machine& machine) {
  const std::string file = cuda::from_environment("MILLRACE_CUDA_TRACE");
  const std::string_view profile = cuda::from_environment("MILLRACE_CUDA_PROFILE");
  const bool print = profile == "1";
  if (!print && !profile.empty() && profile != "0")
    fail(ErrorKind::usage, "MILLRACE_CUDA_PROFILE = '{}': expected 0 or 1", profile);
  return file.empty() && !print ? nullptr : std::make_unique<StepTrace>(machine, print, file);
}

bool StepTrace::begin_piece() {
  const std::lock_guard lock(mutex_);
  return begun_++ < kMaxSpans;
}

StepTrace::Piece::Piece(StepTrace* trace, Queue& queue, std::string name, const char* what)
    : trace_(trace != nullptr && trace->begin_piece() ? trace : nullptr), queue_(queue), name_(std::move(name)), what_(what) {
  if (is_profiled()) nvtxRangePushA((name_ + ": " + what).c_str());
  if (trace_ != nullptr) begin_ = queue.timed_mark();
}

StepTrace::Piece::~Piece() {
  if (is_profiled()) nvtxRangePop();
  if (trace_ == nullptr) return;
  try {
    Ref<Mark> end = queue_.timed_mark();
    const std::lock_guard lock(trace_->mutex_);
    trace_->taken_.push_back({std::move(name_), what_, std::move(begin_), std::move(end)});
  } catch (const Error&) {  // the device has failed; its next user gets the error
  }
}

std::vector<TraceSpan> StepTrace::spans() const {
  const std::lock_guard lock(mutex_);
  std::vector<TraceSpan> spans;
  for (const Taken& taken : taken_) {
    const Event& origin = *taken_.front().begin;
    spans.push_back(
        {taken.queue, taken.what, machine_.seconds_between(origin, *taken.begin), machine_.seconds_between(origin, *taken.end)});
  }
  return spans;
}

void StepTrace::finish(const std::string& engines) const noexcept {
  try {
    const std::vector<TraceSpan> all = spans();
    if (print_) {
      const TraceSummary summary = summarise(all, all.size() / 4);
      std::string text = fmt::format(
          "MILLRACE_CUDA_PROFILE:\n"
          "cuda:{}: {:.1f} ms of work looked at; compute idled {:.1f} %; {:.1f} % of the copies ran under compute\n",
          machine_.info().index, 1e3 * summary.seconds, 100 * summary.compute_idle, 100 * summary.copies_hidden);
      for (const auto& [what, seconds] : summary.by_work) text += fmt::format("  {:<24} {:9.3f} ms\n", what, 1e3 * seconds);
      machine_.warn(text + engines);
    }
    if (file_.empty()) return;
    const std::string name = machine_.info().index == 0 ? file_ : fmt::format("{}.{}", file_, machine_.info().index);
    std::FILE* file = std::fopen(name.c_str(), "w");
    const std::string text = trace_json(all, machine_.info().index);
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != nullptr) std::fclose(file);
    if (!written) machine_.warn(fmt::format("the trace could not be written to '{}'", name));
  } catch (const std::exception& error) {
    machine_.warn(fmt::format("no trace: {}", error.what()));
  }
}

}  // namespace millrace::cuda
