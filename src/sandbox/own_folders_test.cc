#include "sandbox/own_folders.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace cgpu {
namespace {

using Paths = std::vector<std::string>;

// A machine whose /run is a tmpfs, and whose /etc is on the disk that images are on, too.
const std::vector<FilePlace> kOwn = {{"0:25", "/cgpu"}, {"8:1", "/etc/cgpu"}};

MountEntry Entry(const std::string& device, const std::string& root, const std::string& point) {
  MountEntry mount;
  mount.device = device;
  mount.root = root;
  mount.point = point;
  return mount;
}

Paths In(const std::vector<MountEntry>& mounts) {
  return WhereTheyShow(kOwn, "/images/c", mounts);
}

TEST(OwnFolders, AreFoundWhateverTheMountIsCalled) {
  EXPECT_EQ(In({Entry("0:25", "/cgpu", "/images/c/x")}), Paths{"/x"});
  EXPECT_EQ(In({Entry("0:25", "/cgpu/a.sock", "/images/c/x")}), Paths{"/x"});
  EXPECT_EQ(In({Entry("0:25", "/", "/images/c/x")}), Paths{"/x/cgpu"});
  EXPECT_EQ(In({Entry("8:1", "/", "/images/c")}), Paths{"/etc/cgpu"});
  EXPECT_EQ(In({Entry("8:1", "/etc", "/images/c/x/y")}), Paths{"/x/y/cgpu"});
  EXPECT_EQ(In({Entry("0:25", "/cgpu", "/images/c")}), Paths{"/"});
  EXPECT_EQ(In({Entry("0:25", "/cgpu", "/images/c/x"), Entry("8:1", "/", "/images/c/x")}),
            (Paths{"/x", "/x/etc/cgpu"}));
  EXPECT_EQ(WhereTheyShow(kOwn, "/", {Entry("0:25", "/", "/run")}), Paths{"/run/cgpu"});
}

TEST(OwnFolders, OthersAreNone) {
  EXPECT_EQ(In({Entry("8:1", "/images/c", "/images/c"), Entry("8:1", "/etc/cgpus", "/images/c/a"),
                Entry("0:25", "/docker/hosts", "/images/c/etc/hosts"),
                Entry("0:26", "/cgpu", "/images/c/b"), Entry("0:25", "/", "/images/c2"),
                Entry("0:25", "/", "/run")}),
            Paths{});
}

TEST(OwnFolders, LayersAreReadAsAnyKernelWritesThem) {
  const auto layers = [](const std::string& options) {
    const auto mounts =
        ParseMounts("7 1 0:40 / /x rw,relatime - overlay overlay " + options + "\n");
    return mounts.size() == 1 ? LayersOf(mounts[0]) : std::set<std::string>{"none"};
  };
  EXPECT_EQ(layers("rw,lowerdir=/run/cgpu:/b,upperdir=/u,workdir=/w"),
            (std::set<std::string>{"/run/cgpu", "/b", "/u"}));
  EXPECT_EQ(layers("rw,lowerdir=l/ABC:l/DEF,upperdir=X/diff"), std::set<std::string>{});
  EXPECT_EQ(layers("rw,lowerdir+=/a,datadir+=/b"), (std::set<std::string>{"/a", "/b"}));
  for (const char* name : {"/a\\072b", "/a\\134:b"}) {  // from 6.5 on, and before
    EXPECT_TRUE(layers(std::string("rw,lowerdir=/c:") + name).contains("/a:b")) << name;
  }
  EXPECT_TRUE(layers("rw,lowerdir=/a\\054b\\040c").contains("/a,b c"));
  EXPECT_TRUE(layers("rw,lowerdir=/a\\134:/run/cgpu").contains("/run/cgpu"));
  EXPECT_TRUE(layers("rw,lowerdir=/a\\134b").contains("/a\\b"));
  EXPECT_EQ(LayersOf(Entry("8:1", "/", "/")), std::set<std::string>{});
}

}  // namespace
}  // namespace cgpu
