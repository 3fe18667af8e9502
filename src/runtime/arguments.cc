#include "runtime/arguments.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace cgpu {
namespace {

// Options that take a value, in the word after them or after '='. runc's: main.go, create.go,
// run.go, exec.go; crun's: src/crun.c, create.c, run.c, exec.c.
constexpr std::array<std::string_view, 7> kGlobalWithValue = {
    "log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager"};
constexpr std::array<std::string_view, 8> kCreateWithValue = {
    "bundle", "b", "console-socket", "pid-file", "pidfd-socket", "preserve-fds", "config", "f"};
constexpr std::array<std::string_view, 18> kExecWithValue = {
    "console-socket",  "cwd",      "env",     "e", "user",         "u",
    "additional-gids", "g",        "process", "p", "pid-file",     "pidfd-socket",
    "process-label",   "apparmor", "cap",     "c", "preserve-fds", "cgroup"};

// Commands that make no process, nor change what a container may. `checkpoint` stops a container's
// processes, writes them down, and lets them go on under the filter that they have. Not among them:
// `restore`, for which runc (libcontainer/criu_linux.go) and crun (src/libcrun/criu.c) build no
// filter, and crun's `mounts`, which puts the node's folders into a container that runs.
constexpr std::array<std::string_view, 15> kHarmless = {
    "start",  "kill",   "delete", "state",      "list", "ps", "pause",   "resume",
    "update", "events", "spec",   "checkpoint", "help", "h",  "features"};

struct Option {
  std::string name;  // without dashes
  std::optional<std::string> value;
};

// Walks over options and says where the words begin.
class Walker {
 public:
  Walker(const std::vector<std::string>& arguments, std::size_t at)
      : arguments_(arguments), at_(at) {}

  // The next option; nothing at the first word that is none, or at the end.
  template <std::size_t kCount>
  std::optional<Option> Next(const std::array<std::string_view, kCount>& with_value) {
    if (at_ >= arguments_.size() || arguments_[at_].size() < 2 || arguments_[at_][0] != '-') {
      return std::nullopt;
    }
    if (arguments_[at_] == "--") {
      ++at_;
      return std::nullopt;
    }
    std::string name = arguments_[at_++];
    name.erase(0, name.find_first_not_of('-'));
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      return Option{name.substr(0, equals), name.substr(equals + 1)};
    }
    const bool takes = std::find(with_value.begin(), with_value.end(), name) != with_value.end();
    if (!takes || at_ >= arguments_.size()) {
      return Option{name, std::nullopt};
    }
    return Option{name, arguments_[at_++]};
  }

  [[nodiscard]] std::optional<std::string> Word() {
    return at_ < arguments_.size() ? std::optional(arguments_[at_++]) : std::nullopt;
  }

 private:
  const std::vector<std::string>& arguments_;
  std::size_t at_;
};

Error NoContainer(const std::string& command) {
  return Error{Code::kInvalid, 0, command + " names no container", {}};
}

// Options may also follow the container's id, as crun's parser allows.
Result<> ParseCreate(Walker& walker, RuntimeCall& call) {
  while (true) {
    if (auto option = walker.Next(kCreateWithValue)) {
      const std::string value = option->value.value_or(std::string());
      if (option->name == "bundle" || option->name == "b") {
        call.bundle = value;
      } else if (option->name == "config" || option->name == "f") {
        call.config = value;
      }
      continue;
    }
    auto word = walker.Word();
    if (!word) {
      return call.id.empty() ? NoContainer("create") : Result<>();
    }
    call.id = call.id.empty() ? *word : call.id;
  }
}

Result<> ParseExec(Walker& walker, RuntimeCall& call) {
  while (auto option = walker.Next(kExecWithValue)) {
    if ((option->name == "process" || option->name == "p") && option->value) {
      call.process = *option->value;
    } else if ((option->name == "cap" || option->name == "c") && option->value) {
      call.capabilities.push_back(*option->value);
    }
  }
  auto word = walker.Word();
  if (!word) {
    return NoContainer("exec");
  }
  call.id = *word;
  return {};
}

}  // namespace

Result<RuntimeCall> ParseArguments(const std::vector<std::string>& arguments) {
  RuntimeCall call;
  Walker walker(arguments, 0);
  while (auto option = walker.Next(kGlobalWithValue)) {
    if (option->name == "log") {
      call.log = option->value.value_or(std::string());
    } else if (option->name == "log-format") {
      call.log_json = option->value == "json";
    }
  }
  const auto command = walker.Word();
  if (!command) {
    return call;
  }
  call.command = *command;
  if (command == "create" || command == "run") {
    call.kind = RuntimeCall::Kind::kCreate;
    CGPU_TRY(ParseCreate(walker, call));
  } else if (command == "exec") {
    call.kind = RuntimeCall::Kind::kExec;
    CGPU_TRY(ParseExec(walker, call));
  } else if (std::find(kHarmless.begin(), kHarmless.end(), *command) == kHarmless.end()) {
    call.kind = RuntimeCall::Kind::kRefused;
  }
  return call;
}

}  // namespace cgpu
