// Holds the containers of one GPU to their caps by an idle group (rmclient/idle_group.h,
// governor/idle_control.h): cgpud's own channel group on that GPU. It wants nothing any more when
// this object ends. If the process is killed, it ends with it, or some seconds later with children
// that serve requests then. A percentage is then a share until cgpud is back.
//
// For one thread.
#ifndef CGPU_CGPUD_IDLE_HOLDER_H_
#define CGPU_CGPUD_IDLE_HOLDER_H_

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "governor/order.h"
#include "host/node.h"
#include "rmclient/gpus.h"
#include "rmclient/idle_group.h"

namespace cgpu {

class IdleHolder {
 public:
  // Makes the group, with a time slice, and lets it run. `trigger`: what makes time slices take
  // effect on this GPU.
  [[nodiscard]] static Result<IdleHolder> Make(const Node& node, const Gpu& gpu,
                                               governor::Trigger trigger, std::uint32_t slice_us);

  IdleHolder(IdleHolder&&) = default;
  IdleHolder& operator=(IdleHolder&&) = delete;
  ~IdleHolder();

  // Sets the group's time slice. 0: it wants none.
  [[nodiscard]] Result<> Set(std::uint32_t slice_us);

 private:
  IdleHolder(std::unique_ptr<rmclient::Session> session, rmclient::IdleGroup group,
             governor::Trigger trigger)
      : session_(std::move(session)), group_(std::move(group)), trigger_(trigger) {}

  std::unique_ptr<rmclient::Session> session_;  // outlives the group
  rmclient::IdleGroup group_;
  governor::Trigger trigger_;
  std::uint32_t slice_us_ = 0;  // that was set last
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_IDLE_HOLDER_H_
