// Registers the built-in layer types.
#pragma once

namespace millrace {

class Registry;
void register_layers(Registry& registry);

}  // namespace millrace
