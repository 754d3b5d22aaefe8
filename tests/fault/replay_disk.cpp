#include "replay_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace millrace::test {

namespace fs = std::filesystem;

ReplayDisk::ReplayDisk(const std::vector<LoggedCall>& calls) : calls_(calls.size()) {
  for (std::size_t at = 0; at < calls.size(); ++at) {
    if (calls[at].error == 0) take(at, calls[at]);
  }
}

void ReplayDisk::take(std::size_t at, const LoggedCall& call) {
  const auto node = [&] { return open_.at(call.descriptor); };
  if (call.call == "open") return open(at, call);
  if (call.call == "rename" || call.call == "renameat2") return move(at, call);
  if (call.call == "fsync") return sync(at, node());
  if (call.call == "close") {
    open_.erase(call.descriptor);
  } else if (call.call == "write" || call.call == "ftruncate") {
    add({.call = at,
         .safe = calls_,
         .names = {},
         .file = node(),
         .offset = static_cast<std::size_t>(call.offset),
         .data = call.data,
         .cuts = call.call == "ftruncate"});
  } else if (call.call == "mkdir" && call.path != ".") {
    add({.call = at, .safe = calls_, .names = {place(call.path, make(true))}});
  } else if (call.call == "unlink" || call.call == "rmdir") {
    add({.call = at, .safe = calls_, .names = {place(call.path, kNone)}});
  } else if (call.call != "mkdir" && call.call != "mark") {
    throw std::runtime_error(fmt::format("the model knows no call '{}'", call.call));
  }
}

void ReplayDisk::open(std::size_t at, const LoggedCall& call) {
  int node = find(call.path);
  if (node == kNone) {
    node = make(false);
    add({.call = at, .safe = calls_, .names = {place(call.path, node)}});
  } else if ((call.flags & O_TRUNC) != 0) {
    add({.call = at, .safe = calls_, .names = {}, .file = node, .cuts = true});
  }
  open_[call.descriptor] = node;
}

void ReplayDisk::move(std::size_t at, const LoggedCall& call) {
  const int from = find(call.path), to = find(call.second);
  const bool exchange = (call.flags & static_cast<int>(RENAME_EXCHANGE)) != 0 && call.call == "renameat2";
  add({.call = at, .safe = calls_, .names = {place(call.second, from), place(call.path, exchange ? to : kNone)}});
}

// Everything before it in this file or folder is safe. No call here moves a name between folders.
void ReplayDisk::sync(std::size_t at, int node) {
  for (Change& change : changes_) {
    const bool concerned = change.names.empty() ? change.file == node : change.names.front().folder == node;
    if (concerned) change.safe = std::min(change.safe, at);
  }
}

void ReplayDisk::add(Change change) {
  for (const Name& name : change.names) {
    if (name.folder != change.names.front().folder) throw std::runtime_error("the model moves no names between folders");
  }
  apply(change, nodes_, [] { return true; });
  changes_.push_back(std::move(change));
}

int ReplayDisk::make(bool is_folder) {
  nodes_.push_back({is_folder, {}, {}});
  return static_cast<int>(nodes_.size()) - 1;
}

int ReplayDisk::find(const std::string& path) const {
  int node = 0;
  for (const fs::path& part : fs::path(path)) {
    if (part == "." || node == kNone) continue;
    const auto& names = nodes_[static_cast<std::size_t>(node)].names;
    const auto found = names.find(part.string());
    node = found == names.end() ? kNone : found->second;
  }
  return node;
}

ReplayDisk::Name ReplayDisk::place(const std::string& path, int node) const {
  const int folder = find(fs::path(path).parent_path().string());
  if (folder == kNone) throw std::runtime_error(fmt::format("the log has no folder for '{}'", path));
  return {folder, fs::path(path).filename().string(), node};
}

void ReplayDisk::apply(const Change& change, std::vector<Node>& nodes, const Blocks& there) {
  for (const Name& name : change.names) {
    auto& names = nodes[static_cast<std::size_t>(name.folder)].names;
    if (name.node == kNone) {
      names.erase(name.name);
    } else {
      names[name.name] = name.node;
    }
  }
  if (change.file == kNone) return;
  std::string& data = nodes[static_cast<std::size_t>(change.file)].data;
  if (change.cuts) return data.resize(change.offset);
  for (std::size_t at = 0; at < change.data.size(); at += kBlock) {
    if (!there()) continue;
    const std::string block = change.data.substr(at, kBlock);
    data.resize(std::max(data.size(), change.offset + at + block.size()));
    data.replace(change.offset + at, block.size(), block);
  }
}

std::vector<ReplayDisk::Node> ReplayDisk::empty() const {
  std::vector<Node> nodes = nodes_;
  for (Node& node : nodes) node = {node.is_folder, {}, {}};
  return nodes;
}

void ReplayDisk::after_kill(std::size_t cut, const fs::path& folder) const {
  std::vector<Node> nodes = empty();
  for (const Change& change : changes_) {
    if (change.call < cut) apply(change, nodes, [] { return true; });
  }
  write(nodes, 0, folder);
}

void ReplayDisk::after_power_loss(std::size_t cut, std::mt19937_64& random, const fs::path& folder) const {
  std::vector<Node> nodes = empty();
  std::bernoulli_distribution written(std::uniform_real_distribution<double>(0, 1)(random));
  for (const Change& change : changes_) {
    if (change.call >= cut) break;
    const bool is_safe = change.safe < cut;
    if (is_safe || written(random)) apply(change, nodes, [&] { return is_safe || written(random); });
  }
  write(nodes, 0, folder);
}

void ReplayDisk::write(const std::vector<Node>& nodes, int node, const fs::path& path) {
  const Node& written = nodes[static_cast<std::size_t>(node)];
  if (!written.is_folder) {
    std::ofstream(path, std::ios::binary) << written.data;
    return;
  }
  fs::create_directory(path);
  for (const auto& [name, child] : written.names) write(nodes, child, path / name);
}

MemoryFolder::MemoryFolder() {
  std::error_code ignored;
  const fs::path memory = "/dev/shm";
  path_ = (fs::is_directory(memory, ignored) ? memory : fs::temp_directory_path()) / fmt::format("millrace-left-{}", ::getpid());
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace millrace::test
