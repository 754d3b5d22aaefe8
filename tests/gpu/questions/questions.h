// The questions themselves; table.cpp says what each asks.
#pragma once

#include "question.h"

namespace millrace::gpu {

void ask_device(const Setting& setting, Findings& findings);
void ask_gradient_beta(const Setting& setting, Findings& findings);
void ask_statistics(const Setting& setting, Findings& findings);
void ask_events(const Setting& setting, Findings& findings);
void ask_nccl_two(const Setting& setting, Findings& findings);
void ask_gradient_add(const Setting& setting, Findings& findings);
void ask_epilogues(const Setting& setting, Findings& findings);
void ask_weight_gradient(const Setting& setting, Findings& findings);
void ask_copies(const Setting& setting, Findings& findings);
void ask_arena(const Setting& setting, Findings& findings);
void ask_rates(const Setting& setting, Findings& findings);
void ask_launches(const Setting& setting, Findings& findings);
void ask_memory(const Setting& setting, Findings& findings);
void ask_libraries(const Setting& setting, Findings& findings);
void ask_scaled_statistics(const Setting& setting, Findings& findings);
void ask_nccl_one(const Setting& setting, Findings& findings);
void ask_nccl_same_host(const Setting& setting, Findings& findings);

}  // namespace millrace::gpu
