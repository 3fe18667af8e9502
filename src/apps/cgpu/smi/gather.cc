#include "apps/cgpu/smi/gather.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/file.h"
#include "host/admin.h"
#include "host/registry.h"
#include "rmclient/readings.h"

namespace cgpu::smi {
namespace {

// "0000:0a:00.0" as nvidia-smi writes it: "00000000:0A:00.0".
std::string BusId(std::string bdf) {
  std::ranges::transform(bdf, bdf.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return "0000" + bdf;
}

std::string ProgramOf(std::uint32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::array<char, 4096> path{};
  const ssize_t length = readlink((folder + "/exe").c_str(), path.data(), path.size());
  if (length > 0) {
    return {path.data(), static_cast<std::size_t>(length)};
  }
  const Result<std::string> line = ReadFile(folder + "/cmdline");
  if (!line.ok() || line->empty()) {
    return "[Not Found]";
  }
  return line->substr(0, line->find('\0'));
}

// Name of an architecture (NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_*, ctrl2080mc.h).
std::optional<std::string> NameOf(std::uint32_t architecture) {
  static const std::map<std::uint32_t, std::string> names = {
      {0x110, "Maxwell"},   {0x120, "Maxwell"},  {0x130, "Pascal"}, {0x140, "Volta"},
      {0x160, "Turing"},    {0x170, "Ampere"},   {0x180, "Hopper"}, {0x190, "Ada Lovelace"},
      {0x1A0, "Blackwell"}, {0x1B0, "Blackwell"}};
  const auto name = names.find(architecture);
  return name == names.end() ? std::nullopt : std::optional(name->second);
}

// Name of a compute mode, as nvidia-smi writes it (its manual page, "Compute Mode").
std::optional<std::string> ComputeModeOf(std::uint32_t rules) {
  static const std::array<std::string, 4> names = {"Default", "Exclusive_Thread", "Prohibited",
                                                   "Exclusive_Process"};
  return rules < names.size() ? std::optional(names.at(rules)) : std::nullopt;
}

Use PercentsOf(const rmclient::Use& use) {
  const auto percent = [](double part) { return static_cast<unsigned>(std::lround(part * 100)); };
  return {percent(use.graphics), percent(use.memory), percent(use.encoder), percent(use.decoder)};
}

std::optional<std::string> ValueOf(const Result<std::string>& result) {
  return result.ok() ? std::optional(*result) : std::nullopt;
}

Gpu Fixed(rmclient::Client& client, const rmclient::Gpu& from) {
  Gpu gpu;
  gpu.index = from.index;
  gpu.minor = from.minor;
  gpu.uuid = from.uuid;
  gpu.name = from.name;
  gpu.bus_id = BusId(from.bdf);
  if (const auto ids = rmclient::ReadPciIds(client, from); ids.ok()) {
    gpu.pci_device = ids->device;
    gpu.pci_subsystem = ids->subsystem;
  }
  if (const auto capability = rmclient::ReadComputeCapability(client, from); capability.ok()) {
    gpu.compute_cap = std::to_string(capability->major) + "." + std::to_string(capability->minor);
  }
  if (const auto architecture = rmclient::ReadArchitecture(client, from); architecture.ok()) {
    gpu.architecture = NameOf(architecture->architecture);
  }
  gpu.bios = ValueOf(rmclient::ReadBiosVersion(client, from));
  gpu.inforom = ValueOf(rmclient::ReadInforomImage(client, from));
  gpu.inforom_oem = ValueOf(rmclient::ReadInforomObject(client, from, "OEM"));
  gpu.inforom_ecc = ValueOf(rmclient::ReadInforomObject(client, from, "ECC"));
  return gpu;
}

// Returns the containers of this host; none where there are none or this user may not know.
std::vector<ContainerStatus> Containers() {
  constexpr char kFolder[] = "/run/cgpu";  // exists where cgpu has run as root; not in a slice
  if (access(kFolder, F_OK) != 0) {
    return {};
  }
  const auto registry = Registry::Open();
  return registry.ok() ? ListWithProcesses(*registry).value_or({}) : std::vector<ContainerStatus>();
}

// Answers of the driver about the processes on a GPU, by its own numbers of them.
struct Told {
  std::map<std::uint32_t, std::uint64_t> bytes;
  std::map<std::uint32_t, std::string> types;
  std::map<std::uint32_t, Use> uses;  // no entry: not told
  bool tells_use = false;
};

Result<Told> AskForProcesses(rmclient::Client& client, const rmclient::Gpu& from,
                             const Result<rmclient::Use>& use) {
  CGPU_ASSIGN_OR_RETURN(const auto processes, rmclient::ReadProcesses(client, from));
  Told told;
  for (const rmclient::ProcessUse& one : processes) {
    told.bytes[one.pid] = one.bytes;
  }
  for (const rmclient::Worker& worker : rmclient::ReadWorkers(client, from).value_or({})) {
    told.types[worker.pid] = !worker.graphics ? "C" : worker.compute ? "C+G" : "G";
  }
  if (!use.ok()) {
    return told;
  }
  told.tells_use = true;
  const auto period = static_cast<std::uint64_t>(rmclient::kUsePeriod.count());
  const bool idle = use->graphics == 0 && use->memory == 0;
  if (!idle) {
    const auto uses =
        rmclient::ReadUseByProcess(client, from, use->newest_ns - std::min(period, use->newest_ns));
    for (const auto& [pid, part] : uses.ok() ? *uses : std::map<std::uint32_t, rmclient::Use>()) {
      told.uses[pid] = PercentsOf(part);
    }
  }
  return told;
}

std::string TypeOf(const Told& told, std::uint32_t pid) {
  const auto type = told.types.find(pid);
  return type == told.types.end() ? "C" : type->second;
}

Use UseOf(const Told& told, std::uint32_t pid) {
  const auto use = told.uses.find(pid);
  return use != told.uses.end() ? use->second : told.tells_use ? Use{0, 0, 0, 0} : Use{};
}

// Puts a container and its processes into `gpu`, and takes its shim out of what the driver told.
void AddContainer(Gpu& gpu, Told& told, const ContainerStatus& from, const GpuStatus& part) {
  Container container{from.id,   from.name,       TypeOf(told, from.shim),
                      from.shim, part.used_bytes, part.limit_bytes};
  container.use = UseOf(told, from.shim);
  if (part.processes) {
    told.bytes.erase(from.shim);
    std::vector<ProcessMemory> holders = *part.processes;
    std::erase_if(holders, [](const ProcessMemory& process) { return process.bytes == 0; });
    container.divided = holders.size() != 1;
    for (const ProcessMemory& process : holders) {
      gpu.processes.push_back({process.pid, ProgramOf(process.pid), container.type, process.bytes,
                               container.divided ? Use{} : container.use});
    }
  }
  gpu.containers.push_back(std::move(container));
}

void AddProcesses(Gpu& gpu, Told told, const std::vector<ContainerStatus>& containers) {
  for (const ContainerStatus& container : containers) {
    for (const GpuStatus& part : container.gpus) {
      if (part.uuid == gpu.uuid) {
        AddContainer(gpu, told, container, part);
      }
    }
  }
  told.bytes.erase(static_cast<std::uint32_t>(getpid()));
  for (const auto& [pid, bytes] : told.bytes) {
    if (bytes != 0) {
      gpu.processes.push_back({pid, ProgramOf(pid), TypeOf(told, pid), bytes, UseOf(told, pid)});
    }
  }
  std::ranges::sort(gpu.processes, {}, &Process::pid);
}

void ReadModes(rmclient::Client& client, const rmclient::Gpu& from, Gpu& gpu) {
  if (const auto mode = rmclient::ReadComputeMode(client, from); mode.ok()) {
    gpu.compute_mode = ComputeModeOf(*mode);
  }
  if (const auto state = rmclient::ReadPerformanceState(client, from); state.ok()) {
    gpu.pstate = "P" + std::to_string(*state);
  }
  if (const auto persistence = rmclient::ReadPersistence(client, from); persistence.ok()) {
    gpu.persistence = *persistence;
  }
  if (const auto mig = rmclient::ReadMig(client, from); mig.ok()) {
    gpu.mig = *mig;
  }
  const auto ecc = rmclient::ReadEcc(client, from);
  const auto setting = rmclient::ReadEccSetting(client, from);
  if (ecc.ok()) {
    gpu.ecc = Ecc{ecc->enabled, setting.ok() ? setting->next : ecc->enabled, ecc->corrected,
                  ecc->uncorrected};
  }
}

// Reads what changes of one GPU. `gpu` has what does not.
Result<Gpu> Read(rmclient::Client& client, const rmclient::Gpu& from, Gpu gpu,
                 const std::vector<ContainerStatus>& containers) {
  CGPU_ASSIGN_OR_RETURN(const auto memory, rmclient::ReadFbInfo(client, from));
  gpu.memory = {memory.total, memory.used(), memory.free};
  if (const auto bar1 = rmclient::ReadBar1(client, from); bar1.ok()) {
    gpu.bar1 = Memory{bar1->total, bar1->used(), bar1->free};
  }
  ReadModes(client, from, gpu);
  const auto use = rmclient::ReadUse(client, from);
  if (use.ok()) {
    gpu.use = PercentsOf(*use);
  }
  CGPU_ASSIGN_OR_RETURN(auto told, AskForProcesses(client, from, use));
  AddProcesses(gpu, std::move(told), containers);
  return gpu;
}

}  // namespace

Result<Source> Source::Open(const rmclient::DevicePaths& paths) {
  CGPU_ASSIGN_OR_RETURN(auto client, rmclient::Client::Open(paths));
  CGPU_ASSIGN_OR_RETURN(auto gpus, rmclient::OpenGpus(client));
  Source source(std::move(client), std::move(gpus));
  for (const rmclient::Gpu& from : source.opened_) {
    source.fixed_.push_back(Fixed(source.client_, from));
  }
  return source;
}

Result<Report> Source::Read() {
  const std::vector<ContainerStatus> containers = Containers();
  Report report;
  report.driver_version = client_.driver_version();
  if (const auto cuda = rmclient::CudaVersionOf(report.driver_version)) {
    report.cuda_version = std::to_string(*cuda / 1000) + "." + std::to_string(*cuda % 1000 / 10);
  }
  report.attached = opened_.size();
  for (std::size_t i = 0; i < opened_.size(); ++i) {
    auto gpu = smi::Read(client_, opened_[i], fixed_[i], containers);
    if (gpu.ok()) {
      report.gpus.push_back(*std::move(gpu));
    } else {
      report.silent.push_back("GPU " + std::to_string(fixed_[i].index) + " (" + fixed_[i].bus_id +
                              ") does not answer: " + gpu.error().what);
    }
  }
  return report;
}

}  // namespace cgpu::smi
