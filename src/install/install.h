// Implements `cgpu install` and `cgpu uninstall`: finds which file of a container engine changes,
// and changes it. One call at a time: it locks the folder of the engine's configuration.
#ifndef CGPU_INSTALL_INSTALL_H_
#define CGPU_INSTALL_INSTALL_H_

#include <string>

#include "base/result.h"
#include "install/engines.h"

namespace cgpu::install {

struct Request {
  Engine engine = Engine::kDocker;
  bool uninstall = false;
  std::string config;   // path of the configuration; the engine's usual one if empty
  std::string program;  // program of the runtime: an absolute path. Not for uninstall
  bool set_default = false;
  bool dry_run = false;  // only look, and tell
};

// Lines to tell the user.
struct Report {
  bool change = false;  // false: all is as asked already
  std::string shown;    // what changes; and notes
  std::string done;     // what was done
};

// Does it. Errors name the file. kConflict: a runtime `cgpu` with another program is there, or what
// is added would not take effect. kInvalid, kUnsupported: files cannot be read or changed.
// kPermission.
[[nodiscard]] Result<Report> Change(const Request& request);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_INSTALL_H_
