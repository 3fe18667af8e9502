// Measures the cost of a shim: its proportional set size while its container holds 1,000 objects.
#include <dirent.h>

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

Result<> Run() {
  auto node = Node::Start();
  if (!node.ok()) {
    return node.error();
  }
  auto slice = Slice::Start(*node);
  if (!slice.ok()) {
    return slice.error();
  }
  CGPU_TRY(slice->Say("objects 1000"));
  if (const auto done = slice->Read(5); !done.ok()) {
    return done.error();
  }
  const auto shims = Shims();
  if (shims.size() != 1) {
    return Error{Code::kConflict, 0, std::to_string(shims.size()) + " shims run; there must be one",
                 "stop other containers first"};
  }
  const auto rollup = ReadFile("/proc/" + shims[0] + "/smaps_rollup");
  if (!rollup.ok()) {
    return rollup.error();
  }
  const std::size_t at = rollup->find("\nPss:");
  if (at == std::string::npos) {
    return Error{Code::kInternal, 0, "smaps_rollup without Pss", {}};
  }
  std::printf("shim-footprint: %lu KiB\n", std::strtoul(rollup->c_str() + at + 5, nullptr, 10));
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
