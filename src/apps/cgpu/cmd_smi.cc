// cgpu smi: shows what nvidia-smi shows, asked of the driver itself, inside a slice and outside.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "apps/cgpu/smi/gather.h"
#include "apps/cgpu/smi/log.h"
#include "apps/cgpu/smi/monitor.h"
#include "apps/cgpu/smi/query.h"
#include "apps/cgpu/smi/report.h"
#include "cli/command_line.h"
#include "host/node.h"
#include "rm/abi.h"

namespace cgpu {
namespace {

struct Flags {
  std::string node;
  std::optional<std::string> id;
  std::string file;
  std::optional<unsigned> seconds;
  std::optional<unsigned> milliseconds;
  bool list = false;
  bool log = false;
  bool xml = false;
  bool help_gpu = false;
  bool help_processes = false;
  bool version = false;
  std::optional<std::string> parts;
  std::optional<std::string> query_gpu;
  std::optional<std::string> query_processes;
  std::optional<std::string> format;

  // For dmon and pmon.
  std::optional<smi::MonitorKind> monitor;
  std::string groups;
  std::string columns;
  unsigned delay = 1;
  std::optional<unsigned> count;
};

// Returns true where there are signs of a container: of Docker, of podman and others, and of
// Kubernetes.
bool InContainer() {
  return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
         secure_getenv("KUBERNETES_SERVICE_HOST") != nullptr ||
         secure_getenv("container") != nullptr;
}

// Opens the files here, in a slice or outside of one. If there are none here or a name is given,
// opens those of the simulated node that `cgpu run` would take, seen from outside.
Result<smi::Source> OpenSource(const std::string& node_name) {
  if (node_name.empty()) {
    auto here = smi::Source::Open(rmclient::DevicePaths::InFolder("/dev"));
    if (here.ok() || here.error().code != Code::kNotFound) {
      return here;
    }
  }
  const auto node = FindNode(node_name);
  if (!node.ok() && node_name.empty() && node.error().code == Code::kNotFound && InContainer()) {
    return Error{Code::kNotFound, 0, "this container has no slice of a GPU",
                 "start it with one: docker run --runtime=cgpu -e CGPU_MEM=4GiB ..., or in "
                 "Kubernetes with limits of aliyun.com/gpu-mem (docs/reference/containers.md)"};
  }
  if (!node.ok()) {
    return node.error();
  }
  if (node_name.empty() && !node->name.empty()) {
    std::fprintf(stderr, "cgpu: no NVIDIA driver here; this is the simulated node \"%s\"\n",
                 node->name.c_str());
  }
  return smi::Source::Open(PathsOf(*node));
}

std::string Formatted(const std::tm& time, const char* format) {
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &time)};
}

smi::Moment Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  const std::string rest = std::to_string(1000 + milliseconds).substr(1);
  return {Formatted(local, "%a %b %e %H:%M:%S %Y"), Formatted(local, "%Y/%m/%d %H:%M:%S.") + rest,
          Formatted(local, "%Y%m%d"), Formatted(local, "%H:%M:%S")};
}

// Opens the file that the user named, or standard output. It is closed when the program ends.
Result<std::FILE*> OpenOutput(const std::string& path) {
  std::FILE* const file = path.empty() ? stdout : std::fopen(path.c_str(), "we");
  return file != nullptr ? Result<std::FILE*>(file)
                         : ErrnoError(Code::kInvalid, errno, "cannot write " + path);
}

// Writes all of it. Returns false if nobody reads any more.
Result<bool> Write(std::FILE* file, const std::string& text) {
  if (std::fputs(text.c_str(), file) >= 0 && std::fflush(file) == 0) {
    return true;
  }
  return errno == EPIPE ? Result<bool>(false)
                        : ErrnoError(Code::kUnavailable, errno, "cannot write the output");
}

// Returns the text of one reading. `first`: none came before it.
using Renderer =
    std::function<Result<std::string>(const smi::Report&, const smi::Moment&, bool first)>;

