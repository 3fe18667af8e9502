// A search for what a container must not know, in all that it can read: /proc, /sys, /dev, and the
// replies of the driver to everything that can be asked.
//
// The wanted words come on stdin, so that they are not found in the searcher's own arguments.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <csignal>
#include <cstring>
#include <map>
#include <set>

#include "common.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

using Bytes = std::vector<char>;

template <class T>
std::uint64_t Address(T* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

// One thing to be looked for. Texts and bytes are looked for everywhere, numbers in replies alone:
// in text they would be found by chance.
struct Needle {
  std::string kind;   // as the test calls it
  std::string value;  // as the test wrote it
  std::string bytes{};
  bool number = false;
  bool gpu_id = false;  // a small number: only where the command's name speaks of ids
  bool pid = false;     // also in the files that list processes
};

class Needles {
 public:
  // "KIND text VALUE", "KIND bytes HEX", "KIND number N", "KIND pid N" or "KIND id N"; "go" ends
  // it.
  void Read() {
    std::string line;
    while (Line(&line) && line != "go") {
      const std::size_t first = line.find(' ');
      const std::size_t second = line.find(' ', first + 1);
      const std::string form = line.substr(first + 1, second - first - 1);
      Needle needle{line.substr(0, first), line.substr(second + 1), {}};
      if (form == "text") {
        needle.bytes = needle.value;
      } else if (form == "bytes") {
        for (std::size_t i = 0; i + 1 < needle.value.size(); i += 2) {
          needle.bytes.push_back(
              static_cast<char>(std::stoul(needle.value.substr(i, 2), nullptr, 16)));
        }
      } else {
        const std::uint64_t number = std::stoull(needle.value);
        needle.number = true;
        needle.gpu_id = form == "id";
        needle.pid = form == "pid";
        needle.bytes.assign(reinterpret_cast<const char*>(&number), number >> 32 == 0 ? 4 : 8);
        if (form != "number") {
          asked_.push_back(static_cast<std::uint32_t>(number));
        }
      }
      needles_.push_back(needle);
    }
  }

  void LookInText(std::string_view text, const std::string& where) {
    for (const Needle& needle : needles_) {
      if (!needle.number && text.find(needle.bytes) != std::string_view::npos) {
        Found(needle, where);
      }
    }
  }

  // Lists of processes: their numbers, as words.
  void LookForProcesses(const std::string& text, const std::string& where) {
    for (const Needle& needle : needles_) {
      const auto digit = [&](std::size_t at) {
        return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
      };
      for (std::size_t at = needle.pid ? text.find(needle.value) : std::string::npos;
           at != std::string::npos; at = text.find(needle.value, at + 1)) {
        if ((at == 0 || !digit(at - 1)) && !digit(at + needle.value.size())) {
          Found(needle, where);
          break;
        }
      }
    }
  }

  // Searches the bytes that were not sent but came back.
  void LookInReply(const Bytes& sent, const Bytes& got, const std::string& where) {
    if (sent == got) {
      return;
    }
    const std::string_view reply(got.data(), got.size());
    for (const Needle& needle : needles_) {
      const std::size_t step = needle.number ? sizeof(std::uint32_t) : 1;
      if (needle.gpu_id && where.find("_ID") == std::string::npos) {
        continue;
      }
      for (std::size_t at = reply.find(needle.bytes); at != std::string_view::npos;
           at = reply.find(needle.bytes, at + 1)) {
        if (at % step == 0 && !std::equal(needle.bytes.begin(), needle.bytes.end(),
                                          sent.begin() + static_cast<std::ptrdiff_t>(at))) {
          Found(needle, where);
          break;
        }
      }
    }
  }

  // Ids of GPUs and numbers of processes, to ask with.
  [[nodiscard]] const std::vector<std::uint32_t>& asked() const { return asked_; }

 private:
  void Found(const Needle& needle, const std::string& where) {
    constexpr int kMost = 5;  // places that are told of each
    if (++found_[needle.value] <= kMost) {
      Say("found %s %s in %s", needle.kind.c_str(), needle.value.c_str(), where.c_str());
    }
  }

  std::vector<Needle> needles_;
  std::vector<std::uint32_t> asked_;
  std::map<std::string, int> found_;
};

// --- Files

// Those whose reading waits, does something, or has no end.
bool MayRead(const std::string& name) {
  static const std::set<std::string> kNever = {
      "kcore",          "kmsg",       "pagemap",     "mem",          "vmcore",
      "config",         "rom",        "vpd",         "smaps",        "kpagecount",
      "numa_maps",      "kpageflags", "kpagecgroup", "smaps_rollup", "trace_pipe",
      "trace_pipe_raw", "event"};
  const bool registers = name.starts_with("resource") && name.size() > 8;
  return !kNever.contains(name) && !registers;
}

class Walk {
 public:
  explicit Walk(Needles& needles) : needles_(needles) {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, nullptr);  // without SA_RESTART: what waits is given up
  }

  void Folder(const std::string& path, int depth) {
    DIR* dir = depth > 0 ? opendir(path.c_str()) : nullptr;
    while (const dirent* entry = dir != nullptr ? readdir(dir) : nullptr) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        Entry(path + "/" + name, name, depth);
      }
    }
    if (dir != nullptr) {
      closedir(dir);
    }
  }

  [[nodiscard]] unsigned long files() const { return files_; }
  [[nodiscard]] unsigned long bytes() const { return bytes_; }

 private:
  void Entry(const std::string& path, const std::string& name, int depth) {
    needles_.LookInText(name, path);
    struct stat info{};
    if (lstat(path.c_str(), &info) != 0) {
      return;
    }
    if (S_ISLNK(info.st_mode)) {
      char target[4096];
      const ssize_t size = readlink(path.c_str(), target, sizeof(target));
      needles_.LookInText({target, static_cast<std::size_t>(std::max<ssize_t>(size, 0))}, path);
    } else if (S_ISDIR(info.st_mode)) {
      Folder(path, depth - 1);
    } else if (S_ISREG(info.st_mode) && (info.st_mode & 0444) != 0 && MayRead(name)) {
      File(path);
    }
  }

  void File(const std::string& path) {
    constexpr std::size_t kMost = 1 << 20;
    const itimerval limit{{0, 100'000}, {2, 0}};
    const itimerval none{};
    setitimer(ITIMER_REAL, &limit, nullptr);
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    std::string content;
    char part[16384];
    ssize_t size = 0;
    while (file >= 0 && content.size() < kMost && (size = read(file, part, sizeof(part))) > 0) {
      content.append(part, static_cast<std::size_t>(size));
    }
    if (file >= 0) {
      close(file);
      ++files_;
      bytes_ += content.size();
    }
    setitimer(ITIMER_REAL, &none, nullptr);
    needles_.LookInText(content, path);
    static const std::set<std::string> kLists = {"tasks", "cgroup.procs", "cgroup.threads", "locks",
                                                 "sched_debug"};
    if (kLists.contains(path.substr(path.rfind('/') + 1))) {
      needles_.LookForProcesses(content, path);
    }
  }

  Needles& needles_;
  unsigned long files_ = 0;
  unsigned long bytes_ = 0;
};

// --- Replies

struct Object {
  std::uint32_t handle;
  std::uint32_t cls;
};

// Asks everything on one GPU.
class Questions {
 public:
  Questions(Needles& needles, std::uint32_t device_instance)
      : needles_(needles), client_(MakeRoot()), instance_(device_instance) {}
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;
  ~Questions() {
    close(client_.ctl);
    close(client_.gpu);
  }

  // False where the GPU is not to be had.
  bool MakeObjects() {
    if (client_.AllocDevice(instance_) != rm::NV_OK) {
      return false;
    }
    std::uint32_t status = 0;
    std::uint32_t memory = 0;
    (void)client_.AllocMemory(1, &memory);
    const std::uint32_t space = Space(client_, &status);
    const std::uint32_t group = Group(client_, space, &status);
    const std::uint32_t channel = Channel(client_, group, 0, 0, &status);
    objects_ = {{client_.root, rm::NV01_ROOT},
                {Client::kDevice, rm::NV01_DEVICE_0},
                {Client::kSubdevice, rm::NV20_SUBDEVICE_0},
                {group, rm::KEPLER_CHANNEL_GROUP_A},
                {channel, rm::VOLTA_CHANNEL_GPFIFO_A},
                {memory, rm::NV01_MEMORY_LOCAL_USER},
                {space, rm::FERMI_VASPACE_A}};
    main_ = objects_.size();
    return true;
  }

  // One of each class that can be had by asking with zeros.
  void AllocClasses() {
    for (const rm::ClassRow& row : rm::ClassRows()) {
      const bool client = row.number == rm::NV01_ROOT || row.number == rm::NV01_ROOT_CLIENT ||
                          row.number == rm::NV01_ROOT_NON_PRIV;
      for (std::size_t parent = 0; row.Known(kBranch) && !client && parent < main_; ++parent) {
        const Bytes sent(row.Size(kBranch));
        Bytes got = sent;
        const std::uint32_t handle = client_.next++;
        const std::uint32_t status =
            client_.Alloc(objects_[parent].handle, handle, row.number,
                          got.empty() ? nullptr : got.data(), row.Size(kBranch));
        needles_.LookInReply(sent, got, std::string(row.name));
        if (status == rm::NV_OK) {
          objects_.push_back({handle, row.number});
          break;
        }
      }
    }
  }

  void AskAll(const std::vector<std::uint32_t>& numbers) {
    for (const rm::ControlRow& row : rm::ControlRows()) {
      if (!row.Known(kBranch)) {
        continue;
      }
      for (std::size_t i = 0; i < objects_.size(); ++i) {
        if (i < main_ || (row.cmd >> 16) == objects_[i].cls) {
          Ask(row, objects_[i].handle, numbers);
        }
      }
    }
    AskUsage(numbers);
  }

  [[nodiscard]] std::size_t answered() const { return answered_.size(); }
  [[nodiscard]] std::size_t objects() const { return objects_.size(); }

 private:
  static constexpr std::uint32_t kIndices = 40;  // entries of a list with an index each

  static void Put(Bytes& bytes, std::size_t at, std::uint64_t value, std::size_t width) {
    if (at + width <= bytes.size()) {
      std::memcpy(bytes.data() + at, &value, width);
    }
  }

  // With zeros; with a count and indices; and with each number first, as an id.
  void Ask(const rm::ControlRow& row, std::uint32_t object,
           const std::vector<std::uint32_t>& numbers) {
    const Bytes zeros(row.Size(kBranch));
    if (!Once(row, object, zeros)) {
      return;
    }
    Bytes list = zeros;
    Put(list, 0, kIndices, 4);
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      Put(list, 4 + 8 * std::size_t{i}, i, 4);
    }
    (void)Once(row, object, list);
    for (const std::uint32_t number : numbers) {
      Bytes id = zeros;
      Put(id, 0, number, 4);
      (void)Once(row, object, id);
      Put(id, 4, rm::kUuidFormatBinary, 4);
      (void)Once(row, object, id);
    }
  }

  // False when nothing of the kind is known for this object.
  bool Once(const rm::ControlRow& row, std::uint32_t object, const Bytes& sent) {
    constexpr std::size_t kRoom = 64 * 1024;
    Bytes params = sent;
    std::vector<Bytes> inner;
    const auto pointers = rm::EmbeddedPointers(row.cmd);
    inner.reserve(pointers.size());
    for (const rm::EmbeddedPointer& pointer : pointers) {
      Bytes& room = inner.emplace_back(kRoom);
      for (std::uint32_t i = 0; i < kIndices; ++i) {
        Put(room, 8 * std::size_t{i}, i, 4);
      }
      Put(params, pointer.pointer_offset, Address(room.data()), 8);
      Put(params, pointer.count_offset, kIndices, 4);
    }
    const Bytes before = params;
    const std::vector<Bytes> inner_before = inner;
    const std::uint32_t status = client_.Control(
        object, row.cmd, params.empty() ? nullptr : params.data(), row.Size(kBranch));
    const std::string name(row.name);
    needles_.LookInReply(before, params, name);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      needles_.LookInReply(inner_before[i], inner[i], name);
    }
    if (status == rm::NV_OK) {
      answered_.insert(row.cmd);
    }
    return status != rm::NV_ERR_NOT_SUPPORTED;
  }

  // Asks for the memory of the processes that are listed and of those that were named.
  void AskUsage(const std::vector<std::uint32_t>& numbers) {
    std::vector<std::uint32_t> pids = numbers;
    rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS list{};
    list.id = rm::NV20_SUBDEVICE_0;
    Bytes sent(sizeof(list));
    std::memcpy(sent.data(), &list, sizeof(list));
    (void)Once(*rm::FindControl(rm::NV2080_CTRL_CMD_GPU_GET_PIDS), Client::kSubdevice, sent);
    if (client_.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, &list,
                        sizeof(list)) == rm::NV_OK) {
      pids.insert(pids.end(), list.pidTbl,
                  list.pidTbl + std::min<std::size_t>(list.pidTblCount, std::size(list.pidTbl)));
    }
    for (const std::uint32_t pid : pids) {
      rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS info{};
      info.pidInfoListCount = 1;
      info.pidInfoList[0].pid = pid;
      Bytes params(sizeof(info));
      std::memcpy(params.data(), &info, sizeof(info));
      const rm::ControlRow* row = rm::FindControl(rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO);
      (void)Once(*row, Client::kSubdevice, params);
      const rm::ControlRow* account =
          rm::FindControl(rm::NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO);
      for (const std::uint32_t id : numbers) {
        Bytes asked(account->Size(kBranch));
        Put(asked, 0, id, 4);
        Put(asked, 4, pid, 4);
        (void)Once(*account, client_.root, asked);
      }
    }
  }

  Needles& needles_;
  Client client_;
  std::uint32_t instance_;
  std::vector<Object> objects_;
  std::size_t main_ = 0;
  std::set<std::uint32_t> answered_;
};

