// Makes a request of the shim's own to nvidia-uvm, on its duplicate of a tenant's file.
#ifndef CGPU_SHIM_OWN_CALL_H_
#define CGPU_SHIM_OWN_CALL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "boundary/call.h"
#include "rm/abi.h"
#include "rm/uvm_table.h"

namespace cgpu::shim {

// `params` is as long as the request's in some version of the driver; the rest is zero or cut off.
template <class T>
boundary::Call OwnCall(std::uint64_t space, std::uint32_t request, const rm::Abi& abi,
                       const T& params) {
  const rm::UvmRow* row = rm::FindUvm(request);
  boundary::Call call;
  call.uvm_request = request;
  call.uvm_status = row->status.At(abi.branch);
  call.uvm_space = space;
  call.image.resize(row->size.At(abi.branch));
  std::memcpy(call.image.data(), &params, std::min(sizeof(T), call.image.size()));
  return call;
}

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_OWN_CALL_H_
