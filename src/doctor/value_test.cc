#include "doctor/value.h"

#include <gtest/gtest.h>

namespace cgpu::doctor {
namespace {

TEST(Values, AreReadWithoutSurprises) {
  const Value value = Value::Parse(R"({"a": {"b": [1, "x"]}, "n": 7, "t": true})");
  EXPECT_EQ(value["a"]["b"].Items().size(), 2U);
  EXPECT_EQ(value["a"]["b"].Items()[1].Text(), "x");
  EXPECT_EQ(value["n"].Number(), 7);
  EXPECT_EQ(value["n"].Text(), "");
  EXPECT_EQ(value["n"]["b"]["c"].Number(3), 3);
  EXPECT_TRUE(value["a"].Items().empty());
  EXPECT_EQ(value.Keys(), (std::vector<std::string>{"a", "n", "t"}));
  EXPECT_TRUE(value["t"].Flag() && !value["n"].Flag() && !value["x"].Flag());
  EXPECT_TRUE(Value::Parse("{").Keys().empty());
  EXPECT_TRUE(value["a"]["b"].IsList() && !value["a"].IsList() && !value["x"].IsList());
  EXPECT_TRUE(value.IsObject() && !value["n"].IsObject() && !Value::Parse("{").IsObject());
}

}  // namespace
}  // namespace cgpu::doctor
