// Asks the driver for what cgpu's boundary leaves to it to refuse (docs/reference/driver-leans.md),
// as a process without any capability. Whatever it answers, nothing on the GPU changes for others.
#ifndef CGPU_TESTS_GPU_ORDERS_LEANS_H_
#define CGPU_TESTS_GPU_ORDERS_LEANS_H_

namespace cgpu::orders {

// Prints a line of JSON for each. Those about mappings have "mapping": a simulated driver is not
// asked about them. Exit status: 0; 1 with a sentence.
int Leans();

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_LEANS_H_
