// The CUDA state of a process: contexts, and things that it has handles of. One lock for all; a
// call that waits holds it.
#ifndef CGPU_SIM_CUDA_STATE_H_
#define CGPU_SIM_CUDA_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sim/cuda/context.h"

#define CGPU_CUDA_API extern "C" __attribute__((visibility("default")))

namespace cgpu::sim::cuda {

struct Module {
  std::string text;
};
enum class Entry : std::uint8_t { kSpin, kFault };
struct Function {
  Entry entry;
};
struct Graph {
  std::vector<Step> steps;
};
struct Stream {
  Context* context;
  std::uint64_t last = 0;          // launch
  std::unique_ptr<Graph> capture;  // into it, when there is one
};
struct Event {
  Context* context = nullptr;
  std::uint64_t launch = 0;
};

// Things that the program has handles of.
template <class T>
class Things {
 public:
  void* Add(std::unique_ptr<T> thing) {
    T* const handle = thing.get();
    things_[handle] = std::move(thing);
    return handle;
  }
  T* Find(void* handle) {
    const auto found = things_.find(handle);
    return found == things_.end() ? nullptr : found->second.get();
  }
  bool Remove(void* handle) { return things_.erase(handle) != 0; }

 private:
  std::map<void*, std::unique_ptr<T>> things_;
};

struct State {
  bool ready = false;  // cuInit was called
  std::vector<rmclient::Gpu> gpus;
  std::optional<rmclient::Client> client;  // for what is asked without a context
  Things<Context> contexts;
  std::map<std::size_t, void*> primary;  // contexts, by GPU
  Things<Module> modules;
  Things<Function> functions;
  Things<Graph> graphs;
  Things<Stream> streams;
  Things<Event> events;
};

// Keeps the state behind its lock.
struct GuardedState {
  Mutex mutex;
  State state CGPU_GUARDED_BY(mutex);
};

// Returns the state of this process. Never destroyed: threads may use it at the process's end.
GuardedState& TheState();

// The calling thread's context, by its handle; null for none.
void*& Current();

// The context and the stream of a call; a null stream is the context's own.
Status FindStream(State& state, void* handle, Context** context, Stream** stream);

// Does it, or puts it into the graph that is captured.
Status Submit(State& state, void* stream, const Step& step);

template <class Body>
int With(Body body) {
  GuardedState& guarded = TheState();
  const MutexLock lock(guarded.mutex);
  return guarded.state.ready ? body(guarded.state) : kNotInitialized;
}

template <class Body>
int WithContext(Body body) {
  return With([&](State& state) -> Status {
    Context* const context = state.contexts.Find(Current());
    return context == nullptr ? kInvalidContext : body(*context);
  });
}

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_STATE_H_
