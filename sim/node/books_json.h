// `cgpu sim books` as JSON.
#ifndef CGPU_SIM_NODE_BOOKS_JSON_H_
#define CGPU_SIM_NODE_BOOKS_JSON_H_

#include <string>

#include "sim/driver/driver.h"
#include "sim/fuse/gpu_link.h"

namespace cgpu::sim {

// What was counted, of one moment each: the driver's books, nvidia-uvm's and the engines'.
struct AllBooks {
  Books driver;
  Driver::Counts counts;
  UvmBooks uvm;
  GpuBooks gpu;
  bool engines_answer = true;
};

[[nodiscard]] std::string BooksJson(const Driver& driver, const GpuLink& link,
                                    const AllBooks& books);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_BOOKS_JSON_H_
