// Asks the driver for the memory of one GPU, on a thread of its own: a GPU that hangs holds up
// nobody else.
#ifndef CGPU_EXPORTER_GPU_READER_H_
#define CGPU_EXPORTER_GPU_READER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exporter/snapshot.h"
#include "host/node.h"

namespace cgpu::exporter {

// For one thread.
class GpuReader {
 public:
  struct Reading {
    std::string model;  // the driver's name of the GPU
    GpuMemory memory;
  };

  GpuReader(const Node& node, const Gpu& gpu);
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;
  // Waits for nothing. A call that does not return keeps its thread.
  ~GpuReader();

  // Begins to read. Waits for nothing.
  void Ask();
  // Waits for the answer to the last Ask(). Nothing: the driver does not say, or not in time.
  [[nodiscard]] std::optional<Reading> Answer(std::chrono::steady_clock::time_point until);

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state, const rmclient::DevicePaths& paths,
                  unsigned minor);

  const std::shared_ptr<State> state_;
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_GPU_READER_H_
