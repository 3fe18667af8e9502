#include "runtime/arguments.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

using testing::ElementsAre;

RuntimeCall Parse(const std::vector<std::string>& arguments) {
  const auto call = ParseArguments(arguments);
  EXPECT_TRUE(call.ok());
  return call.ok() ? call.value() : RuntimeCall{};
}

// Parses a call of containerd's shim.
TEST(RuntimeArguments, ContainerdCreates) {
  const RuntimeCall call =
      Parse({"--root", "/run/runc/k8s.io", "--log", "/b/log.json", "--log-format", "json",
             "--systemd-cgroup", "create", "--bundle", "/run/b", "--pid-file", "/run/b/init.pid",
             "--console-socket", "/tmp/pty", "3f2a"});
  EXPECT_EQ(call.kind, RuntimeCall::Kind::kCreate);
  EXPECT_EQ(call.id, "3f2a");
  EXPECT_EQ(call.bundle, "/run/b");
  EXPECT_EQ(call.config, "config.json");
  EXPECT_EQ(call.log, "/b/log.json");
  EXPECT_TRUE(call.log_json);
}

// Parses a call of conmon.
TEST(RuntimeArguments, PodmanCreatesWithEqualsSigns) {
  const RuntimeCall call = Parse({"--log-format=json", "--log=/l", "--systemd-cgroup", "create",
                                  "--bundle=/b", "--pid-file=/p", "--no-pivot", "c1"});
  EXPECT_EQ(call.kind, RuntimeCall::Kind::kCreate);
  EXPECT_EQ(call.bundle, "/b");
  EXPECT_EQ(call.id, "c1");
  EXPECT_EQ(call.log, "/l");
}

TEST(RuntimeArguments, AValueMayLookLikeAnOptionOrACommand) {
  const RuntimeCall call = Parse({"--root", "create", "--log", "--debug", "run", "-b", "-d", "c1"});
  EXPECT_EQ(call.kind, RuntimeCall::Kind::kCreate);
  EXPECT_EQ(call.log, "--debug");
  EXPECT_EQ(call.bundle, "-d");
  EXPECT_EQ(call.id, "c1");
}

TEST(RuntimeArguments, RunWithoutABundleIsOfTheWorkingDirectory) {
  const RuntimeCall call = Parse({"run", "c1"});
  EXPECT_EQ(call.kind, RuntimeCall::Kind::kCreate);
  EXPECT_EQ(call.bundle, ".");
  EXPECT_EQ(Parse({"run", "c1", "-f", "/other.json"}).config, "/other.json");
}

TEST(RuntimeArguments, ExecOfAFileOrOfWords) {
  const RuntimeCall file = Parse(
      {"--root", "/r", "exec", "--process", "/p.json", "--detach", "--pid-file", "/pid", "3f2a"});
  EXPECT_EQ(file.kind, RuntimeCall::Kind::kExec);
  EXPECT_EQ(file.process, "/p.json");
  EXPECT_EQ(file.id, "3f2a");
  const RuntimeCall words = Parse({"exec", "-t", "--cap", "CAP_SYS_ADMIN", "--cap=CAP_BPF", "-u",
                                   "0", "c1", "sh", "--process", "x", "-c", "y"});
  EXPECT_EQ(words.id, "c1");
  EXPECT_EQ(words.process, "");
  EXPECT_THAT(words.capabilities, ElementsAre("CAP_SYS_ADMIN", "CAP_BPF"));
}

TEST(RuntimeArguments, OtherCommandsAreNotLookedInto) {
  for (const char* command : {"start", "delete", "kill", "state", "features", "spec", "list", "ps",
                              "pause", "resume", "update", "events", "checkpoint", "help"}) {
    EXPECT_EQ(Parse({"--root", "/r", command, "create", "c1"}).kind, RuntimeCall::Kind::kOther);
  }
  EXPECT_EQ(Parse({}).kind, RuntimeCall::Kind::kOther);
  EXPECT_EQ(Parse({"--version"}).kind, RuntimeCall::Kind::kOther);
}

