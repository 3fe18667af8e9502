#include "cgpud/calibrating.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/child.h"
#include "host/capping.h"
#include "host/node.h"
#include "host/shim_process.h"

namespace cgpu {
namespace {

// Time for which a GPU has no container before it is asked: programs start one after the other.
constexpr std::chrono::seconds kIdle{10};
constexpr std::chrono::seconds kFirstBackoff{60};
constexpr std::chrono::seconds kLastBackoff{3600};

// Returns the last line that it holds.
std::string LastLine(int file) {
  std::string text(4096, '\0');
  const ssize_t n = pread(file, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  text.erase(std::find_if(text.rbegin(), text.rend(), [](char c) { return c != '\n'; }).base(),
             text.end());
  const auto from = text.rfind('\n');
  return from == std::string::npos ? text : text.substr(from + 1);
}

// Executes the program in a child that was just made. It gets no file but what it is to write to.
[[noreturn]] void Execute(const std::vector<std::string>& words, int said) {
  sigset_t none;
  sigemptyset(&none);
  (void)pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
      dup2(said, STDERR_FILENO) < 0) {
    _exit(127);
  }
  execv(words.front().c_str(), PointersTo(words).data());
  _exit(127);
}

}  // namespace

// Returns the GPUs that have a container.
Result<std::set<std::string>> Calibrating::InUse() const {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry_.Live());
  std::set<std::string> uuids;
  for (const Reservation& reservation : live) {
    for (const GpuGrant& grant : reservation.gpus) {
      uuids.insert(grant.gpu.uuid);
    }
  }
  return uuids;
}

// Starts to ask a GPU.
Result<> Calibrating::Start(const std::string& uuid) {
  CGPU_ASSIGN_OR_RETURN(const auto program, ProgramPath("cgpu"));
  said_.reset(memfd_create("cgpu-calibrate", MFD_CLOEXEC));
  std::vector<std::string> words{program, "calibrate", uuid};
  if (!node_.empty()) {
    words.insert(words.end(), {"--node", node_});
  }
  const pid_t parent = getpid();
  CGPU_ASSIGN_OR_RETURN(const pid_t child, Fork());
  if (child == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
      _exit(127);
    }
    Execute(words, said_.get());
  }
  child_ = child;
  asked_ = uuid;
  return {};
}

std::vector<std::string> Calibrating::Look(Clock::time_point now) {
  next_.reset();
  const auto node = allowed_ ? FindNode(node_) : Result<Node>(Error{});
  if (!node.ok() || node->caps) {  // a simulated node whose GPUs are known
    return {};
  }
  const auto in_use = InUse();
  if (!in_use.ok()) {
    next_ = now + kFirstBackoff;
    return {};
  }
  const std::set<std::string>& used = *in_use;
  if (child_ != 0) {
    if (used.contains(asked_)) {
      came_ = true;
      (void)kill(child_, SIGKILL);
    }
    return {};  // Ended() goes on
  }
  std::vector<std::string> log;
  for (const Gpu& gpu : node->gpus) {
    const bool known = MeansOf(*node, gpu.uuid).card.slices != governor::Effect::kUnknown;
    if (known || used.contains(gpu.uuid)) {
      idle_.erase(gpu.uuid);
      if (!known && told_.insert(gpu.uuid).second) {
        log.push_back("GPU " + gpu.uuid +
                      " waits to be asked how it takes orders, until no container uses it; until "
                      "then percentages on it are shares, and no caps");
      }
      continue;
    }
    const auto from = idle_.try_emplace(gpu.uuid, now + kIdle).first->second;
    if (now < from) {
      next_ = next_ ? std::min(*next_, from) : from;
      continue;
    }
    if (const auto started = Start(gpu.uuid); !started.ok()) {
      log.push_back("GPU " + gpu.uuid +
                    " is not asked how it takes orders: " + started.error().what);
      idle_[gpu.uuid] = now + kLastBackoff;
      continue;
    }
    if (!backoff_.contains(gpu.uuid)) {  // the first time
      told_.erase(gpu.uuid);             // that it waits; a failure is something else
      log.push_back("asks GPU " + gpu.uuid + " how it takes orders; it takes less than a minute");
    }
    next_.reset();
    break;
  }
  return log;
}

std::optional<std::vector<std::string>> Calibrating::Ended(pid_t child, int status) {
  if (child != child_ || child == 0) {
    return std::nullopt;
  }
  child_ = 0;
  const bool came = std::exchange(came_, false);
  const auto now = Clock::now();
  std::vector<std::string> log;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    log.push_back("GPU " + asked_ +
                  " was asked how it takes orders: `cgpu policy` says what it showed");
    told_.erase(asked_);
    backoff_.erase(asked_);
    idle_[asked_] = now + kLastBackoff;  // if what was kept says nothing
  } else {
    auto& backoff = backoff_.try_emplace(asked_, kFirstBackoff).first->second;
    if (told_.insert(asked_).second) {
      const std::string why = LastLine(said_.get());
      log.push_back("GPU " + asked_ +
                    " could not be asked how it takes orders, and will be again: " +
                    (came          ? "a container came"
                     : why.empty() ? "it ended"
                                   : why));
    }
    idle_[asked_] = now + backoff;
    backoff = std::min(2 * backoff, kLastBackoff);
  }
  said_.reset();
  for (std::string& line : Look(now)) {
    log.push_back(std::move(line));
  }
  return log;
}

void Calibrating::Stop() {
  if (child_ != 0) {
    (void)kill(child_, SIGKILL);
    child_ = 0;
  }
}

}  // namespace cgpu
