// cgpu-shim: one per container. Started by cgpu with the sockets that registry/config.h describes;
// never by hand.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "registry/config.h"
#include "registry/text.h"
#include "shim/confine.h"
#include "shim/housekeeping.h"
#include "shim/server.h"

namespace cgpu::shim {
namespace {

Result<std::string> ReceiveMessage(int socket, UniqueFd* descriptor) {
  std::string text(kMaxMessage, '\0');
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0 || (message.msg_flags & MSG_TRUNC) != 0) {
    return Error{Code::kUnavailable, errno, "the launcher is gone", {}};
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    UniqueFd received(fd);
    if (descriptor != nullptr) {
      *descriptor = std::move(received);
    }
  }
  text.resize(static_cast<std::size_t>(n));
  return text;
}

void Say(int socket, const std::string& text) {
  (void)send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

// "GPU-8-4-4-4-12 hex digits" as the driver's 16 bytes.
std::optional<rm::NvProcessorUuid> UuidOf(std::string_view text) {
  constexpr std::string_view kPrefix = "GPU-";
  if (!text.starts_with(kPrefix)) {
    return std::nullopt;
  }
  text.remove_prefix(kPrefix.size());
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != '-'; });
  rm::NvProcessorUuid uuid{};
  if (digits.size() != 2 * std::size(uuid.uuid)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < std::size(uuid.uuid); ++i) {
    const char* at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, uuid.uuid[i], 16).ptr != at + 2) {
      return std::nullopt;
    }
  }
  return uuid;
}

// A descriptor that the launcher left under this number, if it is what `check` looks for.
template <class Check>
UniqueFd TakeFd(int number, const Check& check) {
  UniqueFd fd(fcntl(number, F_GETFD) >= 0 ? number : -1);
  if (!fd.valid() || !check(number)) {
    return {};
  }
  (void)fcntl(number, F_SETFD, FD_CLOEXEC);
  return fd;
}

UniqueFd TakeListening(int number) {
  return TakeFd(number, [](int fd) {
    int listening = 0;
    socklen_t size = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
  });
}

UniqueFd TakeRecord() {
  return TakeFd(kShimRecordFd, [](int fd) {
    struct stat info{};
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  });
}

UniqueFd TakeCreator() {
  return TakeFd(kShimCreatorFd, [](int fd) {
    return syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
  });
}

Result<std::unique_ptr<Server>> MakeServer(const ShimConfig& config) {
  const auto version = rm::ParseDriverVersion(config.driver);
  const rm::Abi* abi = version ? rm::FindAbi(*version) : nullptr;
  if (abi == nullptr) {
    return Error{Code::kUnsupported, 0, "driver " + config.driver + " is not known to this cgpu",
                 "use a driver from " + rm::SupportedDrivers() + ", or a newer cgpu"};
  }
  std::string control;
  std::vector<std::string> card_paths;
  for (const CardGrant& card : config.cards) {
    for (const NodeFile& file : config.files) {
      if (file.kind == NodeFile::Kind::kCtl) {
        control = file.path;
      } else if (file.kind == NodeFile::Kind::kGpu && file.minor == card.card.minor) {
        card_paths.push_back(file.path);
      }
    }
  }
  if (control.empty() || card_paths.size() != config.cards.size()) {
    return Error{Code::kInvalid, 0, "the configuration lacks files of the grant", {}};
  }
  auto driver = Driver::Open(*abi, control, std::move(card_paths));
  if (!driver.ok()) {
    return driver.error();
  }
  std::vector<boundary::CardIds> cards;
  for (const CardGrant& card : config.cards) {
    auto instance = (*driver)->DeviceInstance(card.card.gpu_id);
    if (!instance.ok()) {
      return instance.error();
    }
    const auto uuid = UuidOf(card.card.uuid);
    if (!uuid) {
      return Error{Code::kInvalid, 0, "the configuration has no card " + card.card.uuid, {}};
    }
    cards.push_back(
        {card.card.minor, card.card.gpu_id, *instance, *uuid, card.card.memory_bytes, {}});
  }
  auto proc = OpenFile("/proc", O_RDONLY | O_DIRECTORY);
  if (!proc.ok()) {
    return proc.error();
  }
  return std::make_unique<Server>(config, *abi, std::move(*driver), std::move(cards),
                                  std::move(*proc), TakeRecord());
}

