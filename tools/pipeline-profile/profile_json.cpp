#include <algorithm>
#include <array>
#include <stdexcept>

#include "millrace/error.h"
#include "report.h"
#include "rows.h"

namespace millrace {

template <>
inline constexpr auto kRowMembers<Profile::Stage> =
    std::tuple(RowMember{"name", &Profile::Stage::name}, RowMember{"on", &Profile::Stage::on},
               RowMember{"images_per_second", &Profile::Stage::here}, RowMember{"alone_per_second", &Profile::Stage::alone},
               RowMember{"mean_seconds", &Profile::Stage::mean}, RowMember{"p50_seconds", &Profile::Stage::p50},
               RowMember{"p99_seconds", &Profile::Stage::p99}, RowMember{"busy", &Profile::Stage::busy},
               RowMember{"cores", &Profile::Stage::cores}, RowMember{"bytes_per_second", &Profile::Stage::bytes},
               RowMember{"starved", &Profile::Stage::starved}, RowMember{"waits_for_credit", &Profile::Stage::waits_for_credit},
               RowMember{"wait_seconds", &Profile::Stage::wait}, RowMember{"level", &Profile::Stage::level},
               RowMember{"packets", &Profile::Stage::packets});

template <>
inline constexpr auto kRowMembers<Profile::Device> =
    std::tuple(RowMember{"name", &Profile::Device::name}, RowMember{"rank", &Profile::Device::rank},
               RowMember{"forward_backward", &Profile::Device::forward_backward}, RowMember{"update", &Profile::Device::update},
               RowMember{"copy", &Profile::Device::copy}, RowMember{"waits_for_sums", &Profile::Device::sums},
               RowMember{"idle", &Profile::Device::idle}, RowMember{"memory_bytes", &Profile::Device::memory});

template <>
inline constexpr auto kRowMembers<Profile::Rank> = std::tuple(RowMember{"rank", &Profile::Rank::rank},
                                                              RowMember{"devices", &Profile::Rank::devices},
                                                              RowMember{"computing", &Profile::Rank::computing},
                                                              RowMember{"waits_for_sums", &Profile::Rank::sums},
                                                              RowMember{"idle", &Profile::Rank::idle},
                                                              RowMember{"memory_bytes", &Profile::Rank::memory});

template <>
inline constexpr auto kRowMembers<Profile::Part> = std::tuple(RowMember{"name", &Profile::Part::name},
                                                              RowMember{"wait_seconds", &Profile::Part::wait},
                                                              RowMember{"work_seconds", &Profile::Part::work});

template <>
inline constexpr auto kRowMembers<Profile::Gain> = std::tuple(RowMember{"change", &Profile::Gain::change},
                                                              RowMember{"images_per_second", &Profile::Gain::rate},
                                                              RowMember{"then_bound_by", &Profile::Gain::then});

template <>
inline constexpr auto kRowMembers<Profile> =
    std::tuple(RowMember{"file", &Profile::file}, RowMember{"graph", &Profile::graph}, RowMember{"seconds", &Profile::seconds},
               RowMember{"steps", &Profile::steps}, RowMember{"images_per_second", &Profile::rate},
               RowMember{"data_threads", &Profile::data_threads}, RowMember{"io_threads", &Profile::io_threads},
               RowMember{"cores", &Profile::cores}, RowMember{"waited_for_data", &Profile::waited_for_data},
               RowMember{"waited_for_step", &Profile::waited_for_step});

namespace {

constexpr int kVersion = 1;

constexpr std::array kKinds = {"unknown", "device", "data", "credit", "sums", "standstill"};  // parallel to Bottleneck::Kind

}  // namespace

std::string to_json(const Profile& profile) {
  Json json{{"pipeline_profile", kVersion}};
  json.update(json_of(profile));
  const Bottleneck& found = profile.bottleneck;
  json["bottleneck"] = {{"kind", kKinds[static_cast<std::size_t>(found.kind)]},
                        {"name", found.name},
                        {"replica", found.replica},
                        {"share", found.share},
                        {"computing_share", found.computing_share},
                        {"text", found.text()}};
  if (found.device_idle) json["bottleneck"]["device_idle"] = *found.device_idle;
  json["gains"] = json_of(profile.gains);
  json["stages"] = json_of(profile.stages);
  json["devices"] = json_of(profile.devices);
  json["ranks"] = json_of(profile.ranks);
  json["way_of_a_step"] = json_of(profile.path);
  return json.dump(2) + "\n";
}

Profile profile_from_json(std::string_view text, const std::string& file) {
  try {
    const Json json = Json::parse(text);
    if (json.value("pipeline_profile", 0) != kVersion) throw std::invalid_argument("no such report");
    auto profile = row_of<Profile>(json);
    const Json& found = json.at("bottleneck");
    const auto kind = std::ranges::find(kKinds, found.at("kind").get<std::string>());
    if (kind != kKinds.end()) profile.bottleneck.kind = static_cast<Bottleneck::Kind>(kind - kKinds.begin());
    found.at("name").get_to(profile.bottleneck.name);
    found.at("replica").get_to(profile.bottleneck.replica);
    found.at("share").get_to(profile.bottleneck.share);
    if (found.contains("device_idle")) profile.bottleneck.device_idle = found.at("device_idle").get<double>();
    found.at("computing_share").get_to(profile.bottleneck.computing_share);
    profile.gains = rows_of<Profile::Gain>(json.at("gains"));
    profile.stages = rows_of<Profile::Stage>(json.at("stages"));
    profile.devices = rows_of<Profile::Device>(json.at("devices"));
    if (json.contains("ranks")) profile.ranks = rows_of<Profile::Rank>(json.at("ranks"));
    profile.path = rows_of<Profile::Part>(json.at("way_of_a_step"));
    return profile;
  } catch (const std::exception&) {
    fail(ErrorKind::data, "'{}' is not a report of pipeline-profile --json: make one with `pipeline-profile FILE --json > {}`",
         file, file);
  }
}

}  // namespace millrace
