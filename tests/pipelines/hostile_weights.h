// Files of weights that mean harm, made of one good file: recipes that name stages, paths and addresses that are none of theirs,
// sizes without end, nesting without end, headers that lie, pickles that call programs. Drawn from a seed, so that nothing is
// stored.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace millrace::test {

struct HostileFile {
  std::string kind;  // what it tries, for messages
  std::string name;  // of the file, "7.safetensors"
  std::string bytes;
};

// `good`: the bytes of weights with a recipe. `victim`: a path that no file here may reach; what it holds is for the caller to
// compare. The first ones are one of each kind.
std::vector<HostileFile> hostile_weights(const std::string& good, const std::string& victim, std::size_t count);
std::size_t kinds_of_hostile_weights();

}  // namespace millrace::test