// Escapes that answer something, and nvidia-uvm's requests.
void AskFiles(Needles& needles) {
  const int ctl = OpenControl();
  Bytes sent(32 * sizeof(rm::nv_ioctl_card_info_t));
  Bytes gpus = sent;
  (void)Plainly(ctl, rm::NV_ESC_CARD_INFO, gpus.data(), static_cast<std::uint32_t>(gpus.size()));
  needles.LookInReply(sent, gpus, "CARD_INFO of all _IDs");
  const Client client = MakeClient();
  for (const std::uint32_t parent : {Client::kDevice, Client::kSubdevice}) {
    rm::NVOS32_PARAMETERS heap{};
    heap.hRoot = client.root;
    heap.hObjectParent = parent;
    heap.function = rm::NVOS32_FUNCTION_INFO;
    sent.assign(sizeof(heap), 0);
    std::memcpy(sent.data(), &heap, sizeof(heap));
    Bytes info = sent;
    (void)Plainly(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, info.data(), sizeof(heap));
    needles.LookInReply(sent, info, "VID_HEAP_CONTROL INFO");
  }
  close(client.ctl);
  close(client.gpu);
  const UvmClient uvm = MakeUvmClient();
  for (const rm::UvmRow& row : rm::UvmRows()) {
    sent.assign(row.size.At(kBranch) + sizeof(std::uint64_t), 0);
    Bytes got = sent;
    if (row.size.At(kBranch) != 0) {
      (void)uvm.Ask(row.request, got.data());
      needles.LookInReply(sent, got, std::string(row.name));
    }
  }
}

int Search(const std::vector<std::string>& folders) {
  std::vector<int> gpus;
  for (int minor = 0; minor < 8; ++minor) {
    gpus.push_back(OpenGpu(minor));  // a GPU's device asks for an open file of it
  }
  const Client kept = MakeClient();
  Say("ready");
  Needles needles;
  needles.Read();
  Walk walk(needles);
  for (const std::string& folder : folders) {
    walk.Folder(folder, 24);
  }
  Say("files %lu bytes %lu", walk.files(), walk.bytes());
  AskFiles(needles);
  std::size_t answered = 0;
  std::size_t devices = 0;
  for (std::uint32_t instance = 0; instance < 4; ++instance) {
    Questions questions(needles, instance);
    if (questions.MakeObjects()) {
      ++devices;
      questions.AllocClasses();
      questions.AskAll(needles.asked());
      answered = std::max(answered, questions.answered());
      Say("objects %zu on device %u", questions.objects(), instance);
    }
  }
  Say("devices %zu", devices);
  Say("answered %zu", answered);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> SearchAttacks() {
  return {
      {"search", Search, "FOLDER...: what is named on stdin, in all that can be read or asked"}};
}

}  // namespace cgpu::adversary
