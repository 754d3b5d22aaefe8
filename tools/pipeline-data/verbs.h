// The verbs of pipeline-data, one file each. A verb reads its own command line (arguments[0] is its name), throws Error, and
// returns the exit code.
#pragma once

namespace millrace {

int shapes_verb(int count, const char* const* arguments);
int count_verb(int count, const char* const* arguments);
int statistics_verb(int count, const char* const* arguments);
int check_verb(int count, const char* const* arguments);
int replay_verb(int count, const char* const* arguments);
int show_verb(int count, const char* const* arguments);
int pack_verb(int count, const char* const* arguments);
int split_verb(int count, const char* const* arguments);
int convert_verb(int count, const char* const* arguments);
int copy_verb(int count, const char* const* arguments);
int hash_verb(int count, const char* const* arguments);

}  // namespace millrace
