#include "sim/fuse/mappings.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/file.h"

namespace cgpu::sim {
namespace {

// The numbers that are names of entries of a folder.
std::set<std::uint32_t> NumbersIn(const std::string& folder) {
  std::set<std::uint32_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), &closedir);
  if (directory == nullptr) {
    return numbers;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): own DIR
  while (const dirent* entry = readdir(directory.get())) {
    std::uint32_t number = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, number).ptr == end) {
      numbers.insert(number);
    }
  }
  return numbers;
}

// A line of /proc/PID/maps, if it is about a file of nvidia-uvm.
std::optional<UvmMapping> ParseLine(const std::string& line, const NodeIdentity& node,
                                    const OpenFiles& files) {
  unsigned long start = 0;
  unsigned long end = 0;
  unsigned long offset = 0;
  unsigned long ino = 0;
  unsigned major = 0;
  unsigned minor = 0;
  char access[8] = "";
  // NOLINTNEXTLINE(cert-err34-c): numbers that the kernel wrote
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &start, &end, access, &offset, &major,
                  &minor, &ino) != 7 ||
      makedev(major, minor) != node.device) {
    return std::nullopt;
  }
  const auto device = DecodeDeviceIno(ino);
  if (!device || device->kind != FileKind::kUvm) {
    return std::nullopt;
  }
  UvmMapping mapping;
  mapping.file = files.Find(ino);
  if (mapping.file == 0) {
    return std::nullopt;  // not of this node any more
  }
  mapping.start = start;
  mapping.end = end;
  mapping.offset = offset;
  mapping.shared_read_write = access[0] == 'r' && access[1] == 'w' && access[3] == 's';
  return mapping;
}

// The text of /proc/PID/maps (proc_pid_maps(5)). Most lines name other devices than the node's,
// which is seen without a parser.
std::vector<UvmMapping> ParseMaps(std::string_view maps, const NodeIdentity& node,
                                  const OpenFiles& files) {
  char device[16] = "";
  (void)std::snprintf(device, sizeof(device), " %02x:%02x ", major(node.device),
                      minor(node.device));
  std::vector<UvmMapping> mapped;
  for (std::size_t at = maps.find(device); at != std::string_view::npos;
       at = maps.find(device, at)) {
    const std::size_t begin = maps.rfind('\n', at) + 1;  // 0: npos + 1
    const std::size_t end = std::min(maps.find('\n', at), maps.size());
    if (auto mapping = ParseLine(std::string(maps.substr(begin, end - begin)), node, files)) {
      mapped.push_back(*mapping);
    }
    at = end;
  }
  return mapped;
}

}  // namespace

// proc_pid_stat(5); the name, in parentheses, may hold anything.
std::optional<Mappings::Stat> Mappings::ReadStat(const std::string& folder) {
  const Result<std::string> text = ReadFile(folder + "/stat");
  if (!text.ok() || text->rfind(')') == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream words(text->substr(text->rfind(')') + 1));
  constexpr std::size_t kState = 3;  // the first
  std::vector<std::string> fields(kState);
  for (std::string word; words >> word;) {
    fields.push_back(word);
  }
  // startcode, startstack, start_brk, arg_start
  constexpr std::array<std::size_t, 4> kPlaces = {26, 28, 47, 48};
  constexpr std::size_t kStarted = 22;
  if (fields.size() <= kPlaces.back()) {
    return std::nullopt;
  }
  Stat stat;
  stat.state = fields[kState].front();
  stat.started = std::strtoull(fields[kStarted].c_str(), nullptr, 10);
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    stat.places[i] = std::strtoull(fields[kPlaces[i]].c_str(), nullptr, 10);
  }
  return stat;
}

// The folder of a thread that has memory; empty: there is none.
std::string Mappings::WithMemory(std::uint32_t tgid, const Stat& stat) {
  std::string folder = "/proc/" + std::to_string(tgid);
  if (stat.state != 'Z' && stat.state != 'X') {
    return folder;
  }
  // The first thread is gone; another may still run in the process's memory.
  for (const std::uint32_t tid : NumbersIn(folder + "/task")) {
    std::string task = folder + "/task/" + std::to_string(tid);
    const auto of_task = ReadStat(task);
    if (of_task && of_task->state != 'Z' && of_task->state != 'X') {
      return task;
    }
  }
  return {};
}

bool Mappings::Lives(const Process& member) {
  const auto stat = ReadStat("/proc/" + std::to_string(member.first));
  return stat && stat->started == member.second && !WithMemory(member.first, *stat).empty();
}