// Commands that make a container without its filter or mount into one that runs, and unknown ones.
TEST(RuntimeArguments, CommandsThatMayUndoAFilterAreToBeRefused) {
  for (const char* command : {"restore", "mounts", "init", "Restore", "restor", "rebuild", "-"}) {
    const RuntimeCall call =
        Parse({"--root", "/r", "--log=/l", command, "--bundle", "/b", "--image-path", "/i", "c1"});
    EXPECT_EQ(call.kind, RuntimeCall::Kind::kRefused) << command;
    EXPECT_EQ(call.command, command);
    EXPECT_EQ(call.log, "/l");
  }
  EXPECT_EQ(Parse({"--", "restore", "c1"}).kind, RuntimeCall::Kind::kRefused);
}

// crun takes these for another bundle, another file or another command than a parser that does not
// know the option.
TEST(RuntimeArguments, OptionsThatAreReadDifferentlyAreRefused) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"create", "-bDIR", "c1"},
                                             {"create", "-b=DIR", "c1"},
                                             {"create", "--bun", "DIR", "c1"},
                                             {"create", "--bun=DIR", "c1"},
                                             {"create", "c1", "--conf", "F"},
                                             {"run", "-db", "DIR", "c1"},
                                             {"run", "-bundle", "DIR", "c1"},
                                             {"run", "--b", "DIR", "c1"},
                                             {"run", "---bundle", "DIR", "c1"},
                                             {"run", "--later", "c1"},
                                             {"exec", "--proc", "F", "c1"},
                                             {"exec", "-cCAP_SYS_ADMIN", "c1", "sh"},
                                             {"--roo", "start", "create", "c1"},
                                             {"-root", "start", "create", "c1"},
                                             {"--later", "x", "start", "c1"}}) {
    const auto call = ParseArguments(words);
    ASSERT_FALSE(call.ok()) << testing::PrintToString(words);
    EXPECT_EQ(call.error().code, Code::kUnsupported);
  }
}

// All options that runc and crun document, with a value where they take one.
TEST(RuntimeArguments, DocumentedOptionsAreKnown) {
  EXPECT_EQ(Parse({"--debug",
                   "--systemd-cgroup",
                   "--log-level=debug",
                   "--rootless",
                   "auto",
                   "--cgroup-manager",
                   "cgroupfs",
                   "--criu",
                   "/criu",
                   "run",
                   "--detach",
                   "-d",
                   "--keep",
                   "--no-pivot",
                   "--no-new-keyring",
                   "--no-subreaper",
                   "--pidfd-socket",
                   "/s",
                   "--preserve-fds",
                   "3",
                   "-f",
                   "/c.json",
                   "-b",
                   "/b",
                   "c1"})
                .id,
            "c1");
  EXPECT_EQ(Parse({"exec",
                   "-d",
                   "--detach",
                   "-t",
                   "--tty",
                   "--no-new-privs",
                   "--ignore-paused",
                   "--cwd",
                   "/",
                   "-e",
                   "A=B",
                   "-g",
                   "1",
                   "--cgroup",
                   "x",
                   "--process-label",
                   "l",
                   "--apparmor",
                   "p",
                   "--preserve-fds=1",
                   "c1",
                   "-x"})
                .id,
            "c1");
  EXPECT_EQ(Parse({"run", "--", "c1", "--bundle"}).bundle, ".");
}

TEST(RuntimeArguments, WithoutAContainerNothingIsMade) {
  EXPECT_EQ(ParseArguments({"create", "--bundle", "/b"}).error().code, Code::kInvalid);
  EXPECT_EQ(ParseArguments({"exec", "-t"}).error().code, Code::kInvalid);
  EXPECT_EQ(ParseArguments({"run", "--bundle"}).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace cgpu
