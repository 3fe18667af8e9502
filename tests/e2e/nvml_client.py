"""Programs of NVML, each as an unmodified library of others shows it, in JSON: a look for each line of its
standard input. `nvml_client.py LIBRARY`, which is nvidia-ml-py, nvitop or gpustat; `events` waits for
errors of the GPUs instead."""
import json
import os
import subprocess
import sys
import time


def workers():
    """The processes by the name of the load that /proc shows here."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, encoding="utf-8") as file:
                if file.read().strip() == "cgpu-burn":
                    found.append(int(pid))
        except OSError:
            continue
    return sorted(found)


def told(function, *words):
    """Its result, or its error in words."""
    import pynvml
    try:
        return function(*words)
    except pynvml.NVMLError as error:
        return str(error)


def by_pynvml():
    import pynvml as nvml
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        card = told(nvml.nvmlDeviceGetHandleByIndex, index)
        if isinstance(card, str):
            cards.append(card)
            continue
        pci = nvml.nvmlDeviceGetPciInfo(card)
        uuid = nvml.nvmlDeviceGetUUID(card)
        memory = nvml.nvmlDeviceGetMemoryInfo(card)
        newer = nvml.nvmlDeviceGetMemoryInfo(card, version=nvml.nvmlMemory_v2)
        bar1 = nvml.nvmlDeviceGetBAR1MemoryInfo(card)
        same = [nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(uuid)),
                nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)),
                nvml.nvmlDeviceGetIndex(card)]
        rates = told(nvml.nvmlDeviceGetUtilizationRates, card)
        by_process = told(nvml.nvmlDeviceGetProcessUtilization, card,
                          int(1e6 * (time.time() - 1)))
        cards.append({
            "name": nvml.nvmlDeviceGetName(card), "uuid": uuid, "bus": pci.busId, "same": same,
            "pci": pci.pciDeviceId, "minor": nvml.nvmlDeviceGetMinorNumber(card),
            "memory": [memory.total, memory.free, memory.used],
            "memory_v2": [newer.total, newer.free, newer.used, newer.reserved],
            "bar1": [bar1.bar1Total, bar1.bar1Free, bar1.bar1Used],
            "processes": {one.pid: one.usedGpuMemory
                          for one in nvml.nvmlDeviceGetComputeRunningProcesses(card)},
            "older": [len(nvml.nvmlDeviceGetComputeRunningProcesses_v2(card)),
                      len(nvml.nvmlDeviceGetGraphicsRunningProcesses(card))],
            "use": rates if isinstance(rates, str) else rates.gpu,
            "use_by_process": by_process if isinstance(by_process, str)
                              else {one.pid: one.smUtil for one in by_process},
            "compute_mode": nvml.nvmlDeviceGetComputeMode(card),
            "persistence": nvml.nvmlDeviceGetPersistenceMode(card),
            "mig": told(nvml.nvmlDeviceGetMigMode, card),
            "capability": nvml.nvmlDeviceGetCudaComputeCapability(card),
            "temperature": told(nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU),
            "power": told(nvml.nvmlDeviceGetPowerUsage, card),
            "clock": told(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM),
            "fan": told(nvml.nvmlDeviceGetFanSpeed, card),
            "ecc": [told(nvml.nvmlDeviceGetEccMode, card),
                    *(told(nvml.nvmlDeviceGetTotalEccErrors, card, kind, nvml.NVML_VOLATILE_ECC)
                      for kind in (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
                                   nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED))]})
    return {"driver": nvml.nvmlSystemGetDriverVersion(), "nvml": nvml.nvmlSystemGetNVMLVersion(),
            "cuda": told(nvml.nvmlSystemGetCudaDriverVersion), "cards": cards}


def by_nvitop():
    import nvitop
    return {"driver": nvitop.Device.driver_version(), "cards": [
        {"name": card.name(), "uuid": card.uuid(), "bus": card.bus_id(),
         "memory": [card.memory_total(), card.memory_free(), card.memory_used()],
         "processes": {pid: one.gpu_memory() for pid, one in card.processes().items()},
         "use": card.gpu_utilization(), "temperature": card.temperature()}
        for card in nvitop.Device.all()]}


def by_gpustat():
    text = subprocess.run([sys.executable, "-m", "gpustat", "--json"], stdout=subprocess.PIPE,
                          check=True, stdin=subprocess.DEVNULL).stdout
    told_by = json.loads(text)
    return {"driver": told_by["driver_version"], "cards": [
        {"name": card["name"], "uuid": card["uuid"], "use": card["utilization.gpu"],
         "memory_mib": [card["memory.total"], card["memory.used"]],
         "processes": {one["pid"]: one["gpu_memory_usage"] for one in card["processes"]},
         "temperature": card["temperature.gpu"]} for card in told_by["gpus"]]}


def events():
    """Each error of a GPU, as it comes, until the GPU is lost."""
    import pynvml as nvml
    nvml.nvmlInit()
    waiting = nvml.nvmlEventSetCreate()
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlDeviceGetSupportedEventTypes(card), waiting)
    print("none: %s" % told(nvml.nvmlEventSetWait_v2, waiting, 0), flush=True)
    while True:
        event = told(nvml.nvmlEventSetWait_v2, waiting, 600000)
        if isinstance(event, str):
            print("end: " + event, flush=True)
            return
        print("event: type %d, card %d, Xid %d" % (event.eventType, nvml.nvmlDeviceGetIndex(event.device),
                                                   event.eventData), flush=True)


def main(library):
    if library == "events":
        events()
        return
    look = {"nvidia-ml-py": by_pynvml, "nvitop": by_nvitop, "gpustat": by_gpustat}[library]
    if library == "nvidia-ml-py":
        import pynvml
        pynvml.nvmlInit()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("look " + json.dumps({"workers": workers(), **look()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
