#include "sim/fuse/mappings.h"

#include <dirent.h>
#include <sys/sysmacros.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

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

struct Stat {
  char state = 'X';
  std::uint64_t started = 0;
};

// proc_pid_stat(5); the name, in parentheses, may hold anything.
std::optional<Stat> ReadStat(const std::string& folder) {
  const Result<std::string> text = ReadFile(folder + "/stat");
  if (!text.ok() || text->rfind(')') == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream fields(text->substr(text->rfind(')') + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) {
    fields >> skipped;
  }
  fields >> stat.started;
  return stat;
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

void LookAt(std::uint32_t tgid, const NodeIdentity& node, const OpenFiles& files, UvmSeen* seen) {
  const std::string folder = "/proc/" + std::to_string(tgid);
  const auto stat = ReadStat(folder);
  if (!stat) {
    return;
  }
  std::string with_memory = folder;
  if (stat->state == 'Z' || stat->state == 'X') {
    // The first thread is gone; another may still run in the process's memory.
    with_memory.clear();
    for (const std::uint32_t tid : NumbersIn(folder + "/task")) {
      const std::string task = folder + "/task/" + std::to_string(tid);
      const auto of_task = ReadStat(task);
      if (of_task && of_task->state != 'Z' && of_task->state != 'X') {
        with_memory = task;
      }
    }
  }
  if (with_memory.empty()) {
    return;
  }
  const Result<std::string> maps = ReadFile(with_memory + "/maps");
  if (!maps.ok() || maps->empty()) {
    return;  // it has just ended
  }
  const UvmOwner owner{tgid, stat->started};
  seen->alive.insert(owner);
  std::istringstream lines(maps.value());
  for (std::string line; std::getline(lines, line);) {
    if (auto mapping = ParseLine(line, node, files)) {
      mapping->owner = owner;
      seen->mappings.push_back(*mapping);
    }
  }
}

}  // namespace

UvmSeen LookAtMappings(const NodeIdentity& node, const OpenFiles& files,
                       std::set<std::uint32_t> processes) {
  UvmSeen seen;
  seen.looked_at = std::move(processes);
  for (const std::uint32_t tgid : seen.looked_at.empty() ? NumbersIn("/proc") : seen.looked_at) {
    LookAt(tgid, node, files, &seen);
  }
  return seen;
}

}  // namespace cgpu::sim
