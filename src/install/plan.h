// `cgpu install` and `cgpu uninstall`: which files of an engine change, and how; and doing it.
#ifndef CGPU_INSTALL_PLAN_H_
#define CGPU_INSTALL_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "install/engines.h"

namespace cgpu::install {

struct Request {
  Engine engine = Engine::kDocker;
  bool uninstall = false;
  std::string config;   // the engine's own place if empty
  std::string program;  // of the runtime: an absolute path. Not for uninstall
  bool set_default = false;
};

struct Change {
  std::string file;
  std::optional<std::string> before;  // nothing: there is no file
  std::optional<std::string> after;
  // What becomes of the copy of what the file was before the installation (OriginalOf()).
  enum class Original { kLeave, kWrite, kDelete } original = Original::kLeave;
};

struct Plan {
  std::vector<Change> changes;  // none: all is as asked already
  std::vector<std::string> notes;
  UniqueFd lock;
};

// Looks at the files. `lock`: the plan is to be applied; it then holds the lock of the folder of
// the engine's configuration, if there is anything to do. Errors name the file: kConflict if a
// runtime `cgpu` with another program is there, or if what is added would not take effect;
// kInvalid, kUnsupported for files that cannot be read or changed; kPermission.
[[nodiscard]] Result<Plan> MakePlan(const Request& request, bool lock);

// Does it. A file that has changed since the plan was made is left alone: kConflict.
[[nodiscard]] Result<> Apply(const Plan& plan);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_PLAN_H_
