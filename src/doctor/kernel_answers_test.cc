#include "doctor/kernel_answers.h"

#include <gtest/gtest.h>

namespace cgpu::doctor {
namespace {

// The tests of slices need these calls, so a kernel that the project is built on has them.
TEST(KernelAnswers, AKernelThatRunsSlicesHasWhatTheyNeed) {
  for (const Question question :
       {Question::kSeccompNotify, Question::kSeccompSizes, Question::kPidfdOpen,
        Question::kPidfdGetfd, Question::kListener, Question::kOpenTree, Question::kMountSetattr,
        Question::kCloseRange}) {
    EXPECT_EQ(AskKernel(question), 0) << static_cast<int>(question);
  }
}

}  // namespace
}  // namespace cgpu::doctor
