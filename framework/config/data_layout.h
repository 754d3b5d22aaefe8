// Locates data. A base file gives only `data.path`: its content decides which stage reads it, and which part each graph uses. The
// result is the same pipeline as if the file had specified them.
//
// [data] may have these keys, in addition to the file's own variables:
//   path       a folder, a list (.csv, .tsv, .jsonl), tar shards, or a URL of one of them
//   holds      the kind of targets: "classes", "masks", "images", "numbers" or "labels", which are numbers 0 and 1
//   annotations  a file or folder of annotations, whose images are in `path`; or { train = ..., validate = ... }
//   held_out   the share of each class that is kept for validation if `path` has no part for it
//   classes, label, leave_out, unpaired, empty, samples, margin, file, root, ending, format, encoding   keys of the source, for all
//              parts
//   train, validate   if the two are in different places: `train` instead of `path`, `validate` in addition to either
// A folder's parts are found under their usual names: train, training; val, valid, validation, test, testing. Masks are found in
// the layouts of Cityscapes, CamVid, ADE20K and PASCAL VOC, in neighbouring folders, and in one folder by endings of names, or as
// x.png next to x.jpg. Storages that list folders, such as S3, are searched like local folders. An unreadable entry named after a
// part, such as a broken link, is an error: a share of another part must not replace it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Completes the table of stage `read` of each graph that does not name the stage's type: the main graph reads the training data,
// the others the held-out data. Keys in these tables are kept. Throws Error(data) or Error(storage) for folders that cannot be
// listed. `whole`: each graph reads all data without parts. `referred`: receives the used keys of [data]. Returns false after a
// mistake, which is in `errors`. `warnings`: receives folders that seem relevant but are left out.
bool place_data(Value& root, const Registry& registry, bool whole, std::set<std::string>& referred, Diagnostics& errors,
                std::vector<std::string>& warnings);

}  // namespace millrace
