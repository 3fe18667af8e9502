// Attacks with what belongs to others: their client handles, their exported objects, their files;
// and games with the files that hold one's own exported objects.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

// Allocates, and lets everybody copy it, or nobody.
int Victim(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint32_t object = 0;
  if (client.AllocMemory(Number(args, 0, 512), &object) != rm::NV_OK) {
    Die("failed: no memory");
  }
  if (args.size() < 2) {
    Say("shared 0x%x", ShareWithAll(client, object));
  }
  Say("client %u object %u", client.root, object);
  Hold();
  // Is it all still there?
  rm::NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS info{};
  info.hObject = object;
  info.index = rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID;
  Say("undisturbed 0x%x",
      client.Control(client.root, rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, &info, sizeof(info)));
  return 0;
}

// Does to the victim's handles whatever there is to do, on files of its own.
int Foreign(const std::vector<std::string>& args) {
  const auto victim = static_cast<std::uint32_t>(Number(args, 0, 0));
  const auto object = static_cast<std::uint32_t>(Number(args, 1, 0));
  Client client = MakeClient();
  client.next = 0xcb000000;  // not one of the victim's
  Say("dup 0x%x", client.Dup(victim, object, client.next++));
  Client posing = client;
  posing.root = victim;
  Say("free 0x%x", posing.Free(object));
  Say("free-client 0x%x", posing.Free(victim));
  Say("heap-free 0x%x", posing.HeapFree(Client::kDevice, object));
  (void)client.HeapFree(Client::kDevice, object);  // the driver frees nothing and says so to nobody
  rm::NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS rights{};
  rights.hClient = victim;
  rights.hObject = object;
  Say("exists 0x%x", client.Control(client.root, rm::NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS,
                                    &rights, sizeof(rights)));
  rm::NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS info{};
  info.hObject = object;
  Say("control 0x%x",
      posing.Control(victim, rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, &info, sizeof(info)));
  posing.next = 0xcc000000;
  Say("alloc 0x%x", posing.AllocMemory(64));
  Hold();
  return 0;
}

// Hands an exported object to whoever connects.
int Exporter(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint32_t object = 0;
  const int file = OpenControl();
  if (client.AllocMemory(Number(args, 1, 512), &object) != rm::NV_OK || file < 0) {
    Die("failed: no memory");
  }
  if (const auto status = client.Export(object, file); status != rm::NV_OK) {
    Die("failed: no export: 0x%x", status);
  }
  HandOut(args.at(0), file);
  Hold();
  return 0;
}

// A second open file with the same inode, where that can be had.
int Reopen(int file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

// Receives it and makes it its own. With "reopen" it first exports something small of its own to
// another open file of the same inode, so that the file looks like one of its own.
int Importer(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const int file = ReceiveFd(ConnectTo(args.at(0)));
  if (args.size() > 1 && args[1] == "reopen") {
    std::uint32_t small = 0;
    const int again = Reopen(file);
    const bool made = again >= 0 && client.AllocMemory(1, &small) == rm::NV_OK;
    Say("own export 0x%x", made ? client.Export(small, again) : kNoAnswer);
    close(again);
    for (int i = 0; i < 20; ++i) {  // the driver hears of the close some time later
      (void)client.Import(file, client.next++);
    }
  }
  Say("import 0x%x", client.Import(file, client.next++));
  close(file);
  Hold();
  return 0;
}

// Exports object after object to the same inode and frees each: the last export must not make
// anybody forget the ones before.
int Overwrite(const std::vector<std::string>& args) {
  const std::uint64_t step = 256;
  Client client = MakeClient();
  std::uint64_t held = 0;
  std::uint32_t status = rm::NV_OK;
  while (held < Number(args, 0, 2048)) {
    const int file = OpenControl();
    std::uint32_t object = 0;
    std::uint32_t small = 0;
    status = client.AllocMemory(step, &object);
    if (status != rm::NV_OK || client.Export(object, file) != rm::NV_OK) {
      break;
    }
    const int again = Reopen(file);
    if (client.AllocMemory(1, &small) == rm::NV_OK) {
      (void)client.Export(small, again);
    }
    (void)client.Free(object);
    (void)client.Free(small);
    held += step;
  }
  Say("got %llu MiB, then 0x%x", static_cast<unsigned long long>(held), status);
  Hold();
  return 0;
}

// Two processes hand the files of exported objects back and forth, so that whoever looks through
// all processes in turn may miss them. They run where nobody else wants the processor: 32 of them
// at the usual priority kept everybody else from two processors for up to 66 s (Linux 6.18; nice
// and SCHED_BATCH change nothing), the test that must judge them among the rest.
void Juggle(int socket, bool first, const std::vector<int>& files) {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) {
    Die("failed: no idle policy");
  }
  std::vector<int> held = first ? files : std::vector<int>();
  while (true) {
    if (!held.empty()) {
      for (const int file : held) {
        SendFd(socket, file);
        close(file);
      }
      held.clear();
    } else {
      for (std::size_t i = 0; i < files.size(); ++i) {
        held.push_back(ReceiveFd(socket));
      }
    }
  }
}

