"""Figures that others have published about their isolation. Each row was read at its source on READ; nothing of it
was measured by this program. `beside`: the figure of ours that measures the same, if one does."""

READ = "2026-11-26"

_PLUGIN = ("NVIDIA/k8s-device-plugin, README", "https://github.com/NVIDIA/k8s-device-plugin/blob/v0.17.1/README.md")
_BENCH = ("GPU-Virt-Bench, README", "https://github.com/BudEcosystem/GPU-Virt-Bench")
_DETAILS = ("GPU-Virt-Bench, DETAILED_METRICS_COMPARISON.md",
            "https://github.com/BudEcosystem/GPU-Virt-Bench/blob/main/benchmarks/DETAILED_METRICS_COMPARISON.md")
_LAB = ("AI Factory Ops Lab, HAMi isolation validation",
        "https://ld-singh.github.io/ai-factory-ops-lab/portfolio-lab/06-validation-reports/hami-isolation-validation/")
_CGPU = ("Alibaba Cloud, What is the cGPU service", "https://alibabacloud.com/help/en/elastic-gpu-service/latest/what-is-the-cgpu-service")
_FORUM = ("NVIDIA developer forums, thread 238139",
          "https://forums.developer.nvidia.com/t/mps-error-containment-cant-able-to-create-new-process/238139")


def _row(system, what, value, source, date, beside=None):
    return {"system": system, "what": what, "value": value, "source": source[0], "link": source[1],
            "published": date, "read": READ, "beside": beside}


ROWS = [
    _row("NVIDIA time-slicing", "Memory isolation", "none: each workload has access to the GPU's memory", _PLUGIN,
         "v0.17.1", "memory.over"),
    _row("NVIDIA time-slicing", "Faults", "one fault domain: if one workload crashes, all do", _PLUGIN, "v0.17.1",
         "faults.neighbour_outlived"),
    _row("NVIDIA time-slicing", "Shares", "an equal share for each process, whatever a container asked for", _PLUGIN,
         "v0.17.1", "shares.weight_worst"),
    _row("NVIDIA MPS by the device plugin", "Memory limit", "an equal fraction for each client; called experimental",
         _PLUGIN, "v0.17.1", "memory.over"),
    _row("NVIDIA MPS", "Faults", "a fatal exception of one client reaches all clients on that GPU (an A30)", _FORUM,
         "undated", "faults.neighbour_outlived"),
    _row("HAMi-core", "Memory limit accuracy", "91.46 %, by the makers of BUD-FCSP", _BENCH, "2025-11", "memory.reached"),
    _row("BUD-FCSP", "Memory limit accuracy", "99.89 %, by its makers", _BENCH, "2025-11", "memory.reached"),
    _row("HAMi-core", "Noisy neighbour, throughput lost", "14.38 % with a slice of 25 %, by the makers of BUD-FCSP", _BENCH,
         "2025-11"),
    _row("BUD-FCSP", "Noisy neighbour, throughput lost", "4.74 % with a slice of 25 %, by its makers", _BENCH, "2025-11"),
    _row("No sharing layer; HAMi-core; BUD-FCSP", "Noisy neighbour, throughput lost",
         "20.16 %; 13.73 %; 18.25 % (mean, RTX 3080)", _DETAILS, "2025-11-29"),
    _row("No sharing layer; HAMi-core; BUD-FCSP", "Compute kept beside other tenants",
         "84.76 %; 83.45 %; 84.00 % (mean, RTX 3080)", _DETAILS, "2025-11-29"),
    _row("HAMi 2.9.0", "Memory limit of 8000 MiB", "cudaMalloc refused after 7680 MiB (RTX A6000)", _LAB, "2026-06-23",
         "memory.reached"),
    _row("Alibaba cGPU", "Smallest share, unit of memory", "2 % of the compute time; memory at the MB level", _CGPU,
         "undated"),
]
