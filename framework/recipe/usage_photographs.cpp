// How photographs of a user are prepared for a network that restores images.
#include <algorithm>

#include "recipe/usage.h"

namespace millrace {
namespace {

constexpr const char *kDecode = "decode_image", *kNoise = "noise", *kCrop = "crop", *kResize = "resize";

bool says(const Usage::StageUse& stage, const char* key, const char* text) {
  const Value* const value = stage.table.find(key);
  return value != nullptr && value->kind() == Value::Kind::text && value->text() == text;
}

bool resizes(const Usage::StageUse& stage) {
  if (stage.type == kResize) return true;
  return stage.type == kDecode && (says(stage, "fit", "exact") || stage.table.find("short_side") != nullptr);
}

}  // namespace

bool restores(const Usage& usage) {
  const Value* const kind = usage.target.find("kind");
  return usage.output == "image" && kind != nullptr && kind->kind() == Value::Kind::text && kind->text() == "image";
}

bool takes_own_size(const Usage& usage) {
  return restores(usage) && std::none_of(usage.prepare.begin(), usage.prepare.end(), resizes);
}

Usage for_photographs(Usage usage) {
  if (!restores(usage)) return usage;
  const bool own_size = takes_own_size(usage);
  std::erase_if(usage.prepare,
                [&](const Usage::StageUse& stage) { return stage.type == kNoise || (own_size && stage.type == kCrop); });
  for (Usage::StageUse& stage : usage.prepare) {
    if (stage.type != kDecode) continue;
    stage.table.set("shrink", Value("none"));
    if (!own_size) continue;
    stage.table.erase("size");
    stage.table.set("crop", Value("none"));
  }
  return usage;
}

}  // namespace millrace
