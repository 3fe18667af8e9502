// Asks the running kernel what it can, without an effect that lasts.
#ifndef CGPU_DOCTOR_KERNEL_ANSWERS_H_
#define CGPU_DOCTOR_KERNEL_ANSWERS_H_

#include "doctor/facts.h"

namespace cgpu::doctor {

// Returns 0 if the kernel can, or the errno of its answer. Forks for a moment for one question.
[[nodiscard]] int AskKernel(Question question);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_KERNEL_ANSWERS_H_
