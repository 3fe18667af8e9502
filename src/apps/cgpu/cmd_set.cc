// cgpu set: change what a running container may use.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/cgpu/commands.h"
#include "launcher/admin.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

struct Flags {
  MemoryChange change;
  std::string memory;
};

int Set(Flags& flags) {
  const auto memory = ParseSize(flags.memory);
  if (!memory.ok()) {
    return Fail(memory.error());
  }
  flags.change.memory = memory.value();
  const auto registry = Registry::Open();
  if (!registry.ok()) {
    return Fail(registry.error());
  }
  const auto cards = ChangeMemory(registry.value(), flags.change);
  if (!cards.ok()) {
    return Fail(cards.error());
  }
  for (const CardStatus& card : cards.value()) {
    fmt::print("GPU {}: {} MiB\n", card.index, card.limit_bytes / kMib);
    if (card.used_bytes > card.limit_bytes) {
      fmt::print(
          "GPU {}: {} MiB are in use, above the new limit; nothing is taken away, but growth "
          "is stopped until use falls below it, and other containers get what is free then "
          "only after another `cgpu set`\n",
          card.index, (card.used_bytes + kMib - 1) / kMib);
    }
  }
  return 0;
}

}  // namespace

void AddSet(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* const command = app.add_subcommand("set", "Change the limits of a running container");
  command->add_option("ID", flags->change.container, "Id, its unique beginning, or name")
      ->required();
  command->add_option("--mem", flags->memory, "Memory per card: 4096MiB, 4GiB, 4G, 25%")
      ->required();
  command->add_option("--gpu", flags->change.gpu,
                      "The container's own card, from 0, or its UUID (default: all its cards)");
  command->callback([flags, &status] { status = Set(*flags); });
}

}  // namespace cgpu