int ShellGame(const std::vector<std::string>& args) {
  const std::uint64_t step = 256;
  const std::uint64_t wanted = Number(args, 0, 2048);
  const std::uint64_t attempts = Number(args, 1, 200);
  std::vector<pid_t> jugglers;
  std::uint64_t held = 0;
  for (std::uint64_t i = 0; i < attempts && held < wanted; ++i) {
    Client client = MakeClient();
    std::uint32_t object = 0;
    if (client.AllocMemory(step, &object) == rm::NV_OK) {
      const int file = OpenControl();
      if (client.Export(object, file) != rm::NV_OK) {
        Die("failed: no export");
      }
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        Die("failed: no socketpair");
      }
      for (const bool first : {true, false}) {
        const pid_t pid = fork();
        if (pid == 0) {
          close(client.ctl);
          close(client.gpu);
          close(pair[first ? 1 : 0]);
          if (!first) {
            close(file);
          }
          Juggle(pair[first ? 0 : 1], first, {file});
        }
        jugglers.push_back(pid);
      }
      close(file);
      close(pair[0]);
      close(pair[1]);
      held += step;
    }
    // The client goes; only the file in the air holds the object now.
    close(client.ctl);
    close(client.gpu);
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  Hold();
  for (const pid_t pid : jugglers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  return 0;
}

// Sends its open files, the control file with a client on it and its GPU's, to whoever connects.
int FileSender(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const int listener = ListenAt(args.at(0));
  if (Number(args, 1, 0) > 0 && Grab(client, Number(args, 1, 0)) == 0) {
    Die("failed: no memory");
  }
  Say("client %u", client.root);
  const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  SendFd(peer, client.ctl);
  SendFd(peer, client.gpu);
  Say("sent");
  Hold();
  return 0;
}

// Uses them: the sender's client on its own file, and a client of its own with the sender's GPU.
int FileReceiver(const std::vector<std::string>& args) {
  const int socket = ConnectTo(args.at(0));
  const int ctl = ReceiveFd(socket);
  const int gpu = ReceiveFd(socket);
  Say("received");
  Client posing;
  posing.ctl = ctl;
  posing.root = static_cast<std::uint32_t>(Number(args, 1, 0));
  posing.next = 0xcd000000;
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(posing, Number(args, 2, 2048))));
  // A client of its own on the file that came from there.
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  (void)Plainly(ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  Client own;
  own.ctl = OpenControl();
  own.gpu = gpu;
  alloc = {};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  (void)Plainly(own.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  own.root = alloc.hObjectNew;
  std::uint64_t more = 0;
  for (std::uint32_t instance = 0; instance < 4; ++instance) {
    if (own.AllocDevice(instance) == rm::NV_OK) {
      more += Grab(own, Number(args, 2, 2048));
      (void)own.Free(Client::kDevice);
    }
  }
  Say("on received GPU files %llu MiB", static_cast<unsigned long long>(more));
  Hold();
  return 0;
}

// Only holds what it received.
int FileKeeper(const std::vector<std::string>& args) {
  const int socket = ConnectTo(args.at(0));
  (void)ReceiveFd(socket);
  (void)ReceiveFd(socket);
  Say("received");
  Hold();
  return 0;
}

// The control file's only reference is a message that nobody has received.
int Parked(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const std::uint64_t held = Grab(client, Number(args, 0, 512));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    Die("failed: no socketpair");
  }
  SendFd(pair[0], client.ctl);
  close(client.ctl);
  close(pair[0]);
  Say("parked %llu MiB", static_cast<unsigned long long>(held));
  std::string line;
  (void)Line(&line);
  Client second = MakeClient();
  Say("more %llu MiB", static_cast<unsigned long long>(Grab(second, Number(args, 1, 2048))));
  (void)Line(&line);
  close(second.ctl);
  client.ctl = ReceiveFd(pair[1]);
  Say("received %llu MiB", static_cast<unsigned long long>(Grab(client, 64)));
  close(client.ctl);
  close(pair[1]);
  Hold();
  return 0;
}

