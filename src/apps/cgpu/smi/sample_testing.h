// A report for the tests of the formats.
#ifndef CGPU_APPS_CGPU_SMI_SAMPLE_TESTING_H_
#define CGPU_APPS_CGPU_SMI_SAMPLE_TESTING_H_

#include <string>

#include "apps/cgpu/smi/report.h"
#include "apps/cgpu/smi/text.h"

namespace cgpu::smi {

inline const Moment kMoment{"Fri Nov 21 15:36:05 2026", "2026/11/21 15:36:05.007", "20261121",
                            "15:36:05"};

// Two V100, of which the second is half busy, and has two processes and a container.
inline Report TwoGpus() {
  Report report;
  report.driver_version = "550.163.01";
  report.cuda_version = "12.4";
  report.attached = 2;
  for (unsigned index = 0; index < 2; ++index) {
    Gpu gpu;
    gpu.index = index;
    gpu.minor = index;
    gpu.uuid = "GPU-0000000" + std::to_string(index);
    gpu.name = "Tesla V100-SXM2-16GB";
    gpu.bus_id = "00000000:0" + std::to_string(4 + index) + ":00.0";
    gpu.memory = {4309 * kMiB, 569 * kMiB, 3740 * kMiB};
    report.gpus.push_back(gpu);
  }
  Gpu& second = report.gpus[1];
  second.use = {50, 7, 0, 0};
  second.bar1 = Memory{256 * kMiB, 2 * kMiB, 254 * kMiB};
  second.compute_mode = "Default";
  second.compute_cap = "7.0";
  second.architecture = "Volta";
  second.bios = "88.00.4F.00.09";
  second.inforom = "G503.0201.00.03";
  second.inforom_oem = "1.1";
  second.inforom_ecc = "5.0";
  second.pstate = "P0";
  second.persistence = true;
  second.mig = false;
  second.ecc = Ecc{true, false, 2, 5};
  second.pci_device = 0x1DB110DE;
  second.pci_subsystem = 0x121210DE;
  second.processes = {{7, "/usr/bin/python3", "C", 569 * kMiB + 1, second.use},
                      {12345, "/a/very/long/path/that/does/not/fit/the/column", "C+G", kMiB, {}}};
  second.containers = {{"d95542eb1e9a", "train", "C", 99, 570 * kMiB, 1024 * kMiB, {40, 5, 0, 0}}};
  return report;
}

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_SAMPLE_TESTING_H_
