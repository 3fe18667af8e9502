// Mutexes whose use clang checks. The clang builds treat a guarded member that is touched without
// its mutex as an error (-Wthread-safety); g++ ignores the annotations.
//
// Annotations stand behind a declaration:
//
//   int count_ CGPU_GUARDED_BY(mutex_);              // needs mutex_
//   void Add() CGPU_REQUIRES(mutex_);                // the caller holds mutex_
//   Mutex a_ CGPU_ACQUIRED_BEFORE(b_);               // the order of two mutexes
//
// The analysis looks at one function at a time. A lambda is a function of its own, which holds
// nothing: code under a lock uses loops, or names what the lambda needs in a local reference first.
#ifndef CGPU_BASE_MUTEX_H_
#define CGPU_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

// clang's attributes (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html).
#ifdef __clang__
#define CGPU_THREAD_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define CGPU_THREAD_ATTRIBUTE(...)
#endif
#define CGPU_GUARDED_BY(mutex) CGPU_THREAD_ATTRIBUTE(guarded_by(mutex))
#define CGPU_REQUIRES(...) CGPU_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define CGPU_ACQUIRED_BEFORE(...) CGPU_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define CGPU_ACQUIRE(...) CGPU_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define CGPU_RELEASE(...) CGPU_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace cgpu {

class CGPU_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() CGPU_ACQUIRE() { mutex_.lock(); }
  void Unlock() CGPU_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool TryLock() CGPU_THREAD_ATTRIBUTE(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex in a scope. May be unlocked before the scope's end, and locked again.
class CGPU_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CGPU_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() CGPU_RELEASE() {
    if (locked_) {
      mutex_.Unlock();
    }
  }
  void Lock() CGPU_ACQUIRE() {
    mutex_.Lock();
    locked_ = true;
  }
  void Unlock() CGPU_RELEASE() {
    locked_ = false;
    mutex_.Unlock();
  }

 private:
  Mutex& mutex_;
  bool locked_ = true;
};

// Waits with a mutex that the caller holds. Each wait may end early: callers wait in a loop.
class CondVar {
 public:
  void Wait(Mutex& mutex) CGPU_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    (void)lock.release();
  }
  // Returns false if the time came first.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point until) CGPU_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    (void)lock.release();
    return in_time;
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace cgpu

#endif  // CGPU_BASE_MUTEX_H_
