// A tenant that does what it is told: it connects to the test's socket, says "hello NAME", and then
// answers every line with one line. What it did is the test's to know; it keeps only what it needs
// to do the next thing: its clients and files, under numbers that the test gives them. See
// worker.py for the commands.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>

#include "base/fd.h"
#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu {
namespace {

using adversary::Client;
using adversary::Die;
using adversary::Say;
using Args = std::vector<std::string>;

struct Map {
  void* at = nullptr;
  std::size_t size = 0;
};

struct Worker {
  std::string socket;  // of the test
  std::map<std::uint64_t, Client> clients;
  std::map<std::uint64_t, int> files;       // exports, mapped GPU files, control files received
  std::multimap<std::uint64_t, int> twins;  // further descriptors of clients' and other files
  std::map<std::uint64_t, Map> maps;        // by the number of their file
  std::map<std::string, int> peers;         // ends of socketpairs
};

std::uint32_t U32(const Args& args, std::size_t index) {
  return static_cast<std::uint32_t>(adversary::Number(args, index, 0));
}

Client& ClientOf(Worker& worker, const Args& args) {
  const auto found = worker.clients.find(adversary::Number(args, 1, 0));
  if (found == worker.clients.end()) {
    Die("failed: there is no client %s", args.at(1).c_str());
  }
  return found->second;
}

// The handle of a client's device of the slice's GPU `gpu`, counted from 0.
std::uint32_t DeviceOf(std::uint64_t gpu) {
  return Client::kDevice + static_cast<std::uint32_t>(gpu) * 0x10;
}

// A client with devices of the first `gpus` GPUs that it may have.
Client MakeClient(std::uint64_t gpus) {
  Client client = adversary::MakeRoot();
  std::uint64_t made = 0;
  std::uint32_t status = rm::NV_OK;
  for (std::uint32_t instance = 0; instance < 32 && made < gpus; ++instance) {
    // For as long as the device is made somebody must have the GPU open.
    const UniqueFd gpu(adversary::OpenGpu(static_cast<int>(instance)));
    rm::NV0080_ALLOC_PARAMETERS device{};
    device.deviceId = instance;
    status = client.Alloc(client.root, DeviceOf(made), rm::NV01_DEVICE_0, &device, sizeof(device));
    if (status == rm::NV_OK) {
      rm::NV2080_ALLOC_PARAMETERS subdevice{};
      status = client.Alloc(DeviceOf(made), DeviceOf(made) + 1, rm::NV20_SUBDEVICE_0, &subdevice,
                            sizeof(subdevice));
      ++made;
    }
  }
  if (made != gpus || status != rm::NV_OK) {
    Die("failed: %llu devices: status 0x%x", static_cast<unsigned long long>(made), status);
  }
  return client;
}

// Standard input and output are the test's from here on.
void Connect(const Worker& worker, const std::string& name) {
  const int fd = adversary::ConnectTo(worker.socket);
  if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0) {
    _exit(3);
  }
  close(fd);
  Say("hello %s", name.c_str());
}

int FileOf(const Worker& worker, std::uint64_t number) {
  const auto client = worker.clients.find(number);
  return client != worker.clients.end() ? client->second.ctl : worker.files.at(number);
}

// Makes a further descriptor of a file that it has. With a root it is a client's file.
void KeepFile(Worker& worker, std::uint64_t number, int fd, std::uint32_t root) {
  if (worker.clients.contains(number) || worker.files.contains(number)) {
    worker.twins.emplace(number, fd);
  } else if (root != 0) {
    worker.clients[number].ctl = fd;
    worker.clients[number].root = root;
  } else {
    worker.files.emplace(number, fd);
  }
}

// map CLIENT OBJECT FILE BYTES [GPU MINOR]: through a GPU file of its own, written to and read
// back.
void MapObject(Worker& worker, const Args& args) {
  const Client& client = ClientOf(worker, args);
  const std::uint64_t number = adversary::Number(args, 3, 0);
  const std::size_t size = adversary::Number(args, 4, 0);
  const int file =
      args.size() > 6 ? adversary::OpenGpu(static_cast<int>(U32(args, 6))) : adversary::OpenGpu();
  rm::nv_ioctl_nvos33_parameters_with_fd call{};
  call.params.hClient = client.root;
  call.params.hDevice = DeviceOf(adversary::Number(args, 5, 0));
  call.params.hMemory = U32(args, 2);
  call.params.length = size;
  call.fd = file;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY, &call, sizeof(call));
  if (error != 0 || call.params.status != rm::NV_OK) {
    close(file);
    Say("0x%x", error != 0 ? adversary::kNoAnswer : call.params.status);
    return;
  }
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    Die("failed: mmap: %s", std::strerror(errno));
  }
  volatile auto* bytes = static_cast<volatile unsigned char*>(at);
  bytes[size - 1] = 0x5a;
  if (bytes[size - 1] != 0x5a) {
    Die("failed: what was written is not there");
  }
  worker.maps[number] = {at, size};
  worker.files[number] = file;
  Say("0x0");
}

