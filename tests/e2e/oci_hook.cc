// The createContainer hook of a slice's container, alone: `oci_hook TREE` as an OCI runtime calls
// it, and `oci_hook --arguments FOLDERS PROC PCI BDF...` for what to give it, a word a line.
// FOLDERS is NAME=FOLDER,...
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/hook.h"
#include "sandbox/mount_tree.h"
#include "sandbox/tree_words.h"

namespace {

std::vector<cgpu::DeviceFile> Folders(const std::string& list) {
  std::vector<cgpu::DeviceFile> devices;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t middle = list.find('=', at);
    const std::size_t end = std::min(list.find(',', at), list.size());
    devices.push_back({list.substr(at, middle - at), list.substr(middle + 1, end - middle - 1),
                       /*via_folder=*/true});
    at = end + 1;
  }
  return devices;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() > 3 && arguments[0] == "--arguments") {
    cgpu::GpuTree tree;
    tree.devices = Folders(arguments[1]);
    tree.proc_source = arguments[2];
    tree.pci_source = arguments[3];
    tree.bdfs.assign(arguments.begin() + 4, arguments.end());
    for (const std::string& word : cgpu::TreeWords(tree)) {
      std::puts(word.c_str());
    }
    return 0;
  }
  if (const auto done = cgpu::RunHook(arguments, STDIN_FILENO); !done.ok()) {
    std::fprintf(stderr, "%s\n", cgpu::FormatError(done.error()).c_str());
    return 1;
  }
  return 0;
}
