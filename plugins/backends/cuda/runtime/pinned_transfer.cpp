#include "pinned_transfer.h"

#include <algorithm>
#include <cstring>

namespace millrace::cuda {
namespace {

constexpr std::size_t kLeastStaging = std::size_t{1} << 16, kMostStaging = std::size_t{1} << 22;  // bytes

}  // namespace

// Grows up to kMostStaging.
HostMemory& PinnedTransfer::staging(std::size_t bytes) {
  if (!staging_ || staging_->bytes() < std::min(bytes, kMostStaging)) {
    staging_.reset();
    staging_ = std::make_unique<HostMemory>(*machine_, std::clamp(bytes, kLeastStaging, kMostStaging));
  }
  return *staging_;
}

// copy(at, count, pinned): `count` bytes from byte `at` on.
template <class Copy>
void PinnedTransfer::in_pieces(std::size_t bytes, const Copy& copy) {
  const HostMemory& pinned = staging(bytes);
  for (std::size_t at = 0; at < bytes; at += pinned.bytes()) copy(at, std::min(pinned.bytes(), bytes - at), pinned.data());
}

std::vector<float> PinnedTransfer::read(Queue& queue, const float* device, std::size_t elements) {
  std::vector<float> values(elements);
  in_pieces(values.size() * sizeof(float), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    queue.copy_out(pinned, reinterpret_cast<const std::byte*>(device) + at, count);
    queue.mark()->wait();
    machine_->host_access(pinned, count, false);
    std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, pinned, count);
  });
  return values;
}

void PinnedTransfer::write(Queue& queue, float* device, std::span<const float> values) {
  in_pieces(values.size_bytes(), [&](std::size_t at, std::size_t count, std::byte* pinned) {
    machine_->host_access(pinned, count, true);
    std::memcpy(pinned, reinterpret_cast<const std::byte*>(values.data()) + at, count);
    queue.copy_in(reinterpret_cast<std::byte*>(device) + at, pinned, count);
    queue.mark()->wait();
  });
}

std::shared_ptr<HostMemory> PinnedTransfer::room_for_copy(std::size_t bytes) {
  const bool free = copy_.use_count() == 1 && copy_->bytes() >= bytes;
  if (!free) {
    copy_.reset();  // so that not both are pinned at once
    copy_ = std::make_shared<HostMemory>(*machine_, std::max<std::size_t>(bytes, 1));
  }
  return copy_;
}

}  // namespace millrace::cuda