// Not an attack: whoever must not notice one. Holds `mib`; at each line it gives back half of that
// and takes it again, ten times.
int Neighbour(const std::vector<std::string>& args) {
  const std::uint64_t half = Number(args, 0, 512) / 2;
  Client client = MakeClient();
  std::uint32_t handle = 0;
  if (client.AllocMemory(half) != rm::NV_OK || client.AllocMemory(half, &handle) != rm::NV_OK) {
    Die("failed: no memory");
  }
  Say("holding");
  std::string line;
  while (Line(&line)) {
    for (int i = 0; i < 10; ++i) {
      if (client.Free(handle) != rm::NV_OK || client.AllocMemory(half, &handle) != rm::NV_OK) {
        Die("disturbed");
      }
    }
    Say("undisturbed");
  }
  return 0;
}

// A client that knows what each of its calls must say.
class Judge {
 public:
  explicit Judge(std::uint64_t mib) {
    if (client_.AllocMemory(mib) != rm::NV_OK) {
      Die("failed: no memory");
    }
    free_ = client_.FreeKib();
    name_ = Name();
  }

  // Four calls, each answered and with the right answer. Asks once for the GPU's name.
  void Turn() {
    std::uint32_t handle = 0;
    if (client_.AllocMemory(kMib, &handle) != rm::NV_OK || Name() != name_ ||
        client_.FreeKib() != free_ - kMib * 1024 || client_.Free(handle) != rm::NV_OK) {
      Die("disturbed");
    }
  }

 private:
  static constexpr std::uint32_t kMib = 2;

  std::string Name() {
    rm::NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS name{};
    if (client_.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, &name,
                        sizeof(name)) != rm::NV_OK) {
      Die("disturbed: no name");
    }
    return {reinterpret_cast<const char*>(&name), sizeof(name)};
  }

  Client client_ = MakeClient();
  std::uint32_t free_ = 0;
  std::string name_;
};

// Holds `mib`, and from its first line on takes turns without pause. At a line N
// it says "at TURNS" after N more, and goes on; at "rest" it says "made TURNS" and waits for the
// next line.
int Counted(const std::vector<std::string>& args) {
  Judge judge(Number(args, 0, 512));
  Say("holding");
  std::uint64_t turns = 0;
  std::string line;
  for (bool there = Line(&line); there; there = Line(&line)) {
    if (line == "rest") {
      Say("made %llu", static_cast<unsigned long long>(turns));
      continue;
    }
    pollfd input{0, POLLIN, 0};
    const std::uint64_t wanted = turns + std::strtoull(line.c_str(), nullptr, 10);
    do {
      judge.Turn();
      if (++turns == wanted) {
        Say("at %llu", static_cast<unsigned long long>(turns));
      }
    } while (turns < wanted || poll(&input, 1, 0) == 0);
  }
  return 0;
}

}  // namespace

std::vector<Entry> HandleAttacks() {
  return {
      {"neighbour", Neighbour, "[MIB]: holds memory and goes on"},
      {"counted", Counted, "[MIB]: holds memory, calls without pause and judges each answer"},
      {"victim", Victim, "[MIB [private]]: memory that everybody may copy, or nobody"},
      {"foreign", Foreign, "CLIENT OBJECT: the victim's handles on files of one's own"},
      {"exporter", Exporter, "NAME [MIB]: exports and hands the file out at an abstract socket"},
      {"importer", Importer, "NAME [reopen]: imports what comes from there"},
      {"overwrite", Overwrite, "[MIB]: exports twice to one inode"},
      {"shell-game", ShellGame, "[MIB [ATTEMPTS]]: files of exported objects that never rest"},
      {"file-sender", FileSender, "NAME [MIB]: hands out its open files"},
      {"file-receiver", FileReceiver, "NAME CLIENT [MIB]: uses them"},
      {"file-keeper", FileKeeper, "NAME: keeps them open"},
      {"parked", Parked, "[MIB [MORE]]: the control file in flight in a socketpair"},
  };
}

}  // namespace cgpu::adversary
