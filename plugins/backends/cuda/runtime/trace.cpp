#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

struct Stretch {
  double begin, end;
};

// A queue's busy time, in order and without overlaps.
std::vector<Stretch> busy(const std::vector<WorkSpan>& spans, const std::string& queue) {
  std::vector<Stretch> stretches;
  for (const WorkSpan& span : spans) {
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

TraceSummary summarise(const std::vector<WorkSpan>& all, std::size_t warm_up) {
  const std::vector<WorkSpan> spans(all.begin() + static_cast<std::ptrdiff_t>(std::min(warm_up, all.size())), all.end());
  TraceSummary summary;
  if (spans.empty()) return summary;
  double begin = spans.front().begin, end = spans.front().end;
  for (const WorkSpan& span : spans) {
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
std::string trace_json(const std::vector<WorkSpan>& spans, int device) {
  std::string text = fmt::format(R"({{"traceEvents":[
{{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"cuda:{0}"}}}})",
                                 device);
  std::map<std::string, int> queues;
  for (const WorkSpan& span : spans) {
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

TraceRequest TraceRequest::from_environment() {
  const std::string_view profile = cuda::from_environment("MILLRACE_CUDA_PROFILE");
  if (!profile.empty() && profile != "0" && profile != "1")
    fail(ErrorKind::usage, "MILLRACE_CUDA_PROFILE = '{}': expected 0 or 1", profile);
  return {.prints = profile == "1", .file = cuda::from_environment("MILLRACE_CUDA_TRACE")};
}

void TraceRequest::finish(Machine& machine, const std::vector<WorkSpan>& spans, const std::string& engines) const noexcept {
  try {
    const int device = machine.info().index;
    if (prints) {
      const TraceSummary summary = summarise(spans, spans.size() / 4);
      std::string text = fmt::format(
          "MILLRACE_CUDA_PROFILE:\n"
          "cuda:{}: {:.1f} ms of work looked at; compute idled {:.1f} %; {:.1f} % of the copies ran under compute\n",
          device, 1e3 * summary.seconds, 100 * summary.compute_idle, 100 * summary.copies_hidden);
      for (const auto& [what, seconds] : summary.by_work) text += fmt::format("  {:<24} {:9.3f} ms\n", what, 1e3 * seconds);
      machine.warn(text + engines);
    }
    if (file.empty()) return;
    const std::string name = device == 0 ? file : fmt::format("{}.{}", file, device);
    std::FILE* out = std::fopen(name.c_str(), "w");
    const std::string text = trace_json(spans, device);
    const bool written = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
    if (out != nullptr) std::fclose(out);
    if (!written) machine.warn(fmt::format("the trace could not be written to '{}'", name));
  } catch (const std::exception& error) {
    machine.warn(fmt::format("no trace: {}", error.what()));
  }
}

}  // namespace millrace::cuda
