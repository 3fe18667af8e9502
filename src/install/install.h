// Implements `cgpu install` and `cgpu uninstall`: finds which file of a container engine changes,
// and changes it. One call at a time: it locks the folder of the engine's configuration.
#ifndef CGPU_INSTALL_INSTALL_H_
#define CGPU_INSTALL_INSTALL_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "install/engines.h"

namespace cgpu::install {

struct Request {
  Engine engine = Engine::kDocker;
  bool uninstall = false;
  std::string config;   // path of the configuration; the engine's usual one if empty
  std::string program;  // program of the runtime: an absolute path. Not for uninstall
  bool set_default = false;
  bool dry_run = false;  // only look, and report
};

// Change of one file.
struct FileChange {
  enum class Kind { kWritten, kChanged, kRemoved };

  std::string file;
  Kind kind = Kind::kChanged;
  std::string gets;     // lines that install adds
  std::string kept_as;  // file with the text from before; empty: none is made
};

struct Report {
  std::vector<FileChange> changes;  // empty: all is as asked already
  std::vector<std::string> notes;   // for the user: a sentence each
};

// Does it. Errors name the file. kConflict: a runtime `cgpu` with another program is there, or what
// is added would not take effect. kInvalid, kUnsupported: files cannot be read or changed.
// kPermission.
[[nodiscard]] Result<Report> Change(const Request& request);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_INSTALL_H_
