// adversary NAME [ARGS...]: one attack on the boundary. See common.h for how it talks.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "common.h"

int main(int argc, char** argv) {
  using namespace cgpu::adversary;
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<Entry> all;
  for (auto* table :
       {CallAttacks,     RaceAttacks,     HandleAttacks,   ReferenceAttacks, ProcessAttacks,
        OutsideAttacks,  FuseAttacks,     ReachAttacks,    ManagedAttacks,   MappingAttacks,
        ExportAttacks,   QueryAttacks,    TransferAttacks, SearchAttacks,    SidecarAttacks,
        NumberAttacks,   SpaceAttacks,    EvasionAttacks,  BombAttacks,      PointerAttacks,
        PhysicalAttacks, FirmwareAttacks, TrickAttacks,    FaultAttacks,     HeavyAttacks,
        SwapAttacks,     FlipAttacks,     AcrossAttacks,   TableAttacks,     ReuseAttacks}) {
    const auto entries = table();
    all.insert(all.end(), entries.begin(), entries.end());
  }
  const char* name = argc > 1 ? argv[1] : "";
  for (const Entry& entry : all) {
    if (std::strcmp(name, entry.name) == 0) {
      return entry.run(std::vector<std::string>(argv + 2, argv + argc));
    }
  }
  (void)std::fprintf(stderr, "usage: adversary NAME [ARGS...]\n");
  for (const Entry& entry : all) {
    (void)std::fprintf(stderr, "  %s %s\n", entry.name, entry.usage);
  }
  return 64;
}
