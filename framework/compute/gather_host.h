// Portable kernels of form `gather` on the host.
#pragma once

#include <cstdint>

#include "millrace/kernels/portable_element.h"

namespace millrace::portable {

std::int64_t gather_units(const PortableElement& element);
void run_gather(const PortableElement& element, std::int64_t first_unit, std::int64_t last_unit);

}  // namespace millrace::portable
