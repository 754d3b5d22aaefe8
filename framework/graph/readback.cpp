#include "millrace/backend/readback.h"

#include "millrace/error.h"

namespace millrace {

void Readback::read(Stream& stream, const void* source, Output& output, std::function<void(const std::uint8_t* bytes)> known) {
  std::shared_ptr<std::uint8_t[]> place = free_place();
  stream.copy_to_host(place.get(), source, bytes_);
  auto hold = std::make_shared<Output::Hold>(output);
  stream.record()->then(
      [place = std::move(place), hold = std::move(hold), known = std::move(known), &output](const Error* failure) mutable {
        try {
          if (failure != nullptr) throw Error(*failure);
          known(place.get());
        } catch (...) {
          output.fail(current_error());
        }
        place = nullptr;
        hold = nullptr;
      });
}

std::shared_ptr<std::uint8_t[]> Readback::free_place() {
  for (const std::shared_ptr<std::uint8_t[]>& place : places_) {
    if (place.use_count() == 1) return place;
  }
  return places_.emplace_back(device_.host_buffer(bytes_));
}

}  // namespace millrace
