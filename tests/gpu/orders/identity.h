// Asks, without a shim, for what a shim needs of the driver: it takes calls that another process
// makes on a descriptor of this one's as from a client of its own.
#ifndef CGPU_TESTS_GPU_ORDERS_IDENTITY_H_
#define CGPU_TESTS_GPU_ORDERS_IDENTITY_H_

namespace cgpu::orders {

// A line of JSON for each call, or kind of call. Exit status: 0; 1 with a sentence.
int Identity();

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_IDENTITY_H_
