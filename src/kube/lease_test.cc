#include "kube/lease.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::kube {
namespace {

using std::chrono::seconds;

constexpr LeaseView::Clock::time_point kSeen{seconds(1000)};

// As kube-scheduler writes it.
std::string Lease(const std::string& holder, const std::string& renewed) {
  return R"({"metadata": {"name": "x"}, "spec": {"holderIdentity": ")" + holder +
         R"(", "leaseDurationSeconds": 15, "renewTime": ")" + renewed +
         R"(", "leaseTransitions": 3}})";
}

TEST(LeaseViewTest, CountsFromWhenARenewalIsSeen) {
  LeaseView lease("host_");
  EXPECT_FALSE(lease.Held(kSeen));
  lease.Set(Lease("host_1-2", "t1"), kSeen);
  EXPECT_TRUE(lease.Held(kSeen + seconds(9)));
  EXPECT_FALSE(lease.Held(kSeen + seconds(10)));
  lease.Set(Lease("host_1-2", "t1"), kSeen + seconds(8));  // seen again: not renewed
  EXPECT_FALSE(lease.Held(kSeen + seconds(10)));
  lease.Set(Lease("host_1-2", "t2"), kSeen + seconds(8));
  EXPECT_TRUE(lease.Held(kSeen + seconds(17)));
}

TEST(LeaseViewTest, IsNotHeldByOthers) {
  LeaseView lease("host_");
  for (const std::string& text : {Lease("other_1", "t"), Lease("host1_1", "t"), Lease("", "t"),
                                  std::string(), std::string("{}"), std::string("nonsense")}) {
    lease.Set(Lease("host_1", "t"), kSeen);
    EXPECT_TRUE(lease.Held(kSeen));
    lease.Set(text, kSeen);
    EXPECT_FALSE(lease.Held(kSeen)) << text;
  }
}

}  // namespace
}  // namespace cgpu::kube
