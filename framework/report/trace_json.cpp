// Chrome's trace format: "Trace Event Format", 2016, from the Catapult project; flows bind to the enclosing slice (bp "e").
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "millrace/util/output_file.h"
#include "report/trace.h"

namespace millrace {
namespace {

// An event of the file, for sorting: by time, and for equal times the longest slices first.
struct JsonEvent {
  std::int64_t at = 0, duration = -1;  // -1: not a slice
  std::string text;
};

std::string json_of(std::string_view text) {
  std::string json;
  append_json(json, text);
  return json;
}

std::string microseconds(std::int64_t nanoseconds) { return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000); }

// A slice and its track.
struct Shown {
  const TracedSlice* slice;
  std::size_t track;  // from 1
  std::int64_t middle() const { return slice->begin + (slice->end - slice->begin) / 2; }
};

class JsonWriter {
 public:
  JsonWriter(const std::vector<TraceTrack>& tracks, int rank) : tracks_(tracks), rank_(rank) {
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      for (const TracedSlice& slice : tracks[i].slices) shown_.push_back({&slice, i + 1});
    }
    std::ranges::stable_sort(shown_, {}, [](const Shown& each) { return each.slice->begin; });
  }

  std::string text() {
    for (const Shown& each : shown_) add_slice(each);
    add_sample_flows();
    add_step_flows();
    add_levels();
    std::ranges::stable_sort(events_, [](const JsonEvent& a, const JsonEvent& b) {
      return std::tuple(a.at, -a.duration) < std::tuple(b.at, -b.duration);
    });
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    text += fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank_, rank_);
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
      text += fmt::format(",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", rank_,
                          i + 1, json_of(tracks_[i].name));
    }
    for (const JsonEvent& event : events_) text.append(",\n").append(event.text);
    return text + "\n]}\n";
  }

 private:
  void add_slice(const Shown& shown) {
    const TracedSlice& slice = *shown.slice;
    std::string args = fmt::format("\"step\":{}", slice.step + 1);
    if (slice.slots > 0) args += fmt::format(R"(,"slots":"{} to {}")", slice.slot, slice.slot + slice.slots - 1);
    if (slice.replica >= 0) args += fmt::format(",\"replica\":{}", slice.replica);
    if (!slice.from.empty()) args += ",\"waited_us\":" + microseconds(std::max<std::int64_t>(slice.begin - slice.sent, 0));
    if (!slice.file.empty()) args += ",\"file\":" + json_of(slice.file);
    const std::int64_t duration = std::max<std::int64_t>(slice.end - slice.begin, 0);
    events_.push_back(
        {slice.begin, duration,
         fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", json_of(slice.name),
                     json_of(slice.graph), rank_, shown.track, microseconds(slice.begin), microseconds(duration), args)});
  }

  // Connects slices. Arrows run from middle to middle, in order of time: viewers drop arrows that point back.
  void add_flow(const char* name, std::vector<const Shown*> through) {
    if (through.size() < 2) return;
    std::ranges::stable_sort(through, {}, &Shown::middle);
    ++flows_;
    for (std::size_t i = 0; i < through.size(); ++i) {
      const char* const phase = i == 0 ? "s" : i + 1 == through.size() ? "f" : "t";
      const std::int64_t at = through[i]->middle();
      events_.push_back({at, -1,
                         fmt::format(R"({{"ph":"{}","name":"{}","cat":"flow","id":{},"pid":{},"tid":{},"ts":{},"bp":"e"}})",
                                     phase, name, flows_, rank_, through[i]->track, microseconds(at))});
    }
  }

  // A chunk's samples: from their source through the stages that work on the chunk to the first one with its batch. A graph that
  // runs again, such as validation, repeats step numbers; each repetition begins at the source.
  void add_sample_flows() {
    std::map<std::tuple<std::string, std::uint64_t, std::uint32_t>, std::vector<const Shown*>> open;
    for (const Shown& each : shown_) {
      const TracedSlice& slice = *each.slice;
      if (slice.slots > 0) {
        std::vector<const Shown*>& chunk = open[{slice.graph, slice.step, slice.slot}];
        if (slice.from.empty()) add_flow("samples", std::exchange(chunk, {}));
        chunk.push_back(&each);
        continue;
      }
      const auto first = open.lower_bound({slice.graph, slice.step, 0});
      auto last = first;
      for (; last != open.end() && is_of(last->first, slice); ++last) {
        last->second.push_back(&each);
        add_flow("samples", last->second);
      }
      open.erase(first, last);
    }
    for (const auto& [key, chunk] : open) add_flow("samples", chunk);
  }
  static bool is_of(const std::tuple<std::string, std::uint64_t, std::uint32_t>& key, const TracedSlice& slice) {
    return std::get<0>(key) == slice.graph && std::get<1>(key) == slice.step;
  }

  // A step: through the stages that have its whole batch, its results, and devices. A repeated step begins with samples.
  void add_step_flows() {
    std::map<std::pair<std::string, std::uint64_t>, std::vector<const Shown*>> steps;
    for (const Shown& each : shown_) {
      std::vector<const Shown*>& step = steps[{each.slice->graph, each.slice->step}];
      if (each.slice->slots == 0) {
        step.push_back(&each);
      } else if (!step.empty()) {
        add_flow("step", std::exchange(step, {}));
      }
    }
    for (const auto& [key, step] : steps) add_flow("step", step);
  }

  // Adds a packet when it is sent, and removes it when it is received. Changes at the same time are merged.
  void add_levels() {
    std::map<std::string, std::map<std::int64_t, int>> edges;
    for (const Shown& each : shown_) {
      const TracedSlice& slice = *each.slice;
      if (slice.from.empty() || slice.sent >= slice.begin) continue;
      std::map<std::int64_t, int>& changes = edges[fmt::format("{}: {} to {}", slice.graph, slice.from, slice.name)];
      ++changes[slice.sent];
      --changes[slice.begin];
    }
    for (const auto& [edge, changes] : edges) {
      int level = 0;
      for (const auto& [at, change] : changes) {
        if (change == 0) continue;
        level += change;
        events_.push_back({at, -1,
                           fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"packets":{}}}}})", json_of(edge), rank_,
                                       microseconds(at), level)});
      }
    }
  }

  const std::vector<TraceTrack>& tracks_;
  const int rank_;
  std::vector<Shown> shown_;  // ordered by time
  std::vector<JsonEvent> events_;
  std::uint64_t flows_ = 0;
};

}  // namespace

std::string trace_json(const std::vector<TraceTrack>& tracks, int rank) { return JsonWriter(tracks, rank).text(); }

}  // namespace millrace
