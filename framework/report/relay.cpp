#include "report/relay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread_name.h"
#include "millrace/error.h"
#include "millrace/util/telemetry_event.h"
#include "millrace/util/wire.h"

namespace millrace {
namespace {

enum class Kind : std::uint8_t { report, bad_sample, warning, devices };

std::vector<DeviceTelemetry> devices_in(WireReader& reader) {
  std::vector<DeviceTelemetry> devices(reader.get<std::size_t>());
  for (DeviceTelemetry& device : devices) {
    device.name = reader.get<std::string>();
    device.replica = reader.get<int>();
    device.rank = reader.get<int>();
    for (double* time : {&device.compute_seconds, &device.copy_seconds, &device.communication_seconds, &device.update_seconds}) {
      *time = reader.get<double>();
    }
    device.memory_bytes = reader.get<std::size_t>();
  }
  return devices;
}

}  // namespace

void Reporter::send(const RunServices::StepReport& report, std::uint64_t pass) {
  WireWriter writer;
  writer.put(Kind::report)
      .put(pass)
      .put(report.graph)
      .put(report.epoch)
      .put(report.step)
      .put(report.stream_hash)
      .put(report.samples);
  writer.put(report.sums.values);
  writer.put(report.auxiliary.size());
  for (const auto& [name, sums] : report.auxiliary) writer.put(name).put(sums.values);
  send(writer.bytes());
}

void Reporter::send(const BadSampleEvent& event) {
  WireWriter writer;
  writer.put(Kind::bad_sample).put(event.graph).put(event.place).put(event.path).put(event.member).put(event.offset);
  writer.put(event.stage).put(event.cause).put(event.action).put(event.epoch).put(event.position).put(event.index);
  writer.put(event.attempt);
  send(writer.bytes());
}

void Reporter::send(const WarningEvent& event) {
  WireWriter writer;
  writer.put(Kind::warning).put(event.text);
  send(writer.bytes());
}

void Reporter::send(std::span<const DeviceTelemetry> devices, bool is_last) {
  WireWriter writer;
  writer.put(Kind::devices).put(is_last).put(devices.size());
  for (const DeviceTelemetry& device : devices) {
    writer.put(device.name).put(device.replica).put(device.rank).put(device.compute_seconds).put(device.copy_seconds);
    writer.put(device.communication_seconds).put(device.update_seconds).put(device.memory_bytes);
  }
  send(writer.bytes());
}

void RelayObserver::telemetry(const TelemetryEvent& event) {
  if (event.elapsed_seconds - sent_ < kPeriod) return;
  sent_ = event.elapsed_seconds;
  reporter_.send(event.devices, false);
}

void Reporter::send(std::span<const std::byte> message) {
  const Lock lock(mutex_);
  group_.send(0, Group::kReports, message);
}

std::string ranks_text(const std::set<int>& ranks) {
  constexpr std::size_t kAll = 8, kSome = 4;
  if (ranks.size() <= kAll) return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  return fmt::format("{} ranks ({}, ...)", ranks.size(), fmt::join(ranks.begin(), std::next(ranks.begin(), kSome), ", "));
}

JointWarnings::JointWarnings(Report report, const Patience& patience) : report_(std::move(report)), patience_(patience) {
  thread_ = std::jthread([this] { run(); });
}

JointWarnings::~JointWarnings() {
  const Lock lock(mutex_);
  ends_ = true;
  changed_.notify_all();
}

void JointWarnings::add(int rank, const std::string& text) {
  const Lock lock(mutex_);
  Held& held = held_[text];
  if (held.ranks.empty()) {
    held.due = Clock::now() + std::chrono::duration_cast<Clock::duration>(held.was_reported ? patience_.later : patience_.first);
  }
  held.ranks.insert(rank);
  changed_.notify_all();
}

void JointWarnings::run() {
  name_this_thread("warnings");
  Lock lock(mutex_);
  while (true) {
    const auto next = std::ranges::min_element(
        held_, {}, [](const auto& each) { return each.second.ranks.empty() ? Clock::time_point::max() : each.second.due; });
    const bool holds = next != held_.end() && !next->second.ranks.empty();
    if (holds && (ends_ || next->second.due <= Clock::now())) {
      const std::string text = next->first;
      const std::set<int> ranks = std::exchange(next->second.ranks, {});
      next->second.was_reported = true;
      lock.unlock();
      report_(ranks, text);
      lock.lock();
    } else if (holds) {
      lock.wait_until(changed_, next->second.due);
    } else if (ends_) {
      return;
    } else {
      lock.wait(changed_);
    }
  }
}

ReportReceiver::ReportReceiver(Group& group, Take take) : group_(group), take_(std::move(take)) {
  try {
    warnings_ = std::make_unique<JointWarnings>(take_.warning, JointWarnings::Patience());
    for (int rank = 1; rank < group.size(); ++rank) threads_.emplace_back([this, rank] { listen(rank); });
  } catch (...) {
    const Error error(ErrorKind::run, kNoThread);
    group.leave(&error);
    throw;
  }
}

void ReportReceiver::listen(int rank) {
  name_this_thread("reports");
  std::vector<std::byte> message;
  try {
    while (true) {
      try {
        group_.receive(rank, Group::kReports, message);
      } catch (const Error&) {  // the process has ended; others learn of it elsewhere
        return;
      }
      WireReader reader(message);
      const auto kind = reader.get<Kind>();
      if (kind == Kind::report) {
        const auto pass = reader.get<std::uint64_t>();
        const auto graph = reader.get<std::string>();
        RunServices::StepReport report{.graph = graph, .loss = nullptr, .sums = {}};
        report.epoch = reader.get<std::uint64_t>();
        report.step = reader.get<std::uint64_t>();
        report.stream_hash = reader.get<std::uint64_t>();
        report.samples = reader.get<double>();
        report.sums.values = reader.list<double>();
        for (auto left = reader.get<std::size_t>(); left > 0; --left) {
          StepSums& sums = report.auxiliary[reader.get<std::string>()];
          sums.values = reader.list<double>();
        }
        take_.report(rank, pass, report);
      } else if (kind == Kind::bad_sample) {
        BadSampleEvent event;
        for (std::string* text : {&event.graph, &event.place, &event.path, &event.member}) *text = reader.get<std::string>();
        event.offset = reader.get<std::uint64_t>();
        for (std::string* text : {&event.stage, &event.cause, &event.action}) *text = reader.get<std::string>();
        for (std::uint64_t* number : {&event.epoch, &event.position, &event.index, &event.attempt}) {
          *number = reader.get<std::uint64_t>();
        }
        take_.bad_sample(std::move(event));
      } else if (kind == Kind::devices) {
        const bool is_last = reader.get<bool>();
        std::vector<DeviceTelemetry> devices = devices_in(reader);
        if (take_.devices) take_.devices(rank, std::move(devices), is_last);
      } else {
        warnings_->add(rank, reader.get<std::string>());
      }
    }
  } catch (...) {
    warnings_->add(rank, fmt::format("its reports are no longer received: {}", current_error().what()));
  }
}

std::unique_ptr<JointReports::Report> JointReports::add(int rank, std::uint64_t pass, const RunServices::StepReport& report) {
  const Step key{std::string(report.graph), pass, report.step};
  std::map<int, Report>& reports = open_[key];
  reports[rank] = {key.graph, report};
  if (reports.size() < processes_) return nullptr;
  auto whole = std::make_unique<Report>(std::move(reports.begin()->second));
  for (auto next = std::next(reports.begin()); next != reports.end(); ++next) {
    whole->report.sums.add(next->second.report.sums);
    for (const auto& [name, sums] : next->second.report.auxiliary) whole->report.auxiliary[name].add(sums);
    whole->report.samples += next->second.report.samples;
    if (!whole->report.loss) whole->report.loss = next->second.report.loss;
  }
  whole->report.graph = whole->graph;
  open_.erase(key);
  return whole;
}

}  // namespace millrace
