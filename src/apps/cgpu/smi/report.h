// The data of `cgpu smi` about the GPUs, and its output formats, which are those of nvidia-smi.
//
// Gathering (gather.h) asks the driver; all here is pure. A figure that the driver does not give is
// empty, and prints as nvidia-smi prints a figure that a GPU does not report: "N/A", "[N/A]" or
// "-". Names of fields, labels, columns and units are nvidia-smi's, of its releases 550 and later.
// Witnesses: its manual page (manpages.ubuntu.com, nvidia-utils-550-server) and outputs in public
// issues and logs, named in the files that draw them.
#ifndef CGPU_APPS_CGPU_SMI_REPORT_H_
#define CGPU_APPS_CGPU_SMI_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu::smi {

// Uses of GPU engines, percent.
struct Use {
  std::optional<unsigned> graphics;
  std::optional<unsigned> memory;
  std::optional<unsigned> encoder;
  std::optional<unsigned> decoder;
};

struct Process {
  std::uint32_t pid = 0;
  std::string
      name;  // path of its program, or its first word; "[Not Found]" if it is not to be seen
  std::string type = "C";  // "C" for compute, "G" for graphics, or "C+G"
  std::uint64_t bytes = 0;
  Use use = {};
};

// A container that runs on this host and has a slice of the GPU.
struct Container {
  std::string id;
  std::string name;
  std::string type;        // as of a process
  std::uint32_t shim = 0;  // process that the driver knows instead of the container's
  std::uint64_t used = 0;  // bytes
  std::uint64_t limit = 0;
  Use use = {};          // of all its processes together
  bool divided = false;  // no process of it has its own `use`
};

struct Memory {
  std::uint64_t total = 0;  // bytes
  std::uint64_t used = 0;
  std::uint64_t free = 0;
};

// Errors of memory since the driver began, and whether they are corrected.
struct Ecc {
  bool enabled = false;
  bool next = false;  // after the next start of the GPU
  std::uint64_t corrected = 0;
  std::uint64_t uncorrected = 0;
};

struct Gpu {
  unsigned index = 0;
  unsigned minor = 0;
  std::string uuid;
  std::string name;
  std::string bus_id;  // nvidia-smi's form: "00000000:00:04.0"
  Memory memory;
  std::optional<Memory> bar1;
  Use use;
  std::optional<std::string> compute_mode;  // "Default"
  std::optional<std::string> compute_cap;   // "7.0"
  std::optional<std::string> architecture;  // "Volta"
  std::optional<std::string> bios;          // version of the VBIOS
  std::optional<std::string> inforom;       // versions of the InfoROM's image, and of two objects
  std::optional<std::string> inforom_oem;
  std::optional<std::string> inforom_ecc;
  std::optional<std::string> pstate;  // "P0"
  std::optional<bool> persistence;
  std::optional<bool> mig;
  std::optional<Ecc> ecc;
  std::optional<std::uint32_t> pci_device;     // device << 16 | vendor
  std::optional<std::uint32_t> pci_subsystem;  // likewise
  std::vector<Process> processes;              // those that hold memory, except the caller itself
  std::vector<Container> containers;
};

struct Report {
  std::string driver_version;
  std::string cuda_version;  // "12.4"; empty if unknown
  std::size_t attached = 0;  // GPUs that there are, also those that the user did not choose
  std::vector<Gpu> gpus;
  std::vector<std::string> silent;  // a sentence for each GPU that does not answer
};

// A moment as the output formats write it, in local time.
struct Moment {
  std::string line;       // "Thu Nov 26 09:23:34 2026"
  std::string timestamp;  // "2026/11/26 09:23:34.123"
  std::string date;       // "20261126"
  std::string clock;      // "09:23:34"
};

// Leaves only the GPUs that `ids` names: indices, UUIDs or PCI addresses, separated by commas.
// kNotFound: there is no such GPU.
[[nodiscard]] Result<> Select(Report& report, const std::string& ids);

// Returns the default output. `version` is cgpu's own.
[[nodiscard]] std::string RenderTable(const Report& report, const Moment& now,
                                      const std::string& version);
// Returns the output of `-L`.
[[nodiscard]] std::string RenderList(const Report& report);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_REPORT_H_
