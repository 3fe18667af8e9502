// cgpu bundle: makes an archive for a bug report, of what this host has and what happened on it.
//
// It has no secrets: nothing of what a container's programs were started with (environment, command
// line, annotations), no file of a key or token, and of config.yaml the known settings alone.
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/child.h"
#include "base/file.h"
#include "base/rfc3339.h"
#include "cli/command_line.h"
#include "host/admin.h"
#include "host/event_ring.h"
#include "host/saved_settings.h"
#include "protocol/text.h"
#include "runtime/settings.h"
#include "version/version.h"

namespace cgpu {
namespace {

constexpr std::chrono::seconds kTimeout{20};
constexpr std::size_t kMost = std::size_t{8} << 20;  // bytes of one file

struct Part {
  std::string file;
  std::string what;
  std::string from;
  std::string text;
};

// Returns what the program says, errors too, or why it says nothing.
std::string Said(std::vector<std::string> words) {
  words.insert(words.begin(), {"sh", "-c", "exec \"$0\" \"$@\" 2>&1"});
  const auto output = OutputOf(words, kTimeout, kMost);
  if (!output.ok()) {
    return output.error().what + "\n";
  }
  return output->status == 0
             ? output->text
             : output->text + "(exit status " + std::to_string(output->status) + ")\n";
}

std::string TextOfFile(const std::string& path) {
  const auto text = ReadFile(path, kMost);
  return text.ok() ? *text : text.error().what + "\n";
}

std::string Versions() {
  utsname kernel{};
  (void)uname(&kernel);
  std::string text = VersionText("cgpu") + "\n";
  text += std::string(kernel.sysname) + " " + kernel.release + " " + kernel.version + " " +
          kernel.machine + "\n\n/proc/driver/nvidia/version:\n" +
          TextOfFile("/proc/driver/nvidia/version") + "\n/etc/os-release:\n" +
          TextOfFile("/etc/os-release") + "\n";
  for (const char* const program : {"runc", "crun", "docker", "dockerd", "containerd", "crio",
                                    "podman", "kubelet", "nvidia-ctk", "systemctl"}) {
    const auto output = OutputOf({program, "--version"}, kTimeout, kMost);
    text += std::string(program) + " --version: " + (output.ok() ? output->text : "not here\n");
  }
  return text;
}

// Returns the lines of config.yaml that are known settings. A comment, or a setting of another
// version, can have a secret in it.
std::string KnownSettings(const std::string& text) {
  std::istringstream lines(text);
  std::string known;
  for (std::string line; std::getline(lines, line);) {
    const bool is_known =
        line.starts_with("policy GPU-") || std::ranges::any_of(kSettingNames, [&](auto name) {
          return line.starts_with(name) && line.substr(name.size()).starts_with(":");
        });
    const bool is_empty = line.empty() || line.starts_with('#');
    if (is_known) {
      known += line.substr(0, line.find('#')) + "\n";
    } else if (!is_empty) {
      known += "# a line is left out\n";
    }
  }
  return known;
}

// Lists a folder and those in it: modes, owners, sizes and names.
std::string Listed(const std::string& folder) {
  std::string text;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info{};
    if (lstat(at->path().c_str(), &info) == 0) {
      char line[64];
      std::snprintf(line, sizeof(line), "%06o %u:%u %lld ", info.st_mode, info.st_uid, info.st_gid,
                    static_cast<long long>(info.st_size));
      text += line + Rfc3339Ms(static_cast<std::uint64_t>(info.st_mtime) * 1'000) + " " +
              at->path().string() + "\n";
    }
    if (at.depth() >= 1) {
      at.disable_recursion_pending();
    }
  }
  return text.empty() ? folder + " is empty\n" : text;
}

// Lists the files of the registry that no living container has.
std::string Leftovers(const Registry& registry, const std::vector<ContainerStatus>& live) {
  std::string text;
  for (const std::string& name : NamesIn(registry.folder()).value_or({})) {
    const std::string id = name.substr(0, name.find('.'));
    if (IsId(id) && std::ranges::find(live, id, &ContainerStatus::id) == live.end()) {
      text += name + "\n";
    }
  }
  return text.empty() ? "none\n" : text;
}

// Returns how the shims' processes are.
std::string Shims(const std::vector<ContainerStatus>& live) {
  std::string text;
  for (const ContainerStatus& one : live) {
    text += one.id + ": " + one.state + ", shim " + std::to_string(one.shim) + "\n";
    std::istringstream lines(
        one.shim == 0 ? "" : TextOfFile("/proc/" + std::to_string(one.shim) + "/status"));
    for (std::string line; std::getline(lines, line);) {
      for (const char* const key : {"State:", "Threads:", "VmRSS:", "FDSize:", "Uid:"}) {
        text += line.starts_with(key) ? "  " + line + "\n" : "";
      }
    }
  }
  return text.empty() ? "no containers\n" : text;
}

std::vector<Part> Parts(const Registry& registry, const std::vector<ContainerStatus>& live,
                        const std::string& cgpu) {
  const auto own = [&](const std::string& file, const std::string& what,
                       std::vector<std::string> words) {
    std::string from = "cgpu";
    for (const std::string& word : words) {
      from += " " + word;
    }
    words.insert(words.begin(), cgpu);
    return Part{file, what, from, Said(std::move(words))};
  };
  const auto settings = ReadSettings(kSettingsFile);
  std::vector<std::string> smi{
      "smi", "--query-gpu=index,uuid,name,driver_version,memory.total,memory.used,utilization.gpu",
      "--format=csv"};
  if (settings.ok() && !settings->node.empty()) {
    smi.insert(smi.end(), {"--node", settings->node});
  }
  return {
      {"versions.txt", "versions of cgpu, the kernel, the driver and container engines",
       "uname, /proc, /etc/os-release, PROGRAM --version", Versions()},
      {"config.yaml", "the settings, without comments and lines that cgpu does not know",
       kSettingsFile, KnownSettings(TextOfFile(kSettingsFile))},
      {"saved-policies.txt", "what `cgpu policy` has saved", kSavedFile, TextOfFile(kSavedFile)},
      own("containers.json", "the containers, with the memory of each", {"ps", "--json"}),
      own("refused.txt", "the containers' refused driver calls", {"ps", "-v"}),
      own("gpus.csv", "the GPUs", smi),
      own("policies.txt", "how the GPUs' compute time is shared", {"policy"}),
      own("plan.json", "what each container is due, and got in a second",
          {"top", "--json", "-n", "1"}),
      own("events.json", "what happened; words that were refused may be quoted",
          {"events", "--json"}),
      {"journal.txt", "the log of cgpud's unit", "journalctl -u cgpud",
       Said({"journalctl", "-u", "cgpud", "-n", "5000", "--no-pager", "-o", "short-iso"})},
      {"shims.txt", "the shims' processes", "/proc/PID/status", Shims(live)},
      {"registry.txt", "names, modes and sizes of the registry's files", registry.folder(),
       Listed(registry.folder())},
      {"leftovers.txt", "files of the registry that no container has", registry.folder(),
       Leftovers(registry, live)},
  };
}

std::string Manifest(const std::vector<Part>& parts) {
  std::string text = "What a bug report about cgpu needs, made by `cgpu bundle` at " +
                     Rfc3339Ms(NowMs()) + ".\n\n";
  for (const Part& part : parts) {
    text += part.file + "\n  " + part.what + "\n  from: " + part.from + "\n  " +
            std::to_string(part.text.size()) + " bytes\n";
  }
  return text +
         "\nNot in it: environments, command lines and annotations of containers, tokens, keys,\n"
         "signatures, and programs' memory.\n";
}

// Packs the files by way of `scratch`, a folder that only root can enter.
Result<> PackIn(const std::string& scratch, const std::vector<Part>& parts,
                const std::string& archive) {
  const std::string folder = scratch + "/cgpu-bundle";
  CGPU_TRY(MakeDirectories(folder, 0755));
  CGPU_TRY(WriteFile(folder + "/MANIFEST.txt", Manifest(parts), 0644));
  for (const Part& part : parts) {
    CGPU_TRY(WriteFile(folder + "/" + part.file, part.text, 0644));
  }
  CGPU_TRY(WriteFile(archive, "", 0600));
  CGPU_ASSIGN_OR_RETURN(const auto packed,
                        OutputOf({"tar", "--create", "--gzip", "--file", archive, "--owner=0",
                                  "--group=0", "--directory", scratch, "cgpu-bundle"},
                                 kTimeout, kMost));
  return packed.status == 0 ? Result<>()
                            : Error{Code::kUnavailable, 0, "tar could not write " + archive,
                                    "is there room for it, and is gzip installed?"};
}

Result<> Pack(const std::vector<Part>& parts, const std::string& archive) {
  char scratch[] = "/tmp/cgpu-bundle-XXXXXX";
  if (mkdtemp(scratch) == nullptr) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a folder in /tmp");
  }
  auto done = PackIn(scratch, parts, archive);
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  return done;
}

Result<int> Run(std::string& archive) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may see what belongs into the archive",
                 "run it with sudo"};
  }
  if (archive.empty()) {
    std::string time = Rfc3339Ms(NowMs()).substr(0, sizeof("2026-01-02T03:04:05") - 1);
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    archive = "cgpu-bundle-" + time + "Z.tar.gz";
  }
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(const auto live, ListContainers(registry));
  CGPU_ASSIGN_OR_RETURN(const auto program, OwnProgram());
  const std::vector<Part> parts = Parts(registry, live, program);
  CGPU_TRY(Pack(parts, archive));
  for (const Part& part : parts) {
    std::printf("%9zu bytes  %-20s %s\n", part.text.size(), part.file.c_str(), part.what.c_str());
  }
  std::printf(
      "\n%s has these files. It has no environments, command lines or annotations of containers, "
      "and "
      "no tokens or keys. Look at it before you send it: tar -xOzf %s | less\n",
      archive.c_str(), archive.c_str());
  return 0;
}

}  // namespace

void AddBundle(const cli::Command& app, int& status) {
  auto archive = std::make_shared<std::string>();
  const cli::Command command = app.AddCommand(
      "bundle", "Make an archive for a bug report: versions, settings, state, events; no secrets");
  command.AddOption("-o,--output", *archive, "The archive (default: cgpu-bundle-TIME.tar.gz here)")
      .Value("FILE");
  OnParsed(command, status, [archive] { return Run(*archive); });
}

}  // namespace cgpu
