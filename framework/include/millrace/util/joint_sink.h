// Sinks of predictions in runs of several processes.
//
//   class CountCats : public millrace::Stage, public millrace::JointSink {
//     CountCats(const Params&, const millrace::StageSite& site) : JointSink(site) {}
//     ...
//     void finish() {  // after share.last
//       gather(millrace::WireWriter().put(cats_), [this](millrace::WireReader& other) { cats_ += other.get<double>(); });
//       if (is_first()) write_file();
//     }
//   };
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/stage.h"
#include "millrace/util/group.h"
#include "millrace/util/output_file.h"
#include "millrace/util/paths.h"
#include "millrace/util/wire.h"

namespace millrace {

// A sink that supports runs of several processes: in each process it receives that process's samples, and after a pass the first
// process gathers all results and writes. Such runs refuse other sinks.
//
// Threading: calls wait for the same calls of the same stage in the other processes, so make them on the thread of a
// PredictionLine, in the same order everywhere. Errors: Error(peer) if a process has exited.
class JointSink {
 public:
  explicit JointSink(const StageSite& site) : group_(site.group != nullptr && site.group->size() > 1 ? site.group : nullptr) {}
  virtual ~JointSink() = default;

  // The run calls this before open(), with the sink's index in the file. Each sink has its own channel.
  void set_number(std::uint32_t number) { channel_ = kFirstChannel + number; }

  bool is_first() const { return group_ == nullptr || group_->rank() == 0; }

  // Calls `add` in the first process with the data of each other process, in order of rank.
  template <class Add>
  void gather(const WireWriter& mine, const Add& add) {
    if (group_ == nullptr) return;
    if (!is_first()) return group_->send(0, channel_, mine.bytes());
    std::vector<std::byte> bytes;
    for (int rank = 1; rank < group_->size(); ++rank) {
      group_->receive(rank, channel_, bytes);
      WireReader other(bytes);
      add(other);
    }
  }

  // Rows with a `position` in the source: the first process receives all rows, in the source's order. `put` writes the rest of a
  // row, and `get` reads it.
  template <class Row, class Put, class Get>
  void gather_rows(std::vector<Row>& rows, const Put& put, const Get& get) {
    WireWriter mine;
    for (const Row& row : rows) put(mine.put(row.position), row);
    gather(mine, [&](WireReader& other) {
      while (!other.is_done()) {
        Row& row = rows.emplace_back();
        row.position = other.get<std::uint64_t>();
        get(other, row);
      }
    });
    std::ranges::stable_sort(rows, {}, &Row::position);
  }

  // Replaces the bytes of all others by those of the first process.
  void share(std::vector<std::byte>& bytes) {
    if (group_ != nullptr) group_->broadcast(channel_, 0, bytes);
  }

  // Call after gather(): the first process reports the metrics to the run.
  void report_figures(const StageSite& site, const std::vector<Figure>& figures) const {
    if (!is_first() || site.run == nullptr) return;
    for (const Figure& figure : figures) site.run->figure(site.graph, figure);
  }

  // For open(): output_folder(), where the first process writes. Returns "" if this process writes nothing: it is not the first;
  // or the run has no folder and `folder` is not absolute, for which it only warns, since validation without a folder is allowed.
  std::string folder_of_first(const StageSite& site, std::string_view key, const std::string& folder,
                              std::string_view file) const {
    if (!is_first()) return {};
    const bool is_absolute = std::filesystem::path(local_path(key, folder)).is_absolute();
    if (is_absolute || site.run == nullptr || !site.run->output_folder().empty()) return output_folder(site, key, folder, file);
    site.run->warn(fmt::format(
        "{}: it writes nothing, since the run has no folder: set run.folder, or give `{}` a path that begins with '/'",
        site.place(), key));
    return {};
  }

 private:
  static constexpr std::uint32_t kFirstChannel = Group::kFirstFree + 64;

  Group* group_;  // null: single process
  std::uint32_t channel_ = kFirstChannel;
};

}  // namespace millrace
