// Plays the container engine and its runtime for a shim with an agent socket:
//
//   agent serve NODE MEM SOCKET CREATOR
//     announces a container with MEM of each GPU of simulated node NODE, binds SOCKET and starts
//     the container's shim with it; CREATOR is the process that is said to create the container.
//     Says "ready ID", and "ended" when the shim has ended. Ends by itself when its input does.
//   agent exec NODE SOCKET STYLE [USER] -- COMMAND...
//     becomes COMMAND, on NODE and under a filter whose listener it has sent to SOCKET. STYLE:
//       runc  says it as runc does
//       crun  as crun does
//       open  as runc, and leaves the connection open until COMMAND ends
//       late  connects, says "connected", and goes on after a line of input
//     USER: the uid that connects.
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "grant/grant.h"
#include "grant/request.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/shim_process.h"
#include "os/messages.h"
#include "run/plain.h"
#include "sandbox/filter.h"

namespace cgpu {
namespace {

using Args = std::vector<std::string>;

template <class T>
T Must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "agent: %s\n", FormatError(result.error()).c_str());
    _exit(1);
  }
  return std::move(*result);
}

void Must(const Result<>& result) {
  if (!result.ok()) {
    std::fprintf(stderr, "agent: %s\n", FormatError(result.error()).c_str());
    _exit(1);
  }
}

void MustHold(bool holds, const char* what) {
  if (!holds) {
    Must(ErrnoError(Code::kUnavailable, errno, what));
  }
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd Listen(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(path);
  MustHold(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
               chmod(path.c_str(), 0666) == 0 && listen(socket.get(), 512) == 0,
           "cannot listen");
  return socket;
}

Reservation MakeReservation(const Grant& grant, const std::vector<Reservation>& live) {
  unsigned char bytes[6];
  MustHold(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes), "no random numbers");
  Reservation reservation;
  for (const unsigned char byte : bytes) {
    reservation.id += "0123456789abcdef"[byte >> 4];
    reservation.id += "0123456789abcdef"[byte & 15];
  }
  reservation.name = "agent-" + reservation.id;
  reservation.shim_uid = PickShimUid(live, bytes[0] * 256U + bytes[1]);
  reservation.since = static_cast<std::uint64_t>(std::time(nullptr));
  reservation.gpus = grant.gpus;
  return reservation;
}

int Serve(const Args& args) {
  const Node node = Must(FindSimulatedNode(args.at(2)));
  const Registry registry = Must(Registry::Open());
  ResourceRequest request;
  request.memory.push_back(Must(ParseSize(args.at(3))));
  ShimDescriptors descriptors;
  ShimConfig config;
  uid_t uid = 0;
  {
    const RegistryLock lock = Must(registry.Lock());
    const auto live = Must(registry.List(lock));
    const Grant grant = Must(MakeGrant(request, node.gpus, GpuUses(node.gpus, live)));
    const Reservation reservation = MakeReservation(grant, live);
    descriptors.admin = Must(registry.Add(lock, reservation));
    uid = reservation.shim_uid;
    config.id = reservation.id;
    config.name = reservation.name;
    config.since = reservation.since;
    Describe(node, grant, config);
  }
  descriptors.agent = Listen(args.at(4));
  descriptors.creator.reset(
      static_cast<int>(syscall(SYS_pidfd_open, std::atoi(args.at(5).c_str()), 0)));
  const ShimProcess shim = Must(ShimProcess::Start(config, std::move(descriptors), uid));
  std::printf("ready %s\n", config.id.c_str());
  (void)std::fflush(stdout);
  pollfd events[] = {{shim.control(), 0, 0}, {STDIN_FILENO, 0, 0}};
  while (poll(events, 2, -1) < 0 && errno == EINTR) {
  }
  if (events[0].revents != 0) {
    std::puts("ended");
  }
  const RegistryLock lock = Must(registry.Lock());
  registry.RemoveIfDead(lock, config.id);
  return 0;
}

std::string StateOf(const std::string& style, pid_t pid) {
  const std::string number = std::to_string(pid);
  if (style == "crun") {
    return "{\n  \"ociVersion\": \"0.2.0\",\n  \"fds\": [\n    \"seccompFd\"\n  ],\n  \"pid\": " +
           number +
           ",\n  \"metadata\": \"\",\n  \"state\": {\n    \"ociVersion\": \"1.0\",\n    \"id\": "
           "\"a\","
           "\n    \"pid\": 1,\n    \"bundle\": \"/b\"\n  }\n}\n";
  }
  return R"({"ociVersion":"1.0.2-dev","fds":["seccompFd"],"pid":)" + number +
         R"(,"metadata":"","state":{"ociVersion":"1.0.2-dev","id":"a","status":"creating","pid":)" +
         R"(1,"bundle":"/b","annotations":{"pid":"2"}}})";
}

UniqueFd ConnectAs(uid_t user, const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(path);
  if (!socket.valid() || seteuid(user) != 0 ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      seteuid(0) != 0) {
    MustHold(false, "cannot connect");
  }
  return socket;
}

int Exec(const Args& args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  const std::string& style = args.at(4);
  const uid_t user =
      dashes - args.begin() > 5 ? static_cast<uid_t>(std::stoul(args.at(5))) : uid_t{0};
  UniqueFd socket = ConnectAs(user, args.at(3));
  if (style == "late") {
    std::puts("connected");
    (void)std::fflush(stdout);
    char c = 0;
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {
    }
  }
  if (style == "open") {
    MustHold(fcntl(socket.get(), F_SETFD, 0) == 0, "cannot keep the connection");
  }
  Must(EnterPlainNode(args.at(2)));
  UniqueFd listener = Must(sandbox::InstallGpuFilter({}));
  // A shim that refuses the sender may have closed the connection already.
  (void)SendMessage(socket.get(), StateOf(style, getpid()), listener.get());
  std::vector<char*> command;
  for (auto word = dashes + 1; word < args.end(); ++word) {
    command.push_back(const_cast<char*>(word->c_str()));
  }
  command.push_back(nullptr);
  execvp(command[0], command.data());
  MustHold(false, "cannot execute the command");
  return 1;
}

}  // namespace
}  // namespace cgpu

int main(int argc, char** argv) {
  const cgpu::Args args(argv, argv + argc);
  if (args.size() == 6 && args[1] == "serve") {
    return cgpu::Serve(args);
  }
  if (args.size() > 6 && args[1] == "exec") {
    return cgpu::Exec(args);
  }
  std::fprintf(stderr, "usage: agent serve|exec ..., see agent.cc\n");
  return 64;
}
