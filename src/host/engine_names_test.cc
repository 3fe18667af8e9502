#include "host/engine_names.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cgpu {
namespace {

namespace fs = std::filesystem;

class EngineNamesTest : public testing::Test {
 protected:
  EngineNamesTest() {
    char path[] = "/tmp/engine_names_test.XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~EngineNamesTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  // Returns the name of a container with this file and id; "": it keeps the one of ours.
  static std::string EngineName(const std::string& file, const std::string& engine_id) {
    Reservation one;
    one.name = "ours";
    one.names_file = file;
    one.engine_id = engine_id;
    const std::string name = WithEngineNames({one}).front().name;
    return name == "ours" ? "" : name;
  }

  static Result<std::string> FindId(const std::string& reference,
                                    const std::vector<Reservation>& live) {
    const auto found = FindNamed(reference, WithEngineNames(live));
    return found.ok() ? Result<std::string>(found->id) : Result<std::string>(found.error());
  }

  fs::path folder_;
};

TEST_F(EngineNamesTest, DockersFileHasOneContainer) {
  EXPECT_EQ(EngineName(File("a", R"({"ID": "abc", "Name": "/web"})"), "abc"), "web");
}

TEST_F(EngineNamesTest, PodmansHasAll) {
  const std::string file =
      File("a", R"([3, {"id": "x", "names": ["other"]}, {"id": "abc", "names": ["web", "w"]}])");
  EXPECT_EQ(EngineName(file, "abc"), "web");
  EXPECT_EQ(EngineName(file, "ab"), "");
}

TEST_F(EngineNamesTest, NothingIsMadeOfAnotherFile) {
  EXPECT_EQ(EngineName("", "abc"), "");
  EXPECT_EQ(EngineName(folder_ / "none", "abc"), "");
  EXPECT_EQ(EngineName(folder_, "abc"), "");
  for (const char* text : {"", "[", "3", "[]", "{}", R"({"Name": 3})", R"({"Name": "/"})",
                           R"({"Name": "a\nb"})", R"([{"id": "abc"}])",
                           R"([{"id": "abc", "names": []}])", R"([{"id": "abc", "names": [3]}])"}) {
    EXPECT_EQ(EngineName(File("a", text), "abc"), "") << text;
  }
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(EngineName(folder_ / "fifo", "abc"), "") << "nobody writes to it";
  fs::create_symlink(File("a", R"({"Name": "/web"})"), folder_ / "link");
  EXPECT_EQ(EngineName(folder_ / "link", "abc"), "");
}

TEST_F(EngineNamesTest, AContainerIsFoundByAnyNameThatIsItsAlone) {
  Reservation docker;
  docker.id = docker.name = "aa0000000001";
  docker.engine_id = "aa0000000001ffff";
  docker.names_file = File("docker", R"({"Name": "/web"})");
  Reservation podman = docker;
  podman.id = podman.name = "bb0000000002";
  podman.engine_id = "bb0000000002ffff";
  podman.names_file = File("podman", R"([{"id": "bb0000000002ffff", "names": ["train"]}])");
  Reservation ours;
  ours.id = "cc0000000003";
  ours.name = "load";
  const std::vector<Reservation> live{docker, podman, ours};
  EXPECT_EQ(*FindId("web", live), docker.id);
  EXPECT_EQ(*FindId("train", live), podman.id);
  EXPECT_EQ(*FindId("load", live), ours.id);
  EXPECT_EQ(*FindId("aa", live), docker.id);
  EXPECT_EQ(FindId("x", live).error().code, Code::kNotFound);
  File("docker", R"({"Name": "/train"})");
  EXPECT_EQ(FindId("train", live).error().code, Code::kInvalid) << "two have it";
  EXPECT_EQ(FindId("web", live).error().code, Code::kNotFound) << "it is called otherwise now";
  File("docker", R"({"Name": "/bb0000000002"})");
  EXPECT_EQ(*FindId("bb0000000002", live), podman.id) << "an id goes before a name";

  std::vector<ContainerStatus> shown(3);
  for (std::size_t i = 0; i < live.size(); ++i) {
    shown[i].id = live[i].id;
    shown[i].name = live[i].name;
    shown[i].engine_id = live[i].engine_id;
  }
  TakeNames(WithEngineNames(live), shown);
  EXPECT_EQ(shown[0].name, podman.id);
  EXPECT_EQ(shown[1].name, "train");
  EXPECT_EQ(shown[2].name, "load");
}

}  // namespace
}  // namespace cgpu