// drop FILE: one of its descriptors. From then on another one is used.
void Drop(Worker& worker, const Args& args) {
  const std::uint64_t number = adversary::Number(args, 1, 0);
  if (const auto twin = worker.twins.find(number); twin != worker.twins.end()) {
    const auto client = worker.clients.find(number);
    int& used = client != worker.clients.end() ? client->second.ctl : worker.files.at(number);
    close(used);
    used = twin->second;
    worker.twins.erase(twin);
    Say("0x0");
    return;
  }
  if (const auto map = worker.maps.find(number); map != worker.maps.end()) {
    munmap(map->second.at, map->second.size);
    worker.maps.erase(map);
  }
  if (const auto file = worker.files.find(number); file != worker.files.end()) {
    close(file->second);
    worker.files.erase(file);
  }
  if (const auto client = worker.clients.find(number); client != worker.clients.end()) {
    if (client->second.gpu >= 0) {
      close(client->second.gpu);
    }
    close(client->second.ctl);
    worker.clients.erase(client);
  }
  Say("0x0");
}

// fork NAME: a child with a socketpair in between; each end is known by the other's name.
void Fork(Worker& worker, const Args& args, std::string* own_name) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    Die("failed: socketpair: %s", std::strerror(errno));
  }
  const pid_t child = fork();
  if (child < 0) {
    Die("failed: fork: %s", std::strerror(errno));
  }
  close(pair[child == 0 ? 0 : 1]);
  if (child == 0) {
    for (const auto& [name, fd] : worker.peers) {
      close(fd);
    }
    worker.peers = {{*own_name, pair[1]}};
    *own_name = args.at(1);
    Connect(worker, *own_name);
  } else {
    worker.peers[args.at(1)] = pair[0];
    Say("0x0 %d", child);
  }
}

// Returns the words by which one image tells the next what it has open.
std::string Belongings(const Worker& worker) {
  std::ostringstream text;
  const auto keep = [&text](int fd) {
    if (fd >= 0 && fcntl(fd, F_SETFD, 0) != 0) {
      Die("failed: fcntl: %s", std::strerror(errno));
    }
    text << ' ' << fd;
  };
  for (const auto& [number, client] : worker.clients) {
    text << " client " << number << ' ' << client.root;
    keep(client.ctl);
    keep(client.gpu);
  }
  for (const auto& [number, fd] : worker.files) {
    text << " file " << number;
    keep(fd);
  }
  for (const auto& [number, fd] : worker.twins) {
    text << " twin " << number;
    keep(fd);
  }
  for (const auto& [name, fd] : worker.peers) {
    text << " peer " << name;
    keep(fd);
  }
  return text.str();
}

void TakeOver(Worker& worker, const std::string& belongings) {
  std::istringstream words(belongings);
  const auto take = [&words] {
    int fd = -1;
    words >> fd;
    if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      Die("failed: fcntl: %s", std::strerror(errno));
    }
    return fd;
  };
  for (std::string kind, name; words >> kind >> name;) {
    if (kind == "peer") {
      worker.peers[name] = take();
      continue;
    }
    const std::uint64_t number = std::stoull(name);
    if (kind == "client") {
      Client& client = worker.clients[number];
      words >> client.root;
      client.ctl = take();
      client.gpu = take();
    } else if (kind == "file") {
      worker.files[number] = take();
    } else {
      worker.twins.emplace(number, take());
    }
  }
}

// exec [keep]: becomes another program image. Everything but the connection is closed by that, or
// nothing (mappings end).
void Exec(const Worker& worker, const std::string& name, bool keep) {
  std::string program = "worker";
  std::string path = worker.socket;
  std::string own = name;
  std::string belongings = keep ? Belongings(worker) : "";
  char* argv[] = {program.data(), path.data(), own.data(), belongings.data(), nullptr};
  char* envp[] = {nullptr};
  execve("/proc/self/exe", argv, envp);
  Die("failed: exec: %s", std::strerror(errno));
}

