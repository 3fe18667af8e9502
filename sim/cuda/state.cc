#include "sim/cuda/state.h"

namespace cgpu::sim::cuda {

GuardedState& TheState() {
  static GuardedState* const state = new GuardedState;
  return *state;
}

void*& Current() {
  thread_local void* current = nullptr;
  return current;
}

Status FindStream(State& state, void* handle, Context** context, Stream** stream) {
  *stream = state.streams.Find(handle);
  if (handle != nullptr && *stream == nullptr) {
    return kInvalidHandle;
  }
  *context = handle != nullptr ? (*stream)->context : state.contexts.Find(Current());
  return *context == nullptr ? kInvalidContext : kSuccess;
}

Status Submit(State& state, void* stream, const Step& step) {
  Context* context = nullptr;
  Stream* in = nullptr;
  if (const Status status = FindStream(state, stream, &context, &in); status != kSuccess) {
    return status;
  }
  if (in != nullptr && in->capture != nullptr) {
    in->capture->steps.push_back(step);
    return kSuccess;
  }
  const Status status = context->Run(step);
  if (in != nullptr) {
    in->last = context->launched();
  }
  return status;
}

}  // namespace cgpu::sim::cuda
