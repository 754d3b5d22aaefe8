#include "network/ops.h"

#include "network/op_support.h"

namespace millrace {

void register_layers(Registry& registry) {
  ops::register_weighted(registry);
  ops::register_normalisation(registry);
  ops::register_pools(registry);
  ops::register_plain(registry);
}

}  // namespace millrace
