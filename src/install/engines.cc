#include "install/engines.h"

#include <cstddef>

#include "install/docker.h"
#include "install/toml_engines.h"

namespace cgpu::install {

const std::vector<EngineFacts>& Engines() {
  static const std::vector<EngineFacts> engines = {
      {Engine::kDocker, "docker", "/etc/docker/daemon.json", "systemctl reload docker",
       "pkill -HUP -x dockerd", "docker run --runtime=cgpu -e CGPU_MEM=3GiB IMAGE"},
      {Engine::kContainerd, "containerd", "/etc/containerd/config.toml",
       "systemctl restart containerd", "stop containerd and start it again",
       "runtimeClassName of a RuntimeClass with `handler: cgpu`"},
      {Engine::kCrio, "crio", "/etc/crio/crio.conf.d/cgpu.conf", "systemctl reload crio",
       "pkill -HUP -x crio", "runtimeClassName of a RuntimeClass with `handler: cgpu`"},
      {Engine::kPodman, "podman", "/etc/containers/containers.conf.d/cgpu.conf", "", "",
       "podman run --runtime=cgpu -e CGPU_MEM=3GiB IMAGE"},
  };
  return engines;
}

const EngineFacts& FactsOf(Engine engine) {
  return Engines()[static_cast<std::size_t>(engine)];
}

Result<Entry> FindEntry(Engine engine, const std::string& text) {
  return engine == Engine::kDocker ? FindInDocker(text) : FindInToml(engine, text);
}

Result<Edit> AddEntry(Engine engine, const std::optional<std::string>& text,
                      const std::string& path, bool set_default,
                      const std::optional<std::string>& like) {
  CGPU_ASSIGN_OR_RETURN(const auto entry, FindEntry(engine, text.value_or("")));
  if (entry.path.has_value() && *entry.path != path) {
    return Error{Code::kConflict, 0,
                 "has a runtime cgpu already, with another program: " +
                     (entry.path->empty() ? "none that is named" : *entry.path),
                 "`cgpu uninstall " + std::string(FactsOf(engine).name) + "` takes it away"};
  }
  return engine == Engine::kDocker ? AddToDocker(text, path, set_default)
                                   : AddToToml(engine, text, path, set_default, like);
}

Result<std::optional<std::string>> RemoveEntry(Engine engine, const std::string& text,
                                               const std::optional<std::string>& original) {
  return engine == Engine::kDocker ? RemoveFromDocker(text, original)
                                   : RemoveFromToml(engine, text);
}

}  // namespace cgpu::install
