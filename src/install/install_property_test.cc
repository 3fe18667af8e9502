// Tests adding and removing, on texts as odd as people and programs write them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "install/engines.h"

namespace cgpu::install {
namespace {

constexpr const char* kRuntimeProgram = "/usr/bin/cgpu-runtime";

constexpr const char* kTables =
    "[crio]\n[crio.runtime.runtimes]\n[crio.runtime.runtimes.crun]\nruntime_path = \"/c\"\n"
    "[engine.runtimes]\ncrun = [\"/c\"]\n";

const std::vector<std::string>& OddToml() {
  static const std::vector<std::string> texts = {
      "",
      "\n\n",
      "# only comments",
      "# only comments\n",
      "version = 2",
      "version = 2\r\n# carriage returns\r\n[plugins]\r\n",
      "\xEF\xBB\xBFversion = 2\n",
      "version = 3\nimports = []\n",
      "[a]\n\tb = 1\n\t[a.c]\n\t\td = '''\n[no table]\n'''\n",
      "title = \"\xE2\x82\xAC \xF0\x9F\x90\xA7\" # \xC3\xA9\n[t]\nx = [\n [1],\n [\"[x]\"],\n]\n",
      "[[list]]\na = 1\n[[list]]\na = 2\n",
      "inline = { a = { b = [ { c = 1 } ] } }\n",
      "d.o.t.s = 1\n'quo ted'.\"k\\u0065y\" = 2\n",
      "when = 1979-05-27T07:32:00Z\nf = inf\nn = 0xDEAD\n",
      "[crio.runtime]\ndefault_runtime = \"crun\"\n[engine]\nruntime = 'crun'\n",
      kTables,
      "[engine.runtimes.deep]\nx = 1\n[crio.runtime.runtimes.a.b]\ny = 1\n",
  };
  return texts;
}

const std::vector<std::string>& OddJson() {
  static const std::vector<std::string> texts = {
      "",
      " \n\t\r\n",
      "{}",
      "{ }\n",
      "{\n\n}",
      "{\r\n\t\"a\": 1\r\n}\r\n",
      "{\"a\":1}",
      "\xEF\xBB\xBF{\"a\": 1}\n",
      "{\n\t\"a\": {\n\t\t\"b\": [\n\t\t\t{}\n\t\t]\n\t}\n}",
      "{ \"runtimes\": { \"x\": { \"path\": \"}\\\"{\" } }, \"default-runtime\" : \"x\" }",
      "{\n\"runtimes\":{},\n\"default-runtime\":\"runc\"}",
      "{\"\xE2\x82\xAC\": \"\xF0\x9F\x90\xA7 \\ud83d\\udc27\", \"e\": 1e5, \"n\": null}",
      "{\n  \"a\": 1 ,\n  \"b\"  :  2\n  }\n\n\n",
      "{\"a\": 1,\n \"b\": 2}",
  };
  return texts;
}

// Returns whether all of the text is still there, in its order, whatever stands between.
bool IsWithin(const std::string& text, const std::string& longer) {
  std::size_t at = 0;
  for (const char c : text) {
    at = longer.find(c, at);
    if (at == std::string::npos) {
      return false;
    }
    ++at;
  }
  return true;
}

void CheckRoundTrip(Engine engine, const std::string& text, bool set_default) {
  const auto added = AddEntry(engine, text, kRuntimeProgram, set_default);
  ASSERT_TRUE(added.ok()) << added.error().what << "\n" << text;
  const std::string with = *added->after;
  EXPECT_EQ(FindEntry(engine, with)->path, kRuntimeProgram);
  EXPECT_EQ(FindEntry(engine, with)->is_default, set_default);
  EXPECT_EQ(*AddEntry(engine, with, kRuntimeProgram, set_default)->after, with);
  EXPECT_TRUE(IsWithin(engine == Engine::kDocker ? "" : text, with)) << with;
  const auto removed = RemoveEntry(engine, with, text);
  ASSERT_TRUE(removed.ok()) << removed.error().what << "\n" << with;
  EXPECT_EQ(*removed, text);
  EXPECT_EQ(*RemoveEntry(engine, text, text), text);
}

TEST(InstallPropertyTest, AddedAndRemovedNothingIsDifferent) {
  for (const bool set_default : {false, true}) {
    for (const std::string& text : OddJson()) {
      CheckRoundTrip(Engine::kDocker, text, set_default);
    }
    for (const std::string& text : OddToml()) {
      for (const Engine engine : {Engine::kContainerd, Engine::kCrio, Engine::kPodman}) {
        CheckRoundTrip(engine, text, set_default);
      }
    }
  }
}

// Returns JSON of any shape, with blanks anywhere.
std::string RandomJson(int depth) {
  const auto blanks = [] { return *rc::gen::element<std::string>("", " ", "\n", "\r\n\t"); };
  const int kind = *rc::gen::inRange(0, depth > 0 ? 4 : 2);
  if (kind == 0) {
    return *rc::gen::element<std::string>("1", "-1.5e3", "true", "null");
  }
  if (kind == 1) {
    return *rc::gen::element<std::string>("\"\"", "\"{\"", "\"]\\\"\"", "\"\\\\\"", "\"\xC3\xA9\"");
  }
  const int count = *rc::gen::inRange(0, 4);
  std::string text = kind == 2 ? "[" : "{";
  for (int i = 0; i < count; ++i) {
    text += (i > 0 ? "," : "") + blanks();
    if (kind != 2) {
      text.append("\"k").append(std::to_string(i)).append("\"").append(blanks());
      text.append(":").append(blanks());
    }
    text += RandomJson(depth - 1) + blanks();
  }
  return text + (kind == 2 ? "]" : "}");
}

TEST(InstallPropertyTest, AnyJsonObjectSurvives) {
  EXPECT_TRUE(rc::check("an object with the runtime and without it again is the same", [] {
    std::string text = "{";
    for (const std::string key : {"debug", "runtimes", "default-runtime"}) {
      if (*rc::gen::arbitrary<bool>()) {
        const std::string value = key == "debug"      ? RandomJson(3)
                                  : key == "runtimes" ? "{ \"other\" : " + RandomJson(2) + "}"
                                                      : "\"other\"";
        text.append(text.size() > 1 ? ",\n" : "\n");
        text.append("  \"").append(key).append("\": ").append(value);
      }
    }
    CheckRoundTrip(Engine::kDocker, text + "}", *rc::gen::arbitrary<bool>());
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TEST(InstallPropertyTest, AnySequenceOfTablesSurvives) {
  EXPECT_TRUE(rc::check("a file with the runtime and without it again is the same", [] {
    const std::vector<std::string> parts = {"# a comment\n",
                                            "\n",
                                            "[crio.runtime]\n  x = 1\n",
                                            "[crio]\n",
                                            "[crio.runtime.runtimes.other]\n\ty = '''\n[\n'''\n",
                                            "[engine]\r\nz = [\n[2],\n]\n",
                                            "[engine.runtimes]\n",
                                            "[zz.'q t']\nk = { a = 1 }\n# end\n"};
    std::vector<std::size_t> order(parts.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    const auto count = *rc::gen::inRange<std::size_t>(0, order.size());
    std::string text = *rc::gen::element<std::string>("", "top = 1\n", "# first\n\n");
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(order[i], order[*rc::gen::inRange(i, order.size())]);
      text += parts[order[i]];
    }
    const Engine engine = *rc::gen::element(Engine::kContainerd, Engine::kCrio, Engine::kPodman);
    CheckRoundTrip(engine, text, *rc::gen::arbitrary<bool>());
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

}  // namespace
}  // namespace cgpu::install