// Reading gives nothing when no process uses the memory any more, and an error or bytes else.
bool Mappings::IsUsed(const Known& known) {
  if (!known.memory.valid()) {
    return std::any_of(known.members.begin(), known.members.end(), Lives);
  }
  char byte = 0;
  return pread(known.memory.get(), &byte, 1, 0x1000) != 0;
}

// Adds the processes that share an address space with one of `processes`.
void Mappings::AddMembers(std::set<std::uint32_t>& processes) const {
  std::set<std::uint32_t> more;
  for (const Known& known : known_) {
    if (!processes.contains(known.name.tgid)) {
      continue;
    }
    if (IsUsed(known) && std::none_of(known.members.begin(), known.members.end(), Lives)) {
      processes.clear();  // one that has not been seen yet
      return;
    }
    for (const Process& member : known.members) {
      more.insert(member.first);
    }
  }
  processes.merge(more);
}

// Null: it has not been seen yet.
Mappings::Known* Mappings::Find(const Process& process, const Places& places) {
  const auto compares = [&](const Process& member) {
    return Lives(member) && syscall(SYS_kcmp, member.first, process.first, KCMP_VM, 0, 0) == 0;
  };
  for (Known& known : known_) {
    if (!IsUsed(known) || known.places != places) {
      if (known.members.erase(process) != 0) {
        known.left = true;
      }
      continue;
    }
    if (known.members.contains(process) ||
        std::any_of(known.members.begin(), known.members.end(), compares)) {
      return &known;
    }
  }
  return nullptr;
}

Mappings::Known& Mappings::Name(const Process& process, const Places& places) {
  Known* found = Find(process, places);
  for (Known& known : known_) {
    // Somebody uses it whom nobody has seen yet: who looks the same.
    if (found == nullptr && IsUsed(known) && known.places == places &&
        std::none_of(known.members.begin(), known.members.end(), Lives)) {
      found = &known;
    }
  }
  if (found == nullptr) {
    found = &known_.emplace_back();
    found->name = {process.first, process.second, ++programs_};
    found->places = places;
    const std::string path = "/proc/" + std::to_string(process.first) + "/mem";
    found->memory = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!IsUsed(*found)) {
      found->memory.reset();  // of a first thread that is gone
    }
  }
  found->members.insert(process);
  return *found;
}

void Mappings::LookAt(std::uint32_t tgid, const NodeIdentity& node, const OpenFiles& files,
                      UvmSeen* seen) {
  const std::string folder = "/proc/" + std::to_string(tgid);
  if (known_.empty()) {
    const Result<std::string> maps = ReadFile(folder + "/maps");
    if (maps.ok() && !maps->empty() && ParseMaps(*maps, node, files).empty()) {
      return;  // as most processes
    }
  }
  const auto stat = ReadStat(folder);
  const std::string with_memory = stat ? WithMemory(tgid, *stat) : std::string();
  if (with_memory.empty()) {
    return;
  }
  const Result<std::string> maps = ReadFile(with_memory + "/maps");
  if (!maps.ok() || maps->empty()) {
    return;  // it has just ended
  }
  std::vector<UvmMapping> mapped = ParseMaps(*maps, node, files);
  const Process process{tgid, stat->started};
  Known* owner = mapped.empty() ? Find(process, stat->places) : &Name(process, stat->places);
  if (owner == nullptr) {
    return;
  }
  owner->seen = true;
  seen->alive.insert(owner->name);
  for (UvmMapping& mapping : mapped) {
    mapping.owner = owner->name;
    seen->mappings.push_back(mapping);
  }
}

UvmSeen Mappings::Look(const NodeIdentity& node, const OpenFiles& files,
                       std::set<std::uint32_t> processes) {
  UvmSeen seen;
  const std::set<std::uint32_t> asked = processes;
  AddMembers(processes);
  seen.looked_at = processes.empty() ? processes : asked;
  for (Known& known : known_) {
    known.seen = false;
  }
  if (processes.empty() && known_.empty() && !files.HasUvm()) {
    return seen;
  }
  for (const std::uint32_t tgid : processes.empty() ? NumbersIn("/proc") : processes) {
    LookAt(tgid, node, files, &seen);
  }
  std::erase_if(known_, [&](Known& known) {
    if (known.seen || !seen.LookedAt(known.name.tgid)) {
      return false;
    }
    if (IsUsed(known)) {
      seen.alive.insert(known.name);
      seen.unseen.insert(known.name);
      return false;
    }
    if (known.left && std::none_of(known.members.begin(), known.members.end(), Lives)) {
      seen.executed.insert(known.name);
    }
    return true;
  });
  return seen;
}

}  // namespace cgpu::sim
