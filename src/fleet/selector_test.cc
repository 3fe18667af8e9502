#include "fleet/selector.h"

#include <gtest/gtest.h>

namespace cgpu::fleet {
namespace {

const Labels kLabels{{"app", "trainer"}, {"tier", "a"}, {"example.com/empty", ""}};

bool Selects(const char* text) {
  const auto selector = Selector::Parse(text);
  EXPECT_TRUE(selector.ok()) << text;
  return selector.ok() && selector->Selects(kLabels);
}

TEST(Selector, SelectsAsKubernetesDoes) {
  for (const char* text :
       {"", " ", "app=trainer", "app==trainer", "app = trainer", "app=trainer,tier=a",
        "tier in (b,a)", "tier in ( a )", "app notin (x,y)", "none notin (x)", "app!=x", "none!=x",
        "app", "!none", "! none", "example.com/empty=", "example.com/empty",
        "example.com/empty in (,x)", "app in (trainer),!none,tier!=b"}) {
    EXPECT_TRUE(Selects(text)) << text;
  }
  for (const char* text :
       {"app=x", "app==x", "app=trainer,tier=b", "tier in (b,c)", "app notin (x,trainer)",
        "app!=trainer", "none", "!app", "none=", "none in (a)", "example.com/empty!="}) {
    EXPECT_FALSE(Selects(text)) << text;
  }
}

TEST(Selector, RefusesWhatIsNone) {
  for (const char* text :
       {",",      "app,",       ",app",      "=x",      "!",          "!=x",        "in (a)",
        "app in", "app in a",   "app in (a", "app (a)", "app on (a)", "a b",        "a=b=c",
        "a=b c",  "a>1",        "a<1",       "a=(b)",   "a in (b),",  "a in (b) c", ")",
        "(",      "a in ((b))", "a!==b",     "\x80"}) {
    const auto selector = Selector::Parse(text);
    ASSERT_FALSE(selector.ok()) << text;
    EXPECT_EQ(selector.error().code, Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace cgpu::fleet