// The agent, where the launcher gave the shim its socket; else null.
Result<std::unique_ptr<Agent>> MakeAgent(Server& server) {
  UniqueFd socket = TakeListening(kShimAgentFd);
  UniqueFd creator = TakeCreator();
  if (!socket.valid()) {
    return std::unique_ptr<Agent>();
  }
  if (!creator.valid() || fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Error{
        Code::kInvalid, 0, "an agent's socket, but no pidfd of the container's creator", {}};
  }
  return Agent::Make(server, std::move(socket), std::move(creator), server.config().user);
}

// Without an agent the one listener there is comes from the launcher.
Result<> ServeFirst(Server& server, const std::string& text, UniqueFd fd) {
  const auto process = DecodeListener(text);
  if (!process.ok()) {
    return process.error();
  }
  auto listener = kernel::NotifyListener::Make(std::move(fd));
  if (!listener.ok()) {
    return listener.error();
  }
  const auto source = server.Serve(std::move(*listener));
  if (!source.ok()) {
    return source.error();
  }
  server.SetProcess(**source, *process);
  return {};
}

Result<std::unique_ptr<Server>> MakeConfigured(const std::string& text) {
  const auto config = DecodeConfig(text);
  if (!config.ok()) {
    return config.error();
  }
  // A launcher that runs as root starts its shims under uids of their own.
  CGPU_TRY(CheckPrivileges(config->user == getuid() ? config->user : 0));
  CGPU_TRY(kernel::NotifyListener::Prepare());
  return MakeServer(*config);
}

Result<> Serve() {
  const UniqueFd launcher(kShimControlFd);
  (void)fcntl(launcher.get(), F_SETFD, FD_CLOEXEC);
  UniqueFd admin = TakeListening(kShimAdminFd);
  const auto fail = [&](const Error& error) {
    Say(launcher.get(), "error " + error.what);
    return error;
  };
  auto text = ReceiveMessage(launcher.get(), nullptr);
  if (!text.ok()) {
    return text.error();
  }
  auto server = MakeConfigured(*text);
  if (!server.ok()) {
    return fail(server.error());
  }
  auto agent = MakeAgent(**server);
  if (!agent.ok()) {
    return fail(agent.error());
  }
  UniqueFd listener;
  const bool by_launcher = *agent == nullptr;
  if (by_launcher) {
    Say(launcher.get(), "ready");
    text = ReceiveMessage(launcher.get(), &listener);
    if (!text.ok()) {
      return text.error();
    }
  }
  auto housekeeping = Housekeeping::Make(**server, std::move(admin), std::move(*agent));
  if (!housekeeping.ok()) {
    return fail(housekeeping.error());
  }
  if (const auto confined = ConfineSystemCalls(); !confined.ok()) {
    return fail(confined.error());
  }
  (*server)->Start();
  if (by_launcher) {
    if (const auto served = ServeFirst(**server, *text, std::move(listener)); !served.ok()) {
      return fail(served.error());
    }
  }
  Say(launcher.get(), by_launcher ? "ok" : "ready");
  housekeeping->Run();
  // Workers may still wait in the kernel; nothing of theirs matters any more.
  _exit(0);
}

}  // namespace
}  // namespace cgpu::shim

int main() {
  // One heap for all threads, and stacks come and go: this process must stay small.
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): the only thread yet
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  const auto served = cgpu::shim::Serve();
  if (!served.ok()) {
    (void)std::fprintf(stderr, "cgpu-shim: %s\n", cgpu::FormatError(served.error()).c_str());
  }
  return 1;
}