Result<Renderer> QueryRenderer(smi::QueryKind kind, const std::string& fields,
                               const std::optional<std::string>& format) {
  if (!format) {
    return Error{Code::kInvalid, 0, "\"--format=\" switch is missing.",
                 "--format=csv[,noheader][,nounits]"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto parsed, smi::ParseQueryFormat(*format));
  // Refuses wrong fields even where there is no GPU.
  CGPU_TRY(smi::RenderQuery(kind, {}, {}, fields, parsed));
  return Renderer([=](const smi::Report& report, const smi::Moment& now, bool first) {
    return smi::RenderQuery(kind, report, now, fields,
                            {.header = parsed.header && first, .units = parsed.units});
  });
}

Result<Renderer> MonitorRenderer(const Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(const auto options,
                        smi::ParseMonitor(*flags.monitor, flags.groups, flags.columns));
  return Renderer([options](const smi::Report& report, const smi::Moment& now, bool first) {
    return Result<std::string>((first ? smi::MonitorHeader(options) : "") +
                               smi::RenderMonitor(options, report, now));
  });
}

Result<Renderer> RendererFor(const Flags& flags) {
  if (flags.monitor) {
    return MonitorRenderer(flags);
  }
  if (flags.query_gpu) {
    return QueryRenderer(smi::QueryKind::kGpus, *flags.query_gpu, flags.format);
  }
  if (flags.query_processes) {
    return QueryRenderer(smi::QueryKind::kProcesses, *flags.query_processes, flags.format);
  }
  smi::Parts parts;
  if (flags.parts) {
    CGPU_ASSIGN_OR_RETURN(parts, smi::ParseParts(*flags.parts));
  }
  return Renderer([=](const smi::Report& report, const smi::Moment& now, bool /*first*/) {
    return Result<std::string>(flags.list  ? smi::RenderList(report)
                               : flags.xml ? smi::RenderXml(report, now, parts)
                               : flags.log ? smi::RenderLog(report, now, parts)
                                           : smi::RenderTable(report, now, CGPU_VERSION));
  });
}

// Returns the pause between two readings; none: there is one reading alone.
std::optional<std::chrono::milliseconds> Pause(const Flags& flags) {
  if (flags.monitor) {
    return std::chrono::seconds(flags.delay);
  }
  if (flags.seconds) {
    return std::chrono::seconds(*flags.seconds);
  }
  return flags.milliseconds ? std::optional(std::chrono::milliseconds(*flags.milliseconds))
                            : std::nullopt;
}

Result<smi::Report> ReadChosen(smi::Source& source, const std::optional<std::string>& id) {
  CGPU_ASSIGN_OR_RETURN(auto report, source.Read());
  if (report.gpus.empty() && !report.silent.empty()) {
    return Error{Code::kUnavailable, 0, report.silent.front(), "see `dmesg`"};
  }
  if (report.gpus.empty()) {
    return Error{
        Code::kNotFound, 0, "No devices were found: the driver shows no GPU here",
        "in a container, ask for GPUs when it starts (CGPU_MEM); on the host, see `dmesg`"};
  }
  CGPU_TRY(id ? smi::Select(report, *id) : Result<>());
  return report;
}

Result<int> ShowVersion(const Flags& flags) {
  auto source = OpenSource(flags.node);
  const auto report = source.ok() ? source->Read() : Result<smi::Report>(source.error());
  const std::string driver = report.ok() ? report->driver_version : "N/A";
  const std::string cuda =
      report.ok() && !report->cuda_version.empty() ? report->cuda_version : "N/A";
  std::printf("cgpu smi version    : %s\nDRIVER version      : %s\nCUDA Version        : %s\n",
              CGPU_VERSION, driver.c_str(), cuda.c_str());
  return 0;
}

Result<int> Smi(const Flags& flags) {
  if (flags.version) {
    return ShowVersion(flags);
  }
  if (flags.help_gpu || flags.help_processes) {
    const std::string text =
        smi::QueryHelp(flags.help_gpu ? smi::QueryKind::kGpus : smi::QueryKind::kProcesses);
    return std::fputs(text.c_str(), stdout) < 0 ? kOwnError : 0;
  }
  CGPU_ASSIGN_OR_RETURN(const auto render, RendererFor(flags));
  CGPU_ASSIGN_OR_RETURN(auto source, OpenSource(flags.node));
  CGPU_ASSIGN_OR_RETURN(auto report, ReadChosen(source, flags.id));
  CGPU_ASSIGN_OR_RETURN(std::FILE* const output, OpenOutput(flags.file));
  if (const std::string notice = rm::NotCompared(report.driver_version); !notice.empty()) {
    std::fprintf(stderr, "cgpu: %s\n", notice.c_str());
  }
  const auto pause = Pause(flags);
  auto next = std::chrono::steady_clock::now();
  std::set<std::string> told;
  for (unsigned shown = 1;; ++shown) {
    for (const std::string& sentence : report.silent) {
      if (told.insert(sentence).second) {
        std::fprintf(stderr, "cgpu: %s\n", sentence.c_str());
      }
    }
    CGPU_ASSIGN_OR_RETURN(const auto text, render(report, Now(), shown == 1));
    CGPU_ASSIGN_OR_RETURN(const bool read, Write(output, text));
    if (!pause || !read || flags.count == shown) {
      return 0;
    }
    next += *pause;
    std::this_thread::sleep_until(next);
    CGPU_ASSIGN_OR_RETURN(report, ReadChosen(source, flags.id));
  }
}

constexpr char kIdHelp[] = "Only these GPUs: indices, UUIDs or PCI addresses, separated by commas";
constexpr char kNodeHelp[] = "A simulated node instead of the GPUs seen here";
constexpr unsigned kLongest = 86'400;  // seconds

void AddMonitor(const cli::Command& smi, const std::shared_ptr<Flags>& flags, const char* name,
                smi::MonitorKind kind, const char* about, const char* groups) {
  const cli::Command command = smi.AddCommand(name, about);
  command.AddOption("-s,--select", flags->groups, groups).Value("LETTERS");
  command.AddOption("-d,--delay", flags->delay, "Seconds between two readings")
      .Between(std::uint64_t{1}, kLongest)
      .ShowDefault();
  command.AddOption("-c,--count", flags->count, "So many readings; without, until it is ended")
      .Between(std::uint64_t{1}, std::uint64_t{1'000'000'000});
  command.AddOption("-o,--options", flags->columns, "Also the date (D) and the time (T)")
      .Value("LETTERS");
  command.AddText("-i,--id", flags->id, kIdHelp).Value("IDS");
  command.AddOption("-f,--filename", flags->file, "Write to this file").Value("FILE");
  command.AddOption("--node", flags->node, kNodeHelp).Value("NODE");
  command.OnParsed([flags, kind] { flags->monitor = kind; });
}

void AddQueries(const cli::Command& command, Flags& flags) {
  command.AddFlag("-L,--list-gpus", flags.list, "One line per GPU");
  const cli::Option log = command.AddFlag("-q,--query", flags.log, "All that is known");
  log.Excludes("--list-gpus");
  command.AddText("-d,--display", flags.parts, "With -q: these parts alone, as MEMORY,UTILIZATION")
      .Value("PARTS")
      .Needs(log);
  command.AddFlag("-x,--xml-format", flags.xml, "With -q: as XML").Needs(log);
  command
      .AddText("--query-gpu", flags.query_gpu,
               "These fields of each GPU, separated by commas; with --format")
      .Value("FIELDS")
      .Excludes("--query")
      .Excludes("--list-gpus");
  command
      .AddText("--query-compute-apps", flags.query_processes,
               "These fields of each process that holds memory of a GPU; with --format")
      .Value("FIELDS")
      .Excludes("--query")
      .Excludes("--list-gpus")
      .Excludes("--query-gpu");
  command.AddText("--format", flags.format, "Form of a query: csv[,noheader][,nounits]")
      .Value("csv|csv,noheader|csv,noheader,nounits");
  command.AddFlag("--version", flags.version, "The versions of this program, the driver and CUDA");
  command.AddFlag("--help-query-gpu", flags.help_gpu, "The fields of --query-gpu");
  command.AddFlag("--help-query-compute-apps", flags.help_processes,
                  "The fields of --query-compute-apps");
}

}  // namespace

std::vector<std::string> SmiWords(std::vector<std::string> words) {
  constexpr char kUsualSeconds[] = "5";  // our choice: no document of nvidia-smi says
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-lms") {
      words[i] = "--loop-ms";
    } else if (words[i] == "-l" && (i + 1 == words.size() || words[i + 1].starts_with('-'))) {
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, kUsualSeconds);
    }
  }
  return words;
}

