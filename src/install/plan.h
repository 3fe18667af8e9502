// Implements `cgpu install` and `cgpu uninstall`: plans which files of a container engine change,
// and how; and does it.
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
  std::string config;   // path of the configuration; the engine's usual one if empty
  std::string program;  // program of the runtime: an absolute path. Not for uninstall
  bool set_default = false;
};

struct Change {
  std::string file;
  std::optional<std::string> before;  // nothing: there is no file
  std::optional<std::string> after;
  std::string shown;  // what changes, for the user: a sentence, or a line and what the file gets
  // Fate of the copy of the original file (OriginalOf()).
  enum class Original { kLeave, kWrite, kDelete } original = Original::kLeave;
};

struct Plan {
  std::vector<Change> changes;  // none: all is as asked already
  std::vector<std::string> notes;
  UniqueFd lock;
};

// Looks at the files and plans the changes. `lock`: the plan is to be applied; it then holds the
// lock of the folder of the engine's configuration, if there is anything to do. Errors name the
// file. kConflict: a runtime `cgpu` with another program is there, or what is added would not take
// effect. kInvalid, kUnsupported: files cannot be read or changed. kPermission.
[[nodiscard]] Result<Plan> MakePlan(const Request& request, bool lock);

// Makes the changes. A file that has changed since the plan was made is left alone: kConflict.
[[nodiscard]] Result<> Apply(const Plan& plan);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_PLAN_H_
