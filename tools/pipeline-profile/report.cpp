#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/text_table.h"

namespace millrace {
namespace {

constexpr double kWaitsInside = 0.5;  // a stage whose threads compute for less of their time waits for something

std::string rate_text(double rate) {
  if (rate <= 0) return "-";
  return rate < 10 ? fmt::format("{:.2f}", rate) : grouped(static_cast<std::uint64_t>(rate + 0.5));
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string time_text(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.3g} us", 1e6 * seconds);
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string bytes_text(double bytes) {
  if (bytes <= 0) return "-";
  for (const char* unit : {"B", "kB", "MB"}) {
    if (bytes < 1000) return fmt::format("{:.3g} {}", bytes, unit);
    bytes /= 1000;
  }
  return fmt::format("{:.3g} GB", bytes);
}

// "61 % of the time of the 2 data threads is spent in decode_image"
std::string share_text(const Profile& profile) {
  const Bottleneck& found = profile.bottleneck;
  const auto stage = std::ranges::find(profile.stages, found.name, &Profile::Stage::name);
  const std::string share = percent(found.share);
  switch (found.kind) {
    case Bottleneck::Kind::unknown: return "it did nothing that was measured";
    case Bottleneck::Kind::device: return fmt::format("the device spends {} of the time on {}", share, found.name);
    case Bottleneck::Kind::credit:
      return fmt::format("for {} of the time no batch was free to be read into, while threads were idle", share);
    case Bottleneck::Kind::ranks:
      return fmt::format("for {} of the time a batch was ready here, and another rank had none: its own profile shows why",
                         share);
    case Bottleneck::Kind::sums: return fmt::format("devices wait for {} of the time for sums of gradients", share);
    case Bottleneck::Kind::standstill: return fmt::format("training pauses for {} of the time, for {}", share, found.name);
    case Bottleneck::Kind::data: break;
  }
  const std::string on = stage == profile.stages.end() ? "" : stage->on;
  const std::string threads = on == "io"                  ? fmt::format("the {} I/O threads", profile.io_threads)
                              : on == "one"               ? "the one thread that a serial stage has"
                              : profile.data_threads == 1 ? "the one data thread"
                                                          : fmt::format("the {} data threads", profile.data_threads);
  return fmt::format("{} of the time of {} is spent in {}", share, threads, found.name);
}

std::string inside_text(const Profile& profile) {
  const Bottleneck& found = profile.bottleneck;
  if (found.kind != Bottleneck::Kind::data || found.computing_share >= kWaitsInside) return {};
  const bool reads = std::ranges::any_of(
      profile.stages, [&](const Profile::Stage& stage) { return stage.name == found.name && stage.on == "io"; });
  return fmt::format(" Its threads compute for {} of that; for the rest they wait for {}.", percent(found.computing_share),
                     reads ? "the disk or the network" : "a lock, a disk, or a processor that others use");
}

// One slow sample delays its batch.
std::string outlier_text(const Profile& profile) {
  constexpr double kFar = 20;
  for (const Profile::Stage& stage : profile.stages) {
    if (stage.name != profile.bottleneck.name || stage.p50 <= 0 || stage.p99 < kFar * stage.p50) continue;
    if (stage.mean < 2 * stage.p50) continue;  // they are few and fast
    return fmt::format(" Few samples take most of its time: half of them take {} at most, and one in a hundred {} or more.",
                       time_text(stage.p50), time_text(stage.p99));
  }
  return {};
}

// The share of the time in which another device of this rank waits for sums but the named one does not.
double waits_of_others(const Profile& profile) {
  const auto named = static_cast<std::size_t>(profile.bottleneck.replica);
  if (profile.bottleneck.replica < 0 || named >= profile.devices.size()) return 0;
  double most = 0;
  for (const Profile::Device& device : profile.devices) {
    if (device.rank == profile.devices[named].rank) most = std::max(most, device.sums);
  }
  return most - profile.devices[named].sums;
}

// The next step for the reader, in addition to changes with a predicted gain. "" if nothing is a limit.
std::string advice(const Profile& profile) {
  constexpr double kLongWait = 0.2;
  constexpr double kFewImages = 16;  // per step and device; below this the launch cost of operations matters
  const auto stage = std::ranges::find(profile.stages, profile.bottleneck.name, &Profile::Stage::name);
  switch (profile.bottleneck.kind) {
    case Bottleneck::Kind::unknown: return {};
    case Bottleneck::Kind::credit: return "raise `buffers` of the stage that makes batches.";
    case Bottleneck::Kind::ranks: return "look at the profile of that rank, or give it a smaller share with `load` of [run].";
    case Bottleneck::Kind::sums: return "give each device a larger batch, or use fewer devices; --scaling measures both.";
    case Bottleneck::Kind::standstill: return fmt::format("let `every` of [{}] be longer.", profile.bottleneck.name);
    case Bottleneck::Kind::device: {
      if (const double waits = waits_of_others(profile); waits > kLongWait) {
        return fmt::format("give replica {} a smaller share with `load` of [run]: others wait for it for {} of the time.",
                           profile.bottleneck.replica, percent(waits));
      }
      const bool is_known = stage != profile.stages.end() && stage->packets > 0;
      const double images = is_known ? stage->here * profile.seconds / stage->packets : kFewImages;
      if (images < kFewImages) {
        return fmt::format(
            "try a larger batch first: a step has {:.0f} {} on a device, and most of its time goes into starting it.", images,
            images < 1.5 ? "image" : "images");
      }
      return "make the step cheaper with a larger batch, smaller images or a smaller network. --layers 10 names the slowest "
             "layers.";
    }
    case Bottleneck::Kind::data: break;
  }
  if (stage != profile.stages.end() && stage->on == "io") {
    return fmt::format("pack the files into shards (pipeline-data pack), or raise `io_threads` of [run], which is {}.",
                       profile.io_threads);
  }
  if (profile.bottleneck.computing_share < kWaitsInside) {
    return fmt::format("find what {} waits for: other programs on this machine, a lock in its code, a disk or a network.",
                       profile.bottleneck.name);
  }
  if (stage != profile.stages.end() && stage->on == "workers" && profile.data_threads < profile.cores) {
    return fmt::format("raise `threads` of [run], which is {}; the process has {} cores.", profile.data_threads, profile.cores);
  }
  return fmt::format(
      "give {} less to do: smaller images (pipeline-data pack --short-side), a stage `cache` after the stages that are not "
      "random, or "
      "fewer and cheaper changes.",
      profile.bottleneck.name);
}

void add_stages(std::string& text, const Profile& profile) {
  TextTable table({"stage", "on", ">images/s here", ">alone", ">mean", ">p50", ">p99", ">busy", ">cores", ">bytes/s", ">starved",
                   ">wait", ">queued"},
                  0);
  for (const Profile::Stage& stage : profile.stages) {
    table.row({stage.name, stage.on, rate_text(stage.here), rate_text(stage.alone), time_text(stage.mean), time_text(stage.p50),
               time_text(stage.p99), fmt::format("{:.2f}", stage.busy),
               stage.on == "device" ? "-" : fmt::format("{:.2f}", stage.cores), bytes_text(stage.bytes), percent(stage.starved),
               time_text(stage.wait), fmt::format("{:.1f}", stage.level)});
  }
  text += table.text();
}

void add_devices(std::string& text, const Profile& profile) {
  if (profile.devices.empty()) return;
  const bool several = std::ranges::any_of(profile.devices, [](const Profile::Device& device) { return device.rank > 0; });
  TextTable table(
      {"device", several ? ">rank" : ">", ">forward, backward", ">update", ">copy", ">waits for sums", ">idle", ">memory"}, 0);
  for (const Profile::Device& device : profile.devices) {
    table.row({device.name, several ? std::to_string(device.rank) : "", percent(device.forward_backward), percent(device.update),
               percent(device.copy), percent(device.sums), percent(device.idle), bytes_text(device.memory)});
  }
  text += "\n" + table.text();
}

void add_ranks(std::string& text, const Profile& profile) {
  if (profile.ranks.empty()) return;
  text += fmt::format("\n{} ranks; stages, threads and waiting are those of rank {}\n", profile.ranks.size(),
                      profile.ranks.front().rank);
  TextTable table({"rank", ">devices", ">computes", ">waits for sums", ">idle", ">memory"}, 0);
  for (const Profile::Rank& rank : profile.ranks) {
    table.row({std::to_string(rank.rank), std::to_string(rank.devices), percent(rank.computing), percent(rank.sums),
               percent(rank.idle), bytes_text(rank.memory)});
  }
  text += table.text();
}

void add_path(std::string& text, const Profile& profile) {
  double total = 0;
  for (const Profile::Part& part : profile.path) total += part.wait + part.work;
  if (total <= 0) return;
  text += fmt::format("\nfrom file to update, the last images of a step take {} (. waiting, # at work)\n", time_text(total));
  for (const Profile::Part& part : profile.path) {
    const double most = 40 * (part.wait + part.work) / total;
    const auto waits = static_cast<std::size_t>(most * part.wait / std::max(part.wait + part.work, 1e-12));
    text += fmt::format("  {:<18} waits {:>8}, works {:>8}  {}{}\n", part.name, time_text(part.wait), time_text(part.work),
                        std::string(waits, '.'), std::string(static_cast<std::size_t>(most + 0.5) - waits, '#'));
  }
}

constexpr const char* kLegend =
    "\n"
    "on             where the stage runs: I/O threads, workers (the data threads), one data thread at a time, or the device\n"
    "here           images a second in this run\n"
    "alone          images a second of one thread, or of the device, if it never waited\n"
    "mean p50 p99   time of one image in the stage: on average, of the median, of the slowest hundredth\n"
    "busy           threads in the stage, on average; for a device, the share of its time\n"
    "cores          of these threads, those that compute. The others wait: for a disk, a lock, or a core\n"
    "starved        how often the stage was seen with nothing to do\n"
    "wait, queued   time that a packet waits in front of the stage, and packets there, on average. A packet is some images, or a "
    "batch\n";

std::string capitalised(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string change_text(double before, double after) {
  if (before <= 0 || after <= 0) return "-";
  return fmt::format("{:+.0f} %", 100 * (after / before - 1));
}

}  // namespace

std::string summary(const Profile& profile) {
  std::string text = fmt::format("[{}] does {} images/s. Waits for: {}: {}.", profile.graph, rate_text(profile.rate),
                                 profile.bottleneck.text(), share_text(profile));
  text += inside_text(profile) + outlier_text(profile);
  text += "\n";
  for (const Profile::Gain& gain : profile.gains) {
    const std::string then =
        gain.then == "the same" ? "the run would still wait for it" : fmt::format("then the run waits for {}", gain.then);
    text += fmt::format("{} would give up to {} images/s ({}); {}.\n", capitalised(gain.change), rate_text(gain.rate),
                        change_text(profile.rate, gain.rate), then);
  }
  if (const std::string next = advice(profile); !next.empty()) {
    text += fmt::format("What to do: {} --suggest predicts what other settings would give.\n", next);
  }
  return text;
}

std::string report(const Profile& profile) {
  std::string text = summary(profile) + "\n";
  add_stages(text, profile);
  add_devices(text, profile);
  add_ranks(text, profile);
  add_path(text, profile);
  text += kLegend;
  if (profile.waited_for_data + profile.waited_for_step > 0) {
    text += fmt::format("\nThe training step waited for data for {} of the time, and data for the training step for {}.\n",
                        percent(profile.waited_for_data), percent(profile.waited_for_step));
  }
  return text;
}

std::string comparison(const Profile& before, const Profile& after) {
  std::string text =
      fmt::format("{} -> {} images/s ({}). Waits for: {} -> {}.\n\n", rate_text(before.rate), rate_text(after.rate),
                  change_text(before.rate, after.rate), before.bottleneck.text(), after.bottleneck.text());
  TextTable stages({"stage", ">alone", ">then", ">", ">mean", ">then", ">p99", ">then", ">busy", ">then"}, 0);
  for (const Profile::Stage& now : after.stages) {
    const auto then = std::ranges::find(before.stages, now.name, &Profile::Stage::name);
    const Profile::Stage was = then == before.stages.end() ? Profile::Stage{} : *then;
    stages.row({now.name, rate_text(was.alone), rate_text(now.alone), change_text(was.alone, now.alone), time_text(was.mean),
                time_text(now.mean), time_text(was.p99), time_text(now.p99), fmt::format("{:.2f}", was.busy),
                fmt::format("{:.2f}", now.busy)});
  }
  for (const Profile::Stage& was : before.stages) {
    if (std::ranges::find(after.stages, was.name, &Profile::Stage::name) != after.stages.end()) continue;
    stages.row({was.name, rate_text(was.alone), "gone"});
  }
  text += stages.text();
  TextTable devices({"device", ">idle", ">then", ">waits for sums", ">then"}, 0);
  for (std::size_t d = 0; d < std::min(before.devices.size(), after.devices.size()); ++d) {
    devices.row({after.devices[d].name, percent(before.devices[d].idle), percent(after.devices[d].idle),
                 percent(before.devices[d].sums), percent(after.devices[d].sums)});
  }
  return devices.empty() ? text : text + "\n" + devices.text();
}

}  // namespace millrace
