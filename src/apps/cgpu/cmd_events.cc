// cgpu events: tells what happened on this host.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/rfc3339.h"
#include "cli/command_line.h"
#include "host/engine_names.h"
#include "host/event_ring.h"
#include "host/registry.h"

namespace cgpu {
namespace {

struct Flags {
  std::string since;
  EventFilter filter;
  std::uint64_t last = 0;
  bool follow = false;
  bool json = false;
};

void Print(const std::vector<Event>& events, bool json) {
  for (const Event& event : events) {
    const std::string line =
        json ? EncodeEvent(event) : Rfc3339Ms(event.time_ms) + "  " + SentenceOf(event) + "\n";
    (void)std::fputs(line.c_str(), stdout);
  }
  (void)std::fflush(stdout);
}

// Returns the id of the running container that is called so by its engine; empty: there is none, or
// the caller may not look.
std::string IdOf(const std::string& container) {
  const auto registry = Registry::Open();
  const auto live = registry.ok() ? registry->Live() : registry.error();
  const auto found = live.ok() ? FindNamed(container, WithEngineNames(*live)) : live.error();
  return found.ok() ? found->id : std::string();
}

Result<int> Run(Flags& flags) {
  if (!flags.since.empty()) {
    CGPU_ASSIGN_OR_RETURN(const auto age, ParseAge(flags.since));
    flags.filter.since_ms = NowMs() - std::min(NowMs(), age);
  }
  CGPU_ASSIGN_OR_RETURN(auto reader, EventReader::Open());
  if (flags.follow) {
    CGPU_TRY(reader.Watch());
  }
  const auto more = [&]() -> Result<std::vector<Event>> {
    CGPU_ASSIGN_OR_RETURN(auto events, reader.More());
    if (!flags.filter.container.empty() && !events.empty()) {
      flags.filter.id = IdOf(flags.filter.container);
    }
    std::erase_if(events, [&](const Event& event) { return !Matches(flags.filter, event); });
    return events;
  };
  CGPU_ASSIGN_OR_RETURN(auto events, more());
  if (flags.last != 0 && events.size() > flags.last) {
    events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(flags.last));
  }
  Print(events, flags.json);
  while (flags.follow && std::ferror(stdout) == 0) {
    reader.Wait();
    CGPU_ASSIGN_OR_RETURN(events, more());
    Print(events, flags.json);
  }
  return 0;
}

}  // namespace

void AddEvents(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "events",
      "Tell what happened on this host: containers that started, were refused something, changed "
      "or ended; root, and members of cgpu's group");
  command.AddOption("--since", flags->since, "Only the last 90s, 15m, 1h, 7d");
  command
      .AddOption("--container", flags->filter.container,
                 "Only of this container: its name, also the engine's while it runs, or the "
                 "beginning of its id")
      .Value("CONTAINER");
  command.AddOption("--gpu", flags->filter.gpu, "Only of this GPU: its index, or UUID");
  command.AddOption("-n,--last", flags->last, "Only the last so many");
  command.AddFlag("-f,--follow", flags->follow, "Go on with those that come");
  command.AddFlag("--json", flags->json, "As JSON, a line each");
  OnParsed(command, status, [flags] { return Run(*flags); });
}

}  // namespace cgpu
