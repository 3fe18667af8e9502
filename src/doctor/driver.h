// Checks of NVIDIA's driver, its device files, what else uses the GPUs, and simulated nodes. Rows
// of check_table.cc say what each is about.
#ifndef CGPU_DOCTOR_DRIVER_H_
#define CGPU_DOCTOR_DRIVER_H_

#include <optional>
#include <string>
#include <vector>

#include "doctor/check.h"

namespace cgpu::doctor {

// Returns the version of the loaded driver, "" if its files say none. Nothing: none is loaded.
[[nodiscard]] std::optional<std::string> LoadedDriver(const Facts& facts);
// Returns the versions in names of the form libcuda.so.VERSION within a text, each once.
[[nodiscard]] std::vector<std::string> LibraryVersions(const std::string& text);

[[nodiscard]] Finding GpuSource(const Facts& facts);
[[nodiscard]] Finding DriverVersionTold(const Facts& facts);
[[nodiscard]] Finding DriverBranch(const Facts& facts);
[[nodiscard]] Finding DriverCompared(const Facts& facts);
[[nodiscard]] Finding DriverFlavour(const Facts& facts);
[[nodiscard]] Finding DriverPending(const Facts& facts);
[[nodiscard]] Finding DriverLibrary(const Facts& facts);
[[nodiscard]] Finding DriverAnswers(const Facts& facts);
[[nodiscard]] Finding DriverGpus(const Facts& facts);
[[nodiscard]] Finding DriverExcluded(const Facts& facts);
[[nodiscard]] Finding Nouveau(const Facts& facts);
[[nodiscard]] Finding DeviceControl(const Facts& facts);
[[nodiscard]] Finding DeviceGpus(const Facts& facts);
[[nodiscard]] Finding DeviceUvm(const Facts& facts);
[[nodiscard]] Finding DeviceNumbers(const Facts& facts);
[[nodiscard]] Finding DeviceModes(const Facts& facts);
[[nodiscard]] Finding DeviceFileSystem(const Facts& facts);
[[nodiscard]] Finding VirtualMachine(const Facts& facts);
[[nodiscard]] Finding VgpuGuest(const Facts& facts);
[[nodiscard]] Finding VgpuHost(const Facts& facts);
[[nodiscard]] Finding Mig(const Facts& facts);
[[nodiscard]] Finding Mps(const Facts& facts);
[[nodiscard]] Finding Persistence(const Facts& facts);
[[nodiscard]] Finding Caps(const Facts& facts);
[[nodiscard]] Finding FirmwareFamily(const Facts& facts);
[[nodiscard]] Finding OtherProcesses(const Facts& facts);
[[nodiscard]] Finding SimulatedNodes(const Facts& facts);
[[nodiscard]] Finding SimulatedBeside(const Facts& facts);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_DRIVER_H_
