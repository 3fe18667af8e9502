#include "load/burn/burn.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <deque>
#include <random>

#include "load/burn/latencies.h"
#include "load/burn/report.h"

namespace cgpu::burn {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// Divisor of the pause between two looks at what has ended. The pause is so small a part of the age
// of what is waited for that a latency is late by no more than a 32nd, and a queue runs no emptier
// than that.
constexpr std::uint64_t kPartOfAge = 32;
constexpr std::uint64_t kLeastPause = 20'000;
constexpr std::uint64_t kMostPause = 4'000'000;
constexpr std::uint64_t kStopTimeout = kSecond;  // for launches under way when it is stopped

std::uint64_t Now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// Returns true if one of the signals came meanwhile.
bool SleepOrSignal(std::uint64_t ns) {
  const sigset_t set = Signals();
  const timespec time{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  return sigtimedwait(&set, nullptr, &time) > 0;
}

class Burner {
 public:
  Burner(Load& load, const Options& options)
      : load_(load),
        options_(options),
        report_(options),
        begin_(Now()),
        second_{0, begin_},
        chance_(options.pace.seed.value_or(begin_)),
        spread_(0, options.pace.gap_spread_us),
        between_(options.pace.rate.value_or(1) / static_cast<double>(kSecond)),
        due_(begin_) {}

  Result<> Run() {
    report_.Begin(load_.Steps());
    while (true) {
      const std::uint64_t now = Now();
      TakeEnded(now);
      TellSeconds(now);
      if (const auto broken = load_.Broken()) {
        return *broken;
      }
      if (!stopping_ && IsTime(now)) {
        stopping_ = now;
      }
      if (stopping_ && (launched_.empty() || now - *stopping_ >= Timeout())) {
        report_.Sum({ended_, now - begin_}, launched_.size(), latencies_);
        return {};
      }
      if (!stopping_) {
        LaunchDue(now);
      }
      signalled_ = SleepOrSignal(Pause(now)) || signalled_;
    }
  }

 private:
  struct Second {
    std::uint64_t ended = 0;  // launches, at its begin
    std::uint64_t begin = 0;
  };

  [[nodiscard]] bool AllLaunched() const {
    return options_.pace.count && total_ >= *options_.pace.count;
  }
  [[nodiscard]] bool IsTime(std::uint64_t now) const {
    const auto& seconds = options_.pace.seconds;
    return signalled_ || AllLaunched() || (seconds && now - begin_ >= *seconds * kSecond);
  }
  // Returns the timeout. Counted launches are waited for until a signal comes.
  [[nodiscard]] std::uint64_t Timeout() const {
    return AllLaunched() && !signalled_ ? ~std::uint64_t{0} : kStopTimeout;
  }

  void TakeEnded(std::uint64_t now) {
    for (const std::uint64_t all = load_.Ended(); ended_ < all; ++ended_) {
      const std::uint64_t latency = now - launched_.front();
      latencies_.Add(latency);
      if (options_.each) {
        report_.Each(latency);
      }
      launched_.pop_front();
      last_end_ = now;
      // Ends of launches must not change the random times of --rate.
      gap_ = options_.pace.gap_us + (options_.pace.gap_spread_us != 0 ? spread_(chance_) : 0);
    }
  }

  [[nodiscard]] std::uint64_t SecondEnd() const { return begin_ + (seconds_ + 1) * kSecond; }

  void TellSeconds(std::uint64_t now) {
    if (now >= SecondEnd()) {
      seconds_ = (now - begin_) / kSecond;
      report_.Second(seconds_, {ended_ - second_.ended, now - second_.begin});
      second_ = {ended_, now};
    }
  }

  // Returns the time before which nothing is due; 0: something is due.
  [[nodiscard]] std::uint64_t NextLaunch() const {
    if (options_.pace.rate) {
      return due_;
    }
    if (options_.pace.duty_percent) {
      return allowance_ > 0 ? 0 : period_end_;
    }
    return launched_.empty() && total_ != 0 ? last_end_ + gap_ * 1000 : 0;
  }

  void BeginPeriod(std::uint64_t now) {
    const std::uint64_t period = options_.pace.period_ms * 1'000'000;
    if (!options_.pace.duty_percent || now < period_end_) {
      return;
    }
    const auto busy = static_cast<std::int64_t>(period / 100 * *options_.pace.duty_percent);
    allowance_ = std::min(allowance_ + busy, busy);
    period_end_ = period_end_ + period > now ? period_end_ + period : now + period;
  }

  void LaunchDue(std::uint64_t now) {
    BeginPeriod(now);
    while (NextLaunch() <= now && !AllLaunched() && load_.Launch()) {
      if (options_.pace.rate) {
        launched_.push_back(due_);
        due_ += static_cast<std::uint64_t>(between_(chance_));
      } else {
        launched_.push_back(Now());
      }
      ++total_;
      allowance_ -= static_cast<std::int64_t>(options_.shape.launch_ns());
    }
  }

  [[nodiscard]] std::uint64_t Pause(std::uint64_t now) const {
    std::uint64_t until = SecondEnd();
    if (!stopping_) {
      if (options_.pace.seconds) {
        until = std::min(until, begin_ + *options_.pace.seconds * kSecond);
      }
      if (const std::uint64_t next = NextLaunch();
          !AllLaunched() && next != 0 && (next > now || launched_.empty())) {
        until = std::min(until, next);
      }
    }
    std::uint64_t pause = until > now ? until - now : 1;
    if (!launched_.empty()) {
      const std::uint64_t age = now - std::min(now, launched_.front());
      pause = std::min(pause, std::clamp(age / kPartOfAge, kLeastPause, kMostPause));
    }
    return pause;
  }

  Load& load_;
  const Options& options_;
  Report report_;
  Latencies latencies_;
  std::uint64_t begin_;
  Second second_;
  std::uint64_t seconds_ = 0;           // already reported
  std::deque<std::uint64_t> launched_;  // when the launches began, or when they were due; those
                                        // that have not ended
  std::uint64_t total_ = 0;             // launches
  std::uint64_t ended_ = 0;
  std::uint64_t last_end_ = 0;
  std::uint64_t gap_ = 0;  // after that
  std::mt19937_64 chance_;
  std::uniform_int_distribution<std::uint64_t> spread_;
  std::exponential_distribution<double> between_;  // ns from one launch of --rate to the next
  std::uint64_t due_;                              // the next of those launches
  std::int64_t allowance_ = 0;  // of --duty: what may still be launched in this period, in ns
  std::uint64_t period_end_ = 0;
  bool signalled_ = false;
  std::optional<std::uint64_t> stopping_;  // since when it is stopping
};

}  // namespace

void TakeSignals() {
  const sigset_t set = Signals();
  (void)pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<> Burn(Load& load, const Options& options) {
  // Without it each pause is some 50 us longer.
  (void)prctl(PR_SET_TIMERSLACK, 1UL);
  return Burner(load, options).Run();
}

}  // namespace cgpu::burn
