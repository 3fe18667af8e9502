// Edits the configuration of each container engine so that the engine knows the OCI runtime `cgpu`.
//
// Pure: texts in, texts out. Sources: Docker's daemon.json (docs.docker.com, dockerd, "Daemon
// configuration file"), containerd's docs/man/containerd-config.toml.5.md and docs/cri/config.md,
// CRI-O's docs/crio.conf.5.md, podman's containers.conf(5).
#ifndef CGPU_INSTALL_ENGINES_H_
#define CGPU_INSTALL_ENGINES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu::install {

enum class Engine { kDocker, kContainerd, kCrio, kPodman };

struct EngineFacts {
  Engine engine;
  std::string_view name;
  std::string_view file;    // path of its configuration; for some a file that is cgpu's alone
  std::string_view reload;  // command that makes the engine read it; "": it reads it at each start
  std::string_view reload_without_systemd;
  std::string_view usage;  // command that starts a container with the runtime
};

[[nodiscard]] const std::vector<EngineFacts>& Engines();
[[nodiscard]] const EngineFacts& FactsOf(Engine engine);

// A configuration's entry of the runtime `cgpu`.
struct Entry {
  std::optional<std::string> path;  // path of its program; "" if it is there without one
  bool is_default = false;
};

[[nodiscard]] Result<Entry> FindEntry(Engine engine, const std::string& text);

// Change of a file.
struct Edit {
  std::optional<std::string> after;  // its text
  std::string gets;                  // what is added, as text of the engine's configuration
};

// Returns the text with the runtime at `path` in it and, if asked for, as the default one. What is
// there already stays. `text`: nothing, if there is no file. kConflict: `cgpu` is there with
// another path. kInvalid: the text is not what the engine reads. kUnsupported: it cannot be added;
// the hint says what to add by hand. `like`: a text with the entry of runc, from which settings are
// taken; only containerd has such, and only where the text itself is no more than a part of the
// whole.
[[nodiscard]] Result<Edit> AddEntry(Engine engine, const std::optional<std::string>& text,
                                    const std::string& path, bool set_default,
                                    const std::optional<std::string>& like = std::nullopt);

// Returns the text without what AddEntry() added; nothing, if that was all. `original`: for Docker,
// what the file was before, if that is known. kUnsupported: the runtime was added otherwise.
[[nodiscard]] Result<std::optional<std::string>> RemoveEntry(
    Engine engine, const std::string& text, const std::optional<std::string>& original);

// Other files that a configuration of containerd imports, as they are written there.
struct Imports {
  std::vector<std::string> patterns;
  // Whether their tables are merged with those of this file. containerd 2 does that with any file,
  // and so files of version 3 can count on it. Before, a plugin's section in one of them replaced
  // all that this file says of the plugin (containerd issue 5837).
  bool merged = false;
};

[[nodiscard]] Result<Imports> ImportsOf(const std::string& text);

// Returns whether the text has a section of containerd's CRI plugin.
[[nodiscard]] Result<bool> ConfiguresCri(const std::string& text);

// Returns whether the text disables containerd's CRI plugin, as the file in Docker's packages does.
[[nodiscard]] bool DisablesCri(const std::string& text);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_ENGINES_H_