// One client with memory, a copy and an export of it, given up again by frees or by closes. Calls
// `step` after each of the calls that change what is held. False if there was no memory; dies of
// any other refusal.
template <class Step>
bool Round(std::uint64_t mib, bool by_frees, const Step& step) {
  Client client = MakeClient(1);
  std::uint32_t object = 0;
  const std::uint32_t copy = client.next + 1;
  const auto status = client.AllocMemory(mib, &object);
  step("alloc");
  const int file = adversary::OpenControl();
  if (status == rm::NV_OK) {
    bool done = client.Dup(client.root, object, client.next++) == rm::NV_OK;
    step("dup");
    done = done && client.Export(copy, file) == rm::NV_OK;
    step("export");
    done = done && client.Free(object) == rm::NV_OK;
    step("free");
    if (by_frees) {
      done = done && client.Free(copy) == rm::NV_OK && client.Free(client.root) == rm::NV_OK;
      step("free");
    }
    if (!done) {
      Die("failed: a call on what it holds itself");
    }
  } else if (status != rm::NV_ERR_NO_MEMORY) {
    Die("failed: status 0x%x", status);
  }
  close(file);
  close(client.gpu);
  close(client.ctl);
  step("close");
  return status == rm::NV_OK;
}

bool InputWaits() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

// churn MIB [say]: clients and memory come and go, until the next line comes. Answers how many
// rounds that were, and in how many there was no memory.
void Churn(const Args& args) {
  const bool say = args.size() > 2;
  Say("churning");
  std::uint64_t rounds = 0;
  std::uint64_t refused = 0;
  do {
    const bool had = Round(adversary::Number(args, 1, 2), rounds % 2 == 0, [say](const char* what) {
      if (say) {
        Say("%s", what);
      }
    });
    refused += had ? 0 : 1;
    ++rounds;
  } while (!InputWaits());
  std::string line;
  (void)adversary::Line(&line);
  Say("0x0 %llu %llu", static_cast<unsigned long long>(rounds),
      static_cast<unsigned long long>(refused));
}

// view CLIENT: everything that the driver enumerates of GPUs and processes, by raw controls.
void View(const Client& client) {
  rm::nv_ioctl_card_info_t gpus[32] = {};
  if (client.issue(client.ctl, rm::NV_ESC_CARD_INFO, gpus, sizeof(gpus)) != 0) {
    Die("failed: no card info");
  }
  std::ostringstream text;
  for (const auto& gpu : gpus) {
    if (gpu.valid != 0) {
      text << " card:" << gpu.gpu_id << ':' << gpu.minor_number << ':' << unsigned{gpu.pci_info.bus}
           << ':' << unsigned{gpu.pci_info.slot};
    }
  }
  rm::NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V535 ids{};
  for (const auto command :
       {rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS}) {
    const bool attached = command == rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS;
    const std::uint32_t size =
        attached ? sizeof(rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS) : sizeof(ids);
    if (client.Control(client.root, command, &ids, size) != rm::NV_OK) {
      Die("failed: command 0x%x", command);
    }
    for (const auto id : ids.gpuIds) {
      if (id != rm::NV0000_CTRL_GPU_INVALID_ID) {
        text << (attached ? " attached:" : " probed:") << id;
      }
    }
  }
  rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS pids{};
  pids.idType = rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS;
  pids.id = rm::NV20_SUBDEVICE_0;
  if (client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, &pids, sizeof(pids)) !=
      rm::NV_OK) {
    Die("failed: no list of processes");
  }
  for (std::uint32_t i = 0; i < pids.pidTblCount; ++i) {
    text << " pid:" << pids.pidTbl[i];
  }
  Say("0x0%s", text.str().c_str());
}

// foreign CLIENT ID: what the driver tells of a GPU by its id.
void AskById(const Client& client, std::uint32_t id) {
  rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS uuid{};
  uuid.gpuId = id;
  uuid.flags = rm::kUuidFormatAscii;
  rm::NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS pci{};
  pci.gpuId = id;
  rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS info{};
  info.gpuId = id;
  Say("0x0 uuid:0x%x pci:0x%x info:0x%x",
      client.Control(client.root, rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, &uuid,
                     sizeof(uuid)),
      client.Control(client.root, rm::NV0000_CTRL_CMD_GPU_GET_PCI_INFO, &pci, sizeof(pci)),
      client.Control(client.root, rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, &info, sizeof(info)));
}

std::uint32_t AllocGroup(Client& client, std::uint32_t* handle) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  *handle = client.next++;
  return client.Alloc(client.used_device, *handle, rm::KEPLER_CHANNEL_GROUP_A, &group,
                      sizeof(group));
}

