// Parses the command line of an OCI runtime, as container engines call it: runc's
//   [global options] create|run|exec|delete|... [options] CONTAINER-ID ...
// of which crun's is a superset (opencontainers/runc man/runc*.8.md, containers/crun crun.1.md).
//
// Pure.
#ifndef CGPU_RUNTIME_ARGUMENTS_H_
#define CGPU_RUNTIME_ARGUMENTS_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

struct RuntimeCall {
  enum class Kind {
    kCreate,  // create or run: makes a container from a bundle
    kExec,    // adds a process to a container
    kOther,   // known to make or change nothing that concerns cgpu
    kRefused  // anything else, which may
  };
  Kind kind = Kind::kOther;
  std::string command;                    // empty where there is none, as with --version
  std::string id;                         // the container's, for kCreate and kExec
  std::string bundle = ".";               // kCreate: the folder
  std::string config = "config.json";     // kCreate: in the bundle, or an absolute path
  std::string root;                       // where the runtime keeps its containers, if it is said
  std::string process;                    // kExec: the file that describes it, or empty
  std::vector<std::string> capabilities;  // kExec: added by options
  // File where the container engine looks for what went wrong; empty: standard error alone.
  std::string log;
  bool log_json = false;
};

// Parses `arguments`, which come without the program's name. kUnsupported: an option before the
// command, or of create, run or exec, is not known or is spelt as runtimes read it differently.
// kInvalid: the call makes a container or a process, but does not say which.
[[nodiscard]] Result<RuntimeCall> ParseArguments(const std::vector<std::string>& arguments);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_ARGUMENTS_H_
