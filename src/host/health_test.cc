#include "host/health.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/mutex.h"

namespace cgpu {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};
constexpr std::chrono::seconds kDeadline{30};

// Keeps what is reported.
class Reports {
 public:
  HealthWatch::Report Taker() {
    return [this](std::size_t gpu, bool healthy) {
      const MutexLock lock(mutex_);
      text_ += std::to_string(gpu) + (healthy ? "+" : "-");
      changed_.NotifyAll();
    };
  }
  // Waits until so much is reported. Returns all.
  std::string Wait(std::size_t reports) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    const MutexLock lock(mutex_);
    while (text_.size() < 2 * reports && changed_.WaitUntil(mutex_, until)) {
    }
    return text_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string text_ CGPU_GUARDED_BY(mutex_);
};

TEST(HealthWatch, ReportsWhatChanges) {
  std::atomic<bool> answers{true};
  std::atomic<unsigned> asked{0};
  Reports reports;
  const HealthWatch watch({[] { return true; },
                           [&] {
                             ++asked;
                             asked.notify_all();
                             return answers.load();
                           }},
                          kPeriod, reports.Taker());
  asked.wait(0);
  answers = false;
  EXPECT_EQ(reports.Wait(1), "1-");
  answers = true;
  EXPECT_EQ(reports.Wait(2), "1-1+");
}

TEST(HealthWatch, DoesNotWaitForAGpuThatHangs) {
  struct Gate {
    std::atomic<bool> open{false};
  };
  const auto gate = std::make_shared<Gate>();
  Reports reports;
  std::atomic<bool> other{true};
  const HealthWatch watch({[gate] {
                             gate->open.wait(false);
                             return true;
                           },
                           [&] { return other.load(); }},
                          kPeriod, reports.Taker());
  EXPECT_EQ(reports.Wait(1), "0-");
  other = false;  // the others are asked all the same
  EXPECT_EQ(reports.Wait(2), "0-1-");
  gate->open = true;
  gate->open.notify_all();
  EXPECT_EQ(reports.Wait(3), "0-1-0+");
}

TEST(HealthWatch, EndsWhileAGpuHangs) {
  const auto open = std::make_shared<std::atomic<bool>>(false);
  Reports reports;
  {
    const HealthWatch watch({[open] {
                              open->wait(false);
                              return true;
                            }},
                            kPeriod, reports.Taker());
    EXPECT_EQ(reports.Wait(1), "0-");
  }
  open->store(true);
  open->notify_all();
}

}  // namespace
}  // namespace cgpu
