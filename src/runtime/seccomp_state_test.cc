#include "runtime/seccomp_state.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu {
namespace {

// The example of runtime-spec config-linux.md, "The Container Process State".
constexpr const char* kExample = R"({
  "ociVersion": "1.0.2",
  "fds": ["seccompFd"],
  "pid": 4422,
  "metadata": "MKNOD=/dev/null,/dev/net/tun;BPF_MAP_TYPES=hash,array",
  "state": {
    "ociVersion": "1.0.2",
    "id": "oci-container1",
    "status": "creating",
    "pid": 4422,
    "bundle": "/containers/redis",
    "annotations": { "myKey": "myValue" }
  }
})";

std::string Replaced(const std::string& what, const std::string& by) {
  std::string text = kExample;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

// The sentence of the refusal.
std::string Refusal(const std::string& text) {
  const auto state = ParseSeccompState(text);
  EXPECT_FALSE(state.ok()) << text;
  if (state.ok()) {
    return "";
  }
  EXPECT_EQ(state.error().code, Code::kInvalid);
  EXPECT_FALSE(state.error().hint.empty());
  return state.error().what;
}

TEST(SeccompState, ReadsTheExampleOfTheSpecification) {
  const auto state = ParseSeccompState(kExample);
  ASSERT_TRUE(state.ok()) << state.error().what;
  EXPECT_EQ(state->oci_version, "1.0.2");
  EXPECT_EQ(state->fds, 1U);
  EXPECT_EQ(state->listener, 0U);
  EXPECT_EQ(state->pid, 4422U);
  EXPECT_EQ(state->metadata, "MKNOD=/dev/null,/dev/net/tun;BPF_MAP_TYPES=hash,array");
  EXPECT_EQ(state->id, "oci-container1");
  EXPECT_EQ(state->status, "creating");
  EXPECT_EQ(state->bundle, "/containers/redis");
  EXPECT_EQ(state->init, 4422U);
  EXPECT_EQ(state->annotations, (std::map<std::string, std::string>{{"myKey", "myValue"}}));
}

TEST(SeccompState, ReadsWhatMayBeLeftOut) {
  const auto state = ParseSeccompState(
      R"({"ociVersion":"1.0","fds":["other","seccompFd"],"pid":7,"news":[1,{}],)"
      R"("state":{"ociVersion":"1.0","id":"a","status":"running","bundle":"/b"}})");
  ASSERT_TRUE(state.ok()) << state.error().what;
  EXPECT_EQ(state->fds, 2U);
  EXPECT_EQ(state->listener, 1U);
  EXPECT_EQ(state->metadata, "");
  EXPECT_EQ(state->init, 0U);
  EXPECT_TRUE(state->annotations.empty());
}

TEST(SeccompState, SaysWhatIsMissing) {
  EXPECT_NE(Refusal("").find("is not JSON"), std::string::npos);
  EXPECT_NE(Refusal(std::string(kExample).substr(0, 90)).find("is not JSON"), std::string::npos);
  EXPECT_NE(Refusal("[]").find("is no JSON object"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("ociVersion", "version")).find("no ociVersion"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("fds", "files")).find("no file descriptors"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"seccompFd\"", "")).find("no listener"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"seccompFd\"", "\"seccompFd\",\"seccompFd\"")).find("two listeners"),
            std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"id\"", "\"ID\"")).find("no id"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"state\"", "\"container\"")).find("no state"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("status", "Status")).find("no status"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("bundle", "Bundle")).find("no bundle"), std::string::npos);
}

TEST(SeccompState, RefusesWhatIsNoProcess) {
  for (const char* pid : {"0", "-1", "4194305", "18446744073709551615", "1e3", "4422.5", "\"4422\"",
                          "null", "99999999999999999999999"}) {
    EXPECT_NE(Refusal(Replaced("4422", pid)).find("pid of the process"), std::string::npos) << pid;
  }
  EXPECT_TRUE(ParseSeccompState(Replaced("4422", "4194304")).ok());
  EXPECT_NE(
      Refusal(Replaced("4422,\n    \"bundle\"", "-3,\n    \"bundle\"")).find("of the container"),
      std::string::npos);
}

TEST(SeccompState, RefusesNamesThatLeadElsewhere) {
  for (const char* id : {"", ".", "..", "a/b", "a b", "a\\nb", "\\u0000"}) {
    Refusal(Replaced("oci-container1", id));
  }
  Refusal(Replaced("oci-container1", std::string(2000, 'a')));
  for (const char* bundle : {"", "redis", "/a\\nb", "/a\\u0000b"}) {
    Refusal(Replaced("/containers/redis", bundle));
  }
}

TEST(SeccompState, RefusesWhatIsOfAnotherKind) {
  EXPECT_NE(Refusal(Replaced("\"myValue\"", "1")).find("annotation"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("{ \"myKey\": \"myValue\" }", "[]")).find("annotations"),
            std::string::npos);
  EXPECT_NE(Refusal(Replaced("[\"seccompFd\"]", "\"seccompFd\"")).find("file descriptors"),
            std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"seccompFd\"", "3")).find("no string"), std::string::npos);
  EXPECT_NE(Refusal(Replaced("\"creating\"", "{}")).find("status that is no string"),
            std::string::npos);
}

TEST(SeccompState, BoundsSizeAndDepth) {
  const std::string pad(kMaxSeccompState, ' ');
  EXPECT_NE(Refusal(kExample + pad).find("longer than"), std::string::npos);
  const auto nested = [](std::size_t depth) {
    return Replaced("\"myKey\"", "\"deep\": \"" + std::string(100, '[') + "\", \"myKey\"")
        .replace(1, 0, "\"more\": " + std::string(depth, '[') + std::string(depth, ']') + ",");
  };
  EXPECT_TRUE(ParseSeccompState(nested(kMaxSeccompStateDepth - 1)).ok());
  EXPECT_NE(Refusal(nested(kMaxSeccompStateDepth)).find("too deeply"), std::string::npos);
  EXPECT_NE(Refusal(std::string(kMaxSeccompState, '[')).find("too deeply"), std::string::npos);
  std::string many;
  for (std::size_t i = 0; i < kMaxSeccompStateFds; ++i) {
    many += "\"other\",";
  }
  EXPECT_NE(Refusal(Replaced("\"seccompFd\"", many + "\"seccompFd\"")).find("17 file descriptors"),
            std::string::npos);
}

}  // namespace
}  // namespace cgpu
