#include "runtime/annotations.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

TEST(Annotations, WhatARuntimeActsOnIsRefused) {
  for (const char* name :
       {"run.oci.seccomp_bpf_data", "run.oci.seccomp.receiver", "run.oci.seccomp.plugins",
        "run.oci.handler", "run.oci.hooks.stdout", "run.oci.pidfd_receiver", "run.oci.new",
        "krun.variant", "module.wasm.image/variant", "org.criu.config",
        "org.systemd.property.DeviceAllow", "org.systemd.property.Slice", "bundle", "bundle=/x",
        "org.criu.config=", "run.oci.keep_original_groups=x", "io.katacontainers.config.x",
        "dev.gvisor.flag.platform"}) {
    EXPECT_TRUE(IsActingAnnotation(name)) << name;
    const auto checked = CheckAnnotations({{"a", "b"}, {name, "1"}});
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, Code::kPermission);
    EXPECT_NE(checked.error().what.find(name), std::string::npos) << checked.error().what;
    EXPECT_FALSE(checked.error().hint.empty());
  }
}

TEST(Annotations, WhatEnginesSetStays) {
  EXPECT_TRUE(CheckAnnotations({{"run.oci.keep_original_groups", "1"},
                                {"run.oci.mount_context_type", "rootcontext"},
                                {"org.systemd.property.KillSignal", "37"},
                                {"org.systemd.property.TimeoutStopUSec", "uint64 10000000"},
                                {"org.systemd.property.CollectMode", "'inactive-or-failed'"},
                                {"io.container.manager", "libpod"},
                                {"io.podman.annotations.seccomp", "unconfined"},
                                {"io.kubernetes.cri.container-type", "container"},
                                {"org.opencontainers.image.stopSignal", "15"},
                                {"bundles", "x"},
                                {"", ""}})
                  .ok());
}

}  // namespace
}  // namespace cgpu
