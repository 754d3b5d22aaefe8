// Where data lie. A base file says no more than `data.path`: what is found there decides which stage reads it, and which part of
// it each graph takes. From here on the pipeline is as if the file had said so.
//
// [data] may hold, beside variables of the file's own:
//   path       a folder, a list (.csv, .tsv, .jsonl), tar shards, or a URL of one of them
//   holds      what the images are trained on: "classes", "masks", "images" or "numbers"
//   held_out   the share of each class that is kept for validation where `path` holds no part for it
//   classes, label, leave_out, unpaired, file, root, ending, format, encoding   keys of the source, for all parts
//   train, validate   where the two lie apart: `train` instead of `path`, `validate` beside either of them
// A folder's parts are found under their usual names: train, training; val, valid, validation, test, testing. Masks are found in
// the layouts of Cityscapes, CamVid, ADE20K and PASCAL VOC, in folders side by side, and in one folder under names with endings,
// or as x.png beside x.jpg. Storages that list folders, such as S3, are looked into like folders of this machine. What is named
// after a part and cannot be read, as a link that leads nowhere, is an error: a share of another part must not take its place.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Completes the table of stage `read` of each graph whose table names no type of stage: that of the run itself reads what is
// trained on, the others what is held out. What a file says in these tables stays. Error(data) or Error(storage) for folders
// that cannot be looked into.
// `whole`: each graph reads all of what has no parts. `referred`: gets the keys of [data] that are used. False: a mistake, which
// is in `errors`. `warnings`: gets folders that seem meant and are left out.
bool place_data(Value& root, const Registry& registry, bool whole, std::set<std::string>& referred, Diagnostics& errors,
                std::vector<std::string>& warnings);

}  // namespace millrace