void AddSmi(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command =
      app.AddCommand("smi", "Show the GPUs, as nvidia-smi does: in a slice, the slice");
  AddQueries(command, *flags);
  command.AddText("-i,--id", flags->id, kIdHelp).Value("IDS");
  command.AddOption("-f,--filename", flags->file, "Write to this file").Value("FILE");
  command.AddOption("-l,--loop", flags->seconds, "Again and again, with so many seconds between")
      .Between(std::uint64_t{1}, kLongest);
  command
      .AddOption("--loop-ms", flags->milliseconds, "The same, in milliseconds; nvidia-smi's -lms")
      .Between(std::uint64_t{1}, std::uint64_t{1000} * kLongest)
      .Excludes("--loop");
  command.AddOption("--node", flags->node, kNodeHelp).Value("NODE");
  AddMonitor(command, flags, "dmon", smi::MonitorKind::kGpus, "A line per GPU, again and again",
             "Columns: power and temperature (p), use (u), clocks (c), violations (v), memory (m), "
             "errors (e), PCIe (t); usually puc");
  AddMonitor(command, flags, "pmon", smi::MonitorKind::kProcesses,
             "A line per process, again and again", "Columns: use (u), memory (m); usually u");
  OnParsed(command, status, [flags]() -> Result<int> {
    if (flags->format && !flags->query_gpu && !flags->query_processes) {
      return Error{Code::kInvalid, 0, "--format is for a query",
                   "add --query-gpu or --query-compute-apps; see `cgpu smi --help`"};
    }
    return Smi(*flags);
  });
}

}  // namespace cgpu
