// Measures the cost of a shim: its proportional set size while its container holds 1,000 objects,
// and the most of it while 1,200 threads make calls that lead to 3 MiB each.
#include <dirent.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/file.h"
#include "bench/harness.h"

namespace cgpu::bench {
namespace {

// Every process on the machine whose name is cgpu-shim and that has memory: not those that ended
// and whose parents have not noticed yet.
std::vector<std::string> Shims() {
  std::vector<std::string> found;
  DIR* proc = opendir("/proc");
  while (const dirent* entry = proc != nullptr ? readdir(proc) : nullptr) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0) {
      const std::string folder = std::string("/proc/") + entry->d_name;
      const auto comm = ReadFile(folder + "/comm");
      const auto memory = ReadFile(folder + "/statm");
      if (comm.ok() && *comm == "cgpu-shim\n" && memory.ok() && !memory->starts_with("0 ")) {
        found.emplace_back(entry->d_name);
      }
    }
  }
  if (proc != nullptr) {
    closedir(proc);
  }
  return found;
}

Result<unsigned long> PssOf(const std::string& process) {
  CGPU_ASSIGN_OR_RETURN(const auto rollup, ReadFile("/proc/" + process + "/smaps_rollup"));
  const std::size_t at = rollup.find("\nPss:");
  if (at == std::string::npos) {
    return Error{Code::kInternal, 0, "smaps_rollup without Pss", {}};
  }
  return std::strtoul(rollup.c_str() + at + 5, nullptr, 10);
}

Result<> Run() {
  CGPU_ASSIGN_OR_RETURN(auto node, Node::Start());
  CGPU_ASSIGN_OR_RETURN(auto slice, Slice::Start(node));
  CGPU_TRY(slice.Say("objects 1000"));
  CGPU_TRY(slice.Read(5));
  const auto shims = Shims();
  if (shims.size() != 1) {
    return Error{Code::kConflict, 0, std::to_string(shims.size()) + " shims run; there must be one",
                 "stop other containers first"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto quiet, PssOf(shims[0]));
  constexpr int kSamples = 500;
  CGPU_TRY(slice.Say("memory 1200"));
  CGPU_TRY(slice.Read(6));
  unsigned long most = 0;
  for (int i = 0; i < kSamples; ++i) {
    CGPU_ASSIGN_OR_RETURN(const auto now, PssOf(shims[0]));
    most = std::max(most, now);
  }
  std::printf("shim-footprint: %lu KiB (with 1200 hostile threads at most %lu)\n", quiet, most);
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
