// What a run leaves for the person who asked.
#pragma once

#include "journal.h"
#include "setting.h"

namespace millrace::gpu {

// results.json and results.tar.gz in setting.out, from the state folder. Each appears whole or stays as it was. In the archive:
// results.json, the journal, the engine plans, the answers of the device, a trace, and logs, cut; it stays under 12 MiB, and
// results.json beside it names what did not fit. Returns what stands in results.json.
Json publish(const Setting& setting);

}  // namespace millrace::gpu
