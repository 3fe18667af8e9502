// The parameters of an allocation as structures.
#ifndef CGPU_SIM_MODEL_ALLOC_PARAMS_H_
#define CGPU_SIM_MODEL_ALLOC_PARAMS_H_

#include <algorithm>
#include <cstring>

#include "sim/model/driver_model.h"

namespace cgpu::sim {

// Returns the parameters; zero where the caller gave none.
template <class T>
[[nodiscard]] T Params(const AllocRequest& request) {
  T params{};
  std::memcpy(&params, request.params.data(), std::min(sizeof(T), request.params.size()));
  return params;
}

template <class T>
void PutParams(const AllocRequest& request, const T& params) {
  std::memcpy(request.params.data(), &params, std::min(sizeof(T), request.params.size()));
}

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_ALLOC_PARAMS_H_
