#include "millrace/detail/value.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

Position at(const char* file, int line, int column) { return {std::make_shared<const std::string>(file), line, column}; }

TEST(Position, IsWrittenAsEditorsReadIt) {
  EXPECT_EQ(to_string(at("a.toml", 12, 3)), "a.toml:12:3");
  EXPECT_EQ(to_string(at("--set", 0, 0)), "--set");
  EXPECT_EQ(to_string(at("--predict", 12, 3)), "--predict");
  EXPECT_EQ(to_string(Position{}), "");
}

TEST(Value, TableKeepsItsOrderAndReplacesInPlace) {
  Value table;
  table.set("b", Value(1));
  table.set("a", Value(2));
  table.set("b", Value(3));
  ASSERT_EQ(table.table().size(), 2U);
  EXPECT_EQ(table.table()[0].key, "b");
  EXPECT_EQ(table.find("b")->integer(), 3);
  EXPECT_EQ(table.find("c"), nullptr);
  EXPECT_EQ(Value(1).find("a"), nullptr);
  EXPECT_TRUE(table.erase("b"));
  EXPECT_FALSE(table.erase("b"));
}

TEST(Value, IsWrittenAsADocument) {
  Value range(Array{Value(-4), Value(4)});
  Value translate, augment, train, batch, document;
  translate.set("x", range);
  augment.set("flip_x", Value(0.5));
  augment.set("translate", translate);
  batch.set("size", Value(256));
  train.set("augment", augment);
  train.set("flow", Value(Array{Value("read"), Value("batch")}));
  document.set("train", train);
  document.set("path", Value("a \"b\"\\c\n"));
  document.set("odd key", Value(true));
  EXPECT_EQ(to_toml(document),
            "path = \"a \\\"b\\\"\\\\c\\n\"\n"
            "\"odd key\" = true\n"
            "\n"
            "[train]\n"
            "flow = [\"read\", \"batch\"]\n"
            "\n"
            "[train.augment]\n"
            "flip_x = 0.5\n"
            "translate = { x = [-4, 4] }\n");
}

TEST(Value, RealsStayReals) {
  EXPECT_EQ(to_toml(Value(1.0)), "1.0");
  EXPECT_EQ(to_toml(Value(0.1)), "0.1");
  EXPECT_EQ(to_toml(Value(1e-12)), "1e-12");
  EXPECT_EQ(to_toml(Value(std::numeric_limits<double>::infinity())), "inf");
}

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"flip_x", "flip_y", "border", "read_folder"};
  EXPECT_EQ(nearest_name("flipx", names), "flip_x");
  EXPECT_EQ(nearest_name("Flip_Y", names), "flip_y");
  EXPECT_EQ(nearest_name("bodrer", names), "border");
  EXPECT_EQ(nearest_name("read", names), "read_folder");
  EXPECT_EQ(nearest_name("folder", names), "read_folder");  // not "border"
  EXPECT_EQ(nearest_name("momentum", names), std::nullopt);
  EXPECT_EQ(nearest_name("path", {"batch"}), std::nullopt);
  EXPECT_EQ(nearest_name("size", {"random_resized_crop"}), std::nullopt);  // no word in it begins like that
  EXPECT_EQ(nearest_name("convs.2", {"convs.0", "onvs.2"}), "onvs.2");     // another digit is another thing
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(301, 'x'), {std::string(301, 'x')}), std::nullopt) << "longer texts take too long";
  EXPECT_EQ(nearest_name("2", {"a", "b"}), std::nullopt);  // every letter is one change away from every other
}

}  // namespace
}  // namespace millrace
