// cgpu-shim: one per container. Started by `cgpu run` with the sockets that registry/config.h
// describes; never by hand.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

// The launcher's record file, if there is one.
UniqueFd TakeRecord() {
  struct stat info{};
  UniqueFd file(fstat(kShimRecordFd, &info) == 0 ? kShimRecordFd : -1);
  if (!file.valid() || !S_ISREG(info.st_mode)) {
    return {};
  }
  (void)fcntl(file.get(), F_SETFD, FD_CLOEXEC);
  return file;
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

Result<> Serve() {
  const UniqueFd launcher(kShimControlFd);
  UniqueFd admin(fcntl(kShimAdminFd, F_GETFD) >= 0 ? kShimAdminFd : -1);
  (void)fcntl(launcher.get(), F_SETFD, FD_CLOEXEC);
  if (admin.valid()) {
    (void)fcntl(admin.get(), F_SETFD, FD_CLOEXEC);
  }
  const auto fail = [&](const Error& error) {
    Say(launcher.get(), "error " + error.what);
    return error;
  };
  auto text = ReceiveMessage(launcher.get(), nullptr);
  if (!text.ok()) {
    return text.error();
  }
  const auto config = DecodeConfig(*text);
  if (!config.ok()) {
    return fail(config.error());
  }
  // A launcher that runs as root starts its shims under uids of their own.
  if (const auto checked = CheckPrivileges(config->user == getuid() ? config->user : 0);
      !checked.ok()) {
    return fail(checked.error());
  }
  auto server = MakeServer(*config);
  if (!server.ok()) {
    return fail(server.error());
  }
  Say(launcher.get(), "ready");
  UniqueFd listener_fd;
  text = ReceiveMessage(launcher.get(), &listener_fd);
  if (!text.ok()) {
    return text.error();
  }
  const auto first_pid = DecodeListener(*text);
  if (!first_pid.ok()) {
    return fail(first_pid.error());
  }
  auto listener = kernel::NotifyListener::Make(std::move(listener_fd));
  if (!listener.ok()) {
    return fail(listener.error());
  }
  auto housekeeping = Housekeeping::Make(**server, std::move(admin), *first_pid);
  if (!housekeeping.ok()) {
    return fail(housekeeping.error());
  }
  if (const auto confined = ConfineSystemCalls(); !confined.ok()) {
    return fail(confined.error());
  }
  (*server)->Start(std::move(*listener), *first_pid);
  Say(launcher.get(), "ok");
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
