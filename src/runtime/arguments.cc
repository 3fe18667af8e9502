#include "runtime/arguments.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace cgpu {
namespace {

// Options of a command. runc's: main.go, create.go, run.go, exec.go; crun's: src/crun.c, create.c,
// run.c, exec.c.
struct Options {
  std::span<const std::string_view> with_value;  // value in the next word or after '='
  std::span<const std::string_view> flags;
};

constexpr std::array<std::string_view, 7> kGlobalWithValue = {
    "log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager"};
constexpr std::array<std::string_view, 9> kGlobalFlags = {
    "debug", "systemd-cgroup", "version", "v", "V", "help", "h", "usage", "?"};
constexpr std::array<std::string_view, 8> kCreateWithValue = {
    "bundle", "b", "console-socket", "pid-file", "pidfd-socket", "preserve-fds", "config", "f"};
constexpr std::array<std::string_view, 9> kCreateFlags = {
    "detach", "d", "keep", "no-pivot", "no-new-keyring", "no-subreaper", "help", "h", "usage"};
constexpr std::array<std::string_view, 18> kExecWithValue = {
    "console-socket",  "cwd",      "env",     "e", "user",         "u",
    "additional-gids", "g",        "process", "p", "pid-file",     "pidfd-socket",
    "process-label",   "apparmor", "cap",     "c", "preserve-fds", "cgroup"};
constexpr std::array<std::string_view, 10> kExecFlags = {
    "detach",       "d",    "tty", "t",    "no-new-privs", "ignore-paused",
    "no-subreaper", "help", "h",   "usage"};

constexpr Options kGlobal{kGlobalWithValue, kGlobalFlags};
constexpr Options kCreate{kCreateWithValue, kCreateFlags};
constexpr Options kExec{kExecWithValue, kExecFlags};

// Commands that make no process and do not change what a container may do. `checkpoint` stops a
// container's processes, writes them down, and lets them go on under the filter that they have. Two
// commands are not among them: `restore`, for which runc (libcontainer/criu_linux.go) and crun
// (src/libcrun/criu.c) build no filter, and crun's `mounts`, which puts the host's folders into a
// running container.
constexpr std::array<std::string_view, 15> kHarmlessCommands = {
    "start",  "kill",   "delete", "state",      "list", "ps", "pause",   "resume",
    "update", "events", "spec",   "checkpoint", "help", "h",  "features"};

struct Option {
  std::string name;  // without dashes
  std::optional<std::string> value;
};

bool IsIn(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

Error Unknown(const std::string& word) {
  return Error{Code::kUnsupported, 0,
               "the option " + word + " of the runtime is not known, or not in this spelling",
               "write it in full, as --bundle DIR; or use a version of cgpu that knows it"};
}

// Walks over options and says where the words begin. Runtimes read options differently where they
// are abbreviated (--bun), have their value attached (-bDIR), or have a long name after one dash.
// The walker refuses these and unknown ones, because then it cannot tell which word is what.
class Walker {
 public:
  Walker(const std::vector<std::string>& arguments, std::size_t at)
      : arguments_(arguments), at_(at) {}

  [[nodiscard]] std::optional<std::string> Word() {
    return at_ < arguments_.size() ? std::optional(arguments_[at_++]) : std::nullopt;
  }

  // Calls `take` with the name and the value, if any, of each option up to the first word that is
  // none.
  template <class Take>
  Result<> Each(const Options& options, const Take& take) {
    while (true) {
      CGPU_ASSIGN_OR_RETURN(const auto option, Next(options));
      if (!option.has_value()) {
        return {};
      }
      take((option)->name, (option)->value);
    }
  }

  // Lets options come again, as after a command.
  void GoOn() { ended_ = false; }

 private:
  // Returns the next option; nothing at the first word that is none, or at the end.
  Result<std::optional<Option>> Next(const Options& options) {
    if (ended_ || at_ >= arguments_.size() || arguments_[at_].size() < 2 ||
        arguments_[at_][0] != '-') {
      return std::optional<Option>();
    }
    if (arguments_[at_] == "--") {
      ++at_;
      ended_ = true;
      return std::optional<Option>();
    }
    const std::string& word = arguments_[at_++];
    const bool is_long = word[1] == '-';
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    Option option{word.substr(is_long ? 2 : 1, equals - (is_long ? 2 : 1)), std::nullopt};
    const bool takes = IsIn(options.with_value, option.name);
    if (is_long != (option.name.size() > 1) || (!takes && !IsIn(options.flags, option.name))) {
      return Unknown(word);
    }
    if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (takes && at_ < arguments_.size()) {
      option.value = arguments_[at_++];
    }
    return std::optional(std::move(option));
  }

  const std::vector<std::string>& arguments_;
  std::size_t at_;
  bool ended_ = false;  // "--" was there
};

Error NoContainer(const std::string& command) {
  return Error{Code::kInvalid, 0, command + " names no container", {}};
}

// Parses create or run. Options may also follow the container's id, as crun's parser allows.
Result<> ParseCreate(Walker& walker, RuntimeCall& call) {
  while (true) {
    CGPU_TRY(walker.Each(kCreate, [&](const std::string& name, const auto& value) {
      if (name == "bundle" || name == "b") {
        call.bundle = value.value_or(std::string());
      } else if (name == "config" || name == "f") {
        call.config = value.value_or(std::string());
      }
    }));
    auto word = walker.Word();
    if (!word) {
      return call.id.empty() ? NoContainer("create") : Result<>();
    }
    call.id = call.id.empty() ? *word : call.id;
  }
}

Result<> ParseExec(Walker& walker, RuntimeCall& call) {
  CGPU_TRY(walker.Each(kExec, [&](const std::string& name, const auto& value) {
    if ((name == "process" || name == "p") && value) {
      call.process = *value;
    } else if ((name == "cap" || name == "c") && value) {
      call.capabilities.push_back(*value);
    }
  }));
  auto word = walker.Word();
  if (!word) {
    return NoContainer("exec");
  }
  call.id = *word;
  return {};
}

Result<> ParseGlobal(Walker& walker, RuntimeCall& call) {
  return walker.Each(kGlobal, [&](const std::string& name, const auto& value) {
    if (name == "log") {
      call.log = value.value_or(std::string());
    } else if (name == "log-format") {
      call.log_json = value == "json";
    } else if (name == "root") {
      call.root = value.value_or(std::string());
    }
  });
}

}  // namespace

Result<RuntimeCall> ParseArguments(const std::vector<std::string>& arguments) {
  RuntimeCall call;
  Walker walker(arguments, 0);
  CGPU_TRY(ParseGlobal(walker, call));
  const auto command = walker.Word();
  if (!command) {
    return call;
  }
  call.command = *command;
  walker.GoOn();
  if (command == "create" || command == "run") {
    call.kind = RuntimeCall::Kind::kCreate;
    CGPU_TRY(ParseCreate(walker, call));
  } else if (command == "exec") {
    call.kind = RuntimeCall::Kind::kExec;
    CGPU_TRY(ParseExec(walker, call));
  } else if (std::ranges::find(kHarmlessCommands, *command) == kHarmlessCommands.end()) {
    call.kind = RuntimeCall::Kind::kRefused;
  }
  return call;
}

}  // namespace cgpu
