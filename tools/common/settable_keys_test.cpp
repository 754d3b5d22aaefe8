#include "common/settable_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"

namespace millrace {
namespace {

class SettableKeys : public testing::Test {
 protected:
  SettableKeys() {
    for (const char* plugin : {"/optimizer.so", "/optimizers.so"}) load_plugin(registry_, std::string(MILLRACE_PLUGINS) + plugin);
    write("base.toml",
          "[train]\nflow = [\"read\", \"optimizer\"]\n[train.read]\npath = \"x\"\n"
          "[train.optimizer]\ntype = \"sgd\"\nmomentum = 0.8\nweight_decay = 0.1\n"
          "learning_rate = { initial = 0.2, warmup_epochs = 3 }\n");
  }
  void write(const char* name, const char* text) { folder_.write(name, text); }

  // The listed value of a key; "absent" if it is missing.
  std::string value(const char* file, const std::string& name) const {
    const std::vector<SettableKey> keys = settable_keys(folder_ / file, registry_);
    const auto found = std::ranges::find(keys, name, &SettableKey::name);
    return found == keys.end() ? "absent" : found->value;
  }

  testkit::TestFolder folder_;
  Registry registry_;
};

TEST_F(SettableKeys, OfTheFileStandBesideDeclaredOnes) {
  EXPECT_EQ(value("base.toml", "train.optimizer.momentum"), "0.8");
  EXPECT_EQ(value("base.toml", "train.optimizer.nesterov"), "false");
  EXPECT_EQ(value("base.toml", "train.read.path"), "\"x\"");
}

TEST_F(SettableKeys, ThatALaterFileRemovesOrReplacesAreGone) {
  write("adam.toml", "extends = \"base.toml\"\n[train.optimizer]\ntype = \"adam\"\n");
  EXPECT_EQ(value("adam.toml", "train.optimizer.momentum"), "absent");
  EXPECT_EQ(value("adam.toml", "train.optimizer.beta1"), "0.9");
  write("shorter.toml", "extends = \"base.toml\"\n[train]\nflow = [\"optimizer\"]\n");
  EXPECT_EQ(value("shorter.toml", "train.read.path"), "absent");
  write("unset.toml",
        "extends = \"base.toml\"\n[train.optimizer]\nmomentum = \"unset\"\nlearning_rate = { warmup_epochs = \"unset\" }\n");
  EXPECT_EQ(value("unset.toml", "train.optimizer.momentum"), "0.0") << "the default";
  EXPECT_EQ(value("unset.toml", "train.optimizer.learning_rate.warmup_epochs"), "");
}

}  // namespace
}  // namespace millrace
