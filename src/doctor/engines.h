// Checks of container engines, of the OCI runtimes that they call, and of NVIDIA's Container
// Toolkit. Rows of check_table.cc say what each is about.
#ifndef CGPU_DOCTOR_ENGINES_H_
#define CGPU_DOCTOR_ENGINES_H_

#include "doctor/check.h"
#include "install/engines.h"

namespace cgpu::doctor {

[[nodiscard]] Finding EngineConfig(const Facts& facts, install::Engine engine);
[[nodiscard]] Finding EngineProgram(const Facts& facts, install::Engine engine);
template <install::Engine kEngine>
[[nodiscard]] Finding ConfigOf(const Facts& facts) {
  return EngineConfig(facts, kEngine);
}
template <install::Engine kEngine>
[[nodiscard]] Finding ProgramOf(const Facts& facts) {
  return EngineProgram(facts, kEngine);
}

[[nodiscard]] Finding EngineInstalled(const Facts& facts);
[[nodiscard]] Finding EngineVersions(const Facts& facts);
[[nodiscard]] Finding EngineKnows(const Facts& facts);
[[nodiscard]] Finding EngineSameProgram(const Facts& facts);
[[nodiscard]] Finding DockerLoaded(const Facts& facts);
[[nodiscard]] Finding ContainerdCri(const Facts& facts);
[[nodiscard]] Finding OciRuntime(const Facts& facts);
[[nodiscard]] Finding OciRuntimeKind(const Facts& facts);
[[nodiscard]] Finding OciRuntimeKillable(const Facts& facts);
[[nodiscard]] Finding ToolkitVersion(const Facts& facts);
[[nodiscard]] Finding ToolkitHooks(const Facts& facts);
[[nodiscard]] Finding ToolkitMode(const Facts& facts);
[[nodiscard]] Finding ToolkitDefault(const Facts& facts);
[[nodiscard]] Finding CdiRead(const Facts& facts);
[[nodiscard]] Finding CdiThere(const Facts& facts);
[[nodiscard]] Finding CdiVersion(const Facts& facts);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_ENGINES_H_
