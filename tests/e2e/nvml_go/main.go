// Shows the GPUs by go-nvml, in JSON: a look for each line of its standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type card struct {
	Name        string            `json:"name"`
	UUID        string            `json:"uuid"`
	Bus         string            `json:"bus"`
	Memory      []uint64          `json:"memory"`
	MemoryV2    []uint64          `json:"memory_v2"`
	Bar1        []uint64          `json:"bar1"`
	Processes   map[string]uint64 `json:"processes"`
	Use         any               `json:"use"`
	Temperature string            `json:"temperature"`
}

type look struct {
	Driver  string `json:"driver"`
	Workers []int  `json:"workers"`
	Cards   []card `json:"cards"`
}

func must(result nvml.Return) {
	if result != nvml.SUCCESS {
		fmt.Fprintln(os.Stderr, nvml.ErrorString(result))
		os.Exit(1)
	}
}

// Text that NVML fills from arrays of characters.
func text[T ~int8 | ~uint8](characters []T) string {
	var built strings.Builder
	for _, character := range characters {
		if character == 0 {
			break
		}
		built.WriteByte(byte(character))
	}
	return built.String()
}

func workers() []int {
	found := []int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		name, _ := os.ReadFile("/proc/" + entry.Name() + "/comm")
		if err == nil && strings.TrimSpace(string(name)) == "cgpu-burn" {
			found = append(found, pid)
		}
	}
	sort.Ints(found)
	return found
}

func readCard(index int) card {
	device, result := nvml.DeviceGetHandleByIndex(index)
	must(result)
	var seen card
	seen.Name, result = device.GetName()
	must(result)
	seen.UUID, result = device.GetUUID()
	must(result)
	pci, result := device.GetPciInfo()
	must(result)
	seen.Bus = text(pci.BusId[:])
	memory, result := device.GetMemoryInfo()
	must(result)
	seen.Memory = []uint64{memory.Total, memory.Free, memory.Used}
	newer, result := device.GetMemoryInfo_v2()
	must(result)
	seen.MemoryV2 = []uint64{newer.Total, newer.Free, newer.Used, newer.Reserved}
	bar1, result := device.GetBAR1MemoryInfo()
	must(result)
	seen.Bar1 = []uint64{bar1.Bar1Total, bar1.Bar1Free, bar1.Bar1Used}
	processes, result := device.GetComputeRunningProcesses()
	must(result)
	seen.Processes = map[string]uint64{}
	for _, process := range processes {
		seen.Processes[strconv.Itoa(int(process.Pid))] = process.UsedGpuMemory
	}
	if use, result := device.GetUtilizationRates(); result == nvml.SUCCESS {
		seen.Use = use.Gpu
	} else {
		seen.Use = nvml.ErrorString(result)
	}
	_, result = device.GetTemperature(nvml.TEMPERATURE_GPU)
	seen.Temperature = nvml.ErrorString(result)
	return seen
}

func main() {
	must(nvml.Init())
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		driver, result := nvml.SystemGetDriverVersion()
		must(result)
		count, result := nvml.DeviceGetCount()
		must(result)
		seen := look{Driver: driver, Workers: workers()}
		for index := 0; index < count; index++ {
			seen.Cards = append(seen.Cards, readCard(index))
		}
		line, _ := json.Marshal(seen)
		fmt.Println("look " + string(line))
	}
	must(nvml.Shutdown())
}
