// Reads what nvidia-smi and NVML tell of a GPU beside its name (gpus.h): identity, memory, use of
// its engines, processes, modes, errors.
//
// An error of code kUnsupported means that the driver does not tell; no figure replaces it. In a
// slice that is so for the use of the engines, which concerns all tenants. Not thread-safe, as
// Client.
#ifndef CGPU_RMCLIENT_READINGS_H_
#define CGPU_RMCLIENT_READINGS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"
#include "rmclient/utilisation.h"

namespace cgpu::rmclient {

// Numbers of the PCI configuration space.
struct PciIds {
  std::uint32_t device = 0;     // device << 16 | vendor
  std::uint32_t subsystem = 0;  // likewise
};
[[nodiscard]] Result<PciIds> ReadPciIds(Client& client, const Gpu& gpu);

struct FbInfo {
  std::uint64_t total = 0;  // bytes that can be allocated on an idle GPU (HEAP_SIZE)
  std::uint64_t free = 0;   // free bytes (HEAP_FREE)

  [[nodiscard]] std::uint64_t used() const { return total > free ? total - free : 0; }
};
[[nodiscard]] Result<FbInfo> ReadFbInfo(Client& client, const Gpu& gpu);

// Window through which processors see GPU memory (BAR1), in bytes.
[[nodiscard]] Result<FbInfo> ReadBar1(Client& client, const Gpu& gpu);

// Compute capability: 8 and 6 of an A10.
struct ComputeCapability {
  unsigned major = 0;
  unsigned minor = 0;
};
[[nodiscard]] Result<ComputeCapability> ReadComputeCapability(Client& client, const Gpu& gpu);

// Number of the architecture and of the chip in it (ctrl2080mc.h): 0x170 and 2 of a GA102.
struct Architecture {
  std::uint32_t architecture = 0;
  std::uint32_t implementation = 0;
};
[[nodiscard]] Result<Architecture> ReadArchitecture(Client& client, const Gpu& gpu);

// Cores for single-precision arithmetic.
[[nodiscard]] Result<std::uint32_t> ReadCores(Client& client, const Gpu& gpu);
// Width of the memory's bus in bits.
[[nodiscard]] Result<std::uint32_t> ReadBusWidth(Client& client, const Gpu& gpu);

// Version of the VBIOS, "94.02.5C.00.04". The driver makes the text of the two numbers likewise
// (src/nvidia/arch/nvalloc/unix/src/osinit.c); nvidia-smi has capital letters in it.
[[nodiscard]] Result<std::string> ReadBiosVersion(Client& client, const Gpu& gpu);
// Version of the InfoROM's image, "G133.0215.00.06", and of one object in it, "OEM" or "ECC":
// "6.16". kUnsupported: the board has none.
[[nodiscard]] Result<std::string> ReadInforomImage(Client& client, const Gpu& gpu);
[[nodiscard]] Result<std::string> ReadInforomObject(Client& client, const Gpu& gpu,
                                                    std::string_view object);
// Number of the performance state, 0 the fastest. kUnsupported: not told; so before driver 550.
[[nodiscard]] Result<unsigned> ReadPerformanceState(Client& client, const Gpu& gpu);

// Rule for compute contexts (NV2080_CTRL_GPU_COMPUTE_MODE_RULES_*, ctrl2080gpu.h): 0 anybody may
// make them, 1 one thread, 2 nobody, 3 one process.
[[nodiscard]] Result<std::uint32_t> ReadComputeMode(Client& client, const Gpu& gpu);

// Returns whether the GPU stays started without users.
[[nodiscard]] Result<bool> ReadPersistence(Client& client, const Gpu& gpu);
// Returns whether the GPU is divided (MIG). kUnsupported: it cannot be.
[[nodiscard]] Result<bool> ReadMig(Client& client, const Gpu& gpu);

// Memory errors since the driver began (volatile ones, in NVML's words), of all units of the GPU
// that have error correction (ECC). kUnsupported: no unit has.
struct Ecc {
  bool enabled = false;
  std::uint64_t corrected = 0;
  std::uint64_t uncorrected = 0;
};
[[nodiscard]] Result<Ecc> ReadEcc(Client& client, const Gpu& gpu);
// Error correction as the board keeps it: after the next start of the GPU, and as from the factory.
struct EccSetting {
  bool next = false;
  bool factory = false;
};
[[nodiscard]] Result<EccSetting> ReadEccSetting(Client& client, const Gpu& gpu);

struct ProcessUse {
  std::uint32_t pid = 0;
  std::uint64_t bytes = 0;  // memory that its objects take on the GPU
};
// Reads the processes that the driver shows to this client; leaves out those that end meanwhile.
[[nodiscard]] Result<std::vector<ProcessUse>> ReadProcesses(Client& client, const Gpu& gpu);

// A process with an object of a compute class or of a 3D class on the GPU. A process may have both.
struct Worker {
  std::uint32_t pid = 0;
  std::uint64_t bytes = 0;  // as ProcessUse::bytes
  bool compute = false;
  bool graphics = false;
};
// Returns them by pid. Leaves out processes that only hold memory: ReadProcesses() has those, too.
[[nodiscard]] Result<std::vector<Worker>> ReadWorkers(Client& client, const Gpu& gpu);

// Use of the GPU's engines in a stretch of time, each from 0 to 1.
struct Use {
  double graphics = 0;  // the engine for graphics and compute
  double memory = 0;    // the memory's bus
  double encoder = 0;
  double decoder = 0;
  std::uint64_t newest_ns = 0;  // end of the newest sample, since 1970; 0: none
};
// NVML's sample period is between 1/6 s and 1 s, depending on the GPU (nvmlUtilization_t in the
// NVML API reference).
inline constexpr std::chrono::nanoseconds kUsePeriod = std::chrono::seconds(1);
// Reads the driver's samples, with times since 1970, oldest first.
[[nodiscard]] Result<std::vector<Utilisation>> ReadSamples(Client& client, const Gpu& gpu);
// Reads the use in the last kUsePeriod. The GPU was idle where the driver has no sample.
[[nodiscard]] Result<Use> ReadUse(Client& client, const Gpu& gpu);
// Reads it by process, for the time after `since_ns` (since 1970): a sample counts for the process
// that was active at its end, and is shared out as the others are if none was. Leaves out processes
// without a sample.
[[nodiscard]] Result<std::map<std::uint32_t, Use>> ReadUseByProcess(Client& client, const Gpu& gpu,
                                                                    std::uint64_t since_ns);

// Does the arithmetic of ReadUse() on samples, oldest first. `now_ns` is by the samples'
// clock. The stretch ends with the newest sample as long as the next one is not overdue.
[[nodiscard]] Use UseOf(const std::vector<Utilisation>& samples, std::uint64_t now_ns,
                        std::chrono::nanoseconds period);
[[nodiscard]] std::map<std::uint32_t, Use> UseByProcess(const std::vector<Utilisation>& samples,
                                                        std::uint64_t since_ns);

// Returns the newest CUDA version that a driver of this release brings, as 1000 * major + 10 *
// minor, by table "CUDA Toolkit and Corresponding Driver Versions" of NVIDIA's CUDA Toolkit release
// notes. Nothing: not known here.
[[nodiscard]] std::optional<int> CudaVersionOf(std::string_view driver_version);

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_READINGS_H_
