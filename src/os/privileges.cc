#include "os/privileges.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cgpu {
namespace {

struct CapabilitySets {
  CapabilityMask effective = 0;
  CapabilityMask permitted = 0;
  CapabilityMask inheritable = 0;
};

using Data = std::array<__user_cap_data_struct, 2>;

Result<CapabilitySets> GetCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  Data data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) {
    return ErrnoError(Code::kInternal, errno, "cannot read capabilities");
  }
  const auto join = [](std::uint32_t low, std::uint32_t high) {
    return low | CapabilityMask{high} << 32;
  };
  return CapabilitySets{join(data[0].effective, data[1].effective),
                        join(data[0].permitted, data[1].permitted),
                        join(data[0].inheritable, data[1].inheritable)};
}

Result<> SetCapabilities(const CapabilitySets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  Data data{};
  for (int half = 0; half < 2; ++half) {
    const auto word = [half](CapabilityMask mask) {
      return static_cast<std::uint32_t>(mask >> (32 * half));
    };
    data.at(static_cast<std::size_t>(half)) = {word(sets.effective), word(sets.permitted),
                                               word(sets.inheritable)};
  }
  if (syscall(SYS_capset, &header, data.data()) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot set capabilities");
  }
  return {};
}

Result<> DropFromBoundingSet(CapabilityMask drop) {
  for (int capability = 0; capability < 64; ++capability) {
    if ((drop & CapabilityBit(capability)) == 0 || prctl(PR_CAPBSET_READ, capability) != 1) {
      continue;  // kept, unknown to this kernel, or gone already
    }
    if (prctl(PR_CAPBSET_DROP, capability) != 0) {
      return ErrnoError(Code::kPermission, errno, "cannot drop a capability for good");
    }
  }
  return {};
}

}  // namespace

Result<> DropCapabilities(CapabilityMask drop) {
  CGPU_TRY(DropFromBoundingSet(drop));
  CGPU_ASSIGN_OR_RETURN(auto sets, GetCapabilities());
  // The ambient set holds only permitted and inheritable capabilities, so it shrinks too.
  return SetCapabilities(
      {sets.effective & ~drop, sets.permitted & ~drop, sets.inheritable & ~drop});
}

Result<> BecomeUser(uid_t id, CapabilityMask keep) {
  CGPU_TRY(DropFromBoundingSet(~keep));
  // Permitted capabilities outlive the change of uid only with this; exec clears it.
  if (prctl(PR_SET_KEEPCAPS, 1) != 0 || setgroups(0, nullptr) != 0 || setresgid(id, id, id) != 0 ||
      setresuid(id, id, id) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot become another user");
  }
  CGPU_TRY(SetCapabilities({keep, keep, keep}));
  for (int capability = 0; capability < 64; ++capability) {
    if ((keep & CapabilityBit(capability)) != 0 &&
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) {
      return ErrnoError(Code::kPermission, errno, "cannot keep a capability");
    }
  }
  return SetNoNewPrivileges();
}

Result<> SetNoNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot give up gaining privileges");
  }
  return {};
}

}  // namespace cgpu
