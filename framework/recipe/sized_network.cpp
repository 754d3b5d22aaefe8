#include "recipe/sized_network.h"

#include <utility>

namespace millrace {

SizedNetwork at_size(const InferenceRecipe& recipe, const ImageShape& shape) {
  SizedNetwork sized{recipe.document, recipe.network};
  Value* const input = sized.document.find("input");
  for (const auto& [key, extent] : {std::pair{"height", shape.height}, {"width", shape.width}}) {
    const Value* const said = input != nullptr ? input->find(key) : nullptr;
    const bool refers = said != nullptr && said->kind() == Value::Kind::text && said->text().starts_with("${") &&
                        said->text().find('}') == said->text().size() - 1;
    if (refers)
      sized.variables.set(said->text().substr(2, said->text().size() - 3), Value(extent));
    else if (input != nullptr)
      input->set(key, Value(extent));
  }
  return sized;
}

}  // namespace millrace