// The commands on one client and its objects: CLIENT is the first argument. False: not one of them.
bool OnClient(Worker& worker, const Args& args) {
  const std::string& verb = args.at(0);
  const std::uint64_t number = adversary::Number(args, 3, 0);
  if (verb == "alloc" || verb == "group" || verb == "dup" || verb == "import") {
    Client& client = ClientOf(worker, args);
    // Several processes may use one client: then the test chooses the handles.
    const std::size_t before = verb == "group" ? 2 : verb == "dup" ? 4 : 3;
    client.next = args.size() > before ? U32(args, before) : client.next;
    client.used_device = DeviceOf(adversary::Number(args, before + 1, 0));
    std::uint32_t handle = client.next;
    std::uint32_t status = 0;
    if (verb == "alloc") {
      status = client.AllocMemory(adversary::Number(args, 2, 0), &handle);
    } else if (verb == "group") {
      status = AllocGroup(client, &handle);
    } else if (verb == "dup") {
      status = client.Dup(U32(args, 2), U32(args, 3), client.next++);
    } else {
      status = client.Import(worker.files.at(adversary::Number(args, 2, 0)), client.next++);
    }
    Say("0x%x %u", status, handle);
  } else if (verb == "free") {
    Say("0x%x", ClientOf(worker, args).Free(U32(args, 2)));
  } else if (verb == "share") {
    Say("0x%x", ShareWithAll(ClientOf(worker, args), U32(args, 2)));
  } else if (verb == "export") {
    const int file = adversary::OpenControl();
    Client& client = ClientOf(worker, args);
    client.used_device = DeviceOf(adversary::Number(args, 4, 0));
    const auto status = client.Export(U32(args, 2), file);
    if (status == rm::NV_OK) {
      worker.files[number] = file;
    } else {
      close(file);
    }
    Say("0x%x", status);
  } else if (verb == "map") {
    MapObject(worker, args);
  } else if (verb == "view") {
    View(ClientOf(worker, args));
  } else if (verb == "foreign") {
    AskById(ClientOf(worker, args), U32(args, 2));
  } else {
    return false;
  }
  return true;
}

// False: it is to end.
bool Do(Worker& worker, const Args& args, std::string* name) {
  const std::string& verb = args.at(0);
  if (OnClient(worker, args)) {
    return true;
  }
  if (verb == "client") {
    const Client client = MakeClient(adversary::Number(args, 2, 1));
    worker.clients[adversary::Number(args, 1, 0)] = client;
    Say("0x0 %u", client.root);
  } else if (verb == "drop") {
    Drop(worker, args);
  } else if (verb == "send") {
    adversary::SendFd(worker.peers.at(args.at(1)), FileOf(worker, adversary::Number(args, 2, 0)));
    Say("0x0");
  } else if (verb == "recv") {
    KeepFile(worker, adversary::Number(args, 2, 0),
             adversary::ReceiveFd(worker.peers.at(args.at(1))), U32(args, 3));
    Say("0x0");
  } else if (verb == "twin") {
    const std::uint64_t number = adversary::Number(args, 1, 0);
    worker.twins.emplace(number, fcntl(FileOf(worker, number), F_DUPFD_CLOEXEC, 0));
    Say("0x0");
  } else if (verb == "fork") {
    Fork(worker, args, name);
  } else if (verb == "exec") {
    Exec(worker, *name, args.size() > 1);
  } else if (verb == "churn") {
    Churn(args);
  } else if (verb == "pid") {
    Say("0x0 %d", getpid());
  } else if (verb == "end") {
    return false;
  } else {
    Die("failed: no command %s", verb.c_str());
  }
  return true;
}

int Run(const Args& args) {
  (void)signal(SIGCHLD, SIG_IGN);
  Worker worker;
  worker.socket = args.at(1);
  std::string name = args.at(2);
  if (args.size() > 3) {
    TakeOver(worker, args.at(3));
    Say("hello %s", name.c_str());
  } else {
    Connect(worker, name);
  }
  std::string line;
  while (adversary::Line(&line)) {
    std::istringstream words(line);
    Args command;
    for (std::string word; words >> word;) {
      command.push_back(word);
    }
    if (!command.empty() && !Do(worker, command, &name)) {
      break;
    }
  }
  return 0;
}

}  // namespace
}  // namespace cgpu

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() < 3) {
    cgpu::adversary::Die("usage: worker SOCKET NAME");
  }
  return cgpu::Run(args);
}
