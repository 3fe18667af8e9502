#include "doctor/installation.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/reading.h"
#include "doctor/value.h"
#include "host/admin.h"
#include "host/node.h"
#include "host/saved_settings.h"
#include "host/shim_process.h"
#include "install/engines.h"
#include "os/mounts.h"

namespace cgpu::doctor {
namespace {

constexpr const char* kRegistry = "/run/cgpu";
constexpr std::size_t kShortestToken = 16;  // page/access.h
constexpr std::string_view kReplaced = " (deleted)";

// Returns a file's text, or nothing where there is no such file or nobody may read it.
Result<std::string> Content(const Facts& facts, const std::string& path) {
  auto text = facts.Read(path);
  return text.ok() || text.error().code != Code::kNotFound ? text : std::string();
}

// Tells why a file could not be judged: nobody may read it, or it is wrong.
Finding Judged(const std::string& path, const Result<std::string>& text, const Error* wrong) {
  if (!text.ok()) {
    return Skipped(text.error().what);
  }
  return wrong == nullptr ? Right(path + " is understood") : Wrong(path + ": " + wrong->what);
}

bool Lives(const Facts& facts, const std::string& socket) {
  const int error = facts.Connect(socket);
  return error != ENOENT && error != ECONNREFUSED;
}

// Returns the ids in the registry's names "ID.KIND".
std::vector<std::string> IdsWith(const Facts& facts, const std::string& kind) {
  std::vector<std::string> ids;
  for (const std::string& name : NamesIn(facts, kRegistry)) {
    if (name.ends_with(kind)) {
      ids.push_back(name.substr(0, name.size() - kind.size()));
    }
  }
  return ids;
}

// Judges the processes of a program of ours: whether the file that they run is still the one on the
// disk.
Finding Current(const Facts& facts, const std::string& program) {
  std::vector<std::string> old;
  for (const Process& process : Processes(facts)) {
    if (process.program.ends_with("/" + program + std::string(kReplaced))) {
      old.push_back(process.number);
    }
  }
  return old.empty() ? Right("no process runs an earlier " + program)
                     : Wrong("an earlier " + program + " runs, as process " + Joined(old));
}

std::string VersionOf(const Facts& facts, const std::string& program) {
  const auto version = FirstVersion(OutputOrNothing(facts, {program, "--version"}));
  return version ? Written(*version) : std::string();
}

// Returns the fields of a line of /etc/passwd and files like it.
std::vector<std::string> FieldsOf(const std::string& line) {
  std::vector<std::string> fields{""};
  for (const char c : line) {
    if (c == ':') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

unsigned long Number(const std::string& text) {
  unsigned long number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns whether a range of user ids has one of a shim.
bool HasShimUsers(unsigned long first, unsigned long count) {
  return first < kShimUidFirst + kShimUidCount && first + count > kShimUidFirst;
}

Finding Unread() {
  return Skipped("see cgpu-settings");
}

}  // namespace

Result<Settings> SettingsOf(const Facts& facts) {
  CGPU_ASSIGN_OR_RETURN(const auto text, Content(facts, kSettingsFile));
  return ParseSettings(text);
}

Settings SettingsOrDefaults(const Facts& facts) {
  return SettingsOf(facts).value_or(Settings());
}

Finding SettingsRead(const Facts& facts) {
  const auto text = Content(facts, kSettingsFile);
  const auto settings = ParseSettings(text.value_or(""));
  return Judged(kSettingsFile, text, settings.ok() ? nullptr : &settings.error());
}

Finding SavedSettingsRead(const Facts& facts) {
  if (!Exists(facts, kSavedFile)) {
    return Right("`cgpu policy` has saved nothing");
  }
  const auto text = Content(facts, kSavedFile);
  const auto saved = DecodeSaved(text.value_or(""));
  return Judged(kSavedFile, text, saved.ok() ? nullptr : &saved.error());
}

Finding SettingsNode(const Facts& facts) {
  const auto settings = SettingsOf(facts);
  if (!settings.ok()) {
    return Unread();
  }
  if (settings->node.empty()) {
    return Right("containers run on the host's driver, or on the simulated node \"default\"");
  }
  return Exists(facts, std::string(kSimulatedNodes) + "/" + settings->node + "/node.json")
             ? Right("the simulated node \"" + settings->node + "\" is here")
             : Wrong("the settings name the simulated node \"" + settings->node +
                     "\", and there is none");
}

Finding ProgramsThere(const Facts& facts) {
  std::vector<std::string> missing;
  for (const char* const name : {"cgpud", "cgpu-runtime", "cgpu-shim"}) {
    if (!FindProgram(facts, Beside(facts, name))) {
      missing.push_back(Beside(facts, name));
    }
  }
  return missing.empty() ? Right("cgpud, cgpu-runtime and cgpu-shim are beside cgpu")
                         : Wrong("there is no program " + Joined(missing));
}

Finding ProgramsModes(const Facts& facts) {
  std::vector<std::string> open;
  for (const char* const name : {"", "cgpu", "cgpud", "cgpu-runtime", "cgpu-shim"}) {
    const std::string path = Beside(facts, name);
    const auto file = facts.Look(path);
    if (file.ok() && (file->mode & 02U) != 0 && (file->mode & 01000U) == 0) {
      open.push_back(path);
    }
  }
  return open.empty() ? Right("not everyone can change cgpu's programs")
                      : Wrong("everyone may write " + Joined(open));
}

Finding ProgramsVersions(const Facts& facts) {
  const auto own = FirstVersion(facts.Version());
  std::vector<std::string> others;
  for (const char* const name : {"cgpud", "cgpu-exporter"}) {
    const std::string version = VersionOf(facts, Beside(facts, name));
    if (!version.empty() && own && version != Written(*own)) {
      others.push_back(std::string(name) + " is " + version);
    }
  }
  return others.empty() ? Right("cgpu's programs have the version " + facts.Version())
                        : Wrong("cgpu is " + facts.Version() + ", and " + Joined(others));
}

Finding DaemonRuns(const Facts& facts) {
  const std::string socket = SettingsOrDefaults(facts).socket;
  const int error = facts.Connect(socket);
  if (error == EACCES) {
    return Skipped("only root and members of cgpu's group reach " + socket);
  }
  return error == 0 || error == EAGAIN
             ? Right("cgpud listens at " + socket)
             : Wrong(ErrnoError(Code::kUnavailable, error, "nobody listens at " + socket).what);
}

Finding DaemonCurrent(const Facts& facts) {
  return Current(facts, "cgpud");
}

Finding DaemonUnit(const Facts& facts) {
  if (!Exists(facts, "/run/systemd/system")) {
    return Skipped("systemd does not manage this host");
  }
  const auto output = facts.Run({"systemctl", "is-enabled", "cgpud.service"});
  const std::string word = output.ok() ? Trimmed(output->text) : std::string();
  if (word == "enabled") {
    return Right("systemd starts cgpud");
  }
  return word == "disabled" || word == "masked" ? Wrong("the unit cgpud.service is " + word)
                                                : Skipped("systemd knows no unit cgpud.service");
}

Finding UnitsFailed(const Facts& facts) {
  if (!Exists(facts, "/run/systemd/system")) {
    return Skipped("systemd does not manage this host");
  }
  std::vector<std::string> failed;
  for (const char* const unit : {"cgpud.service", "cgpu-exporter.service"}) {
    const auto output = facts.Run({"systemctl", "is-failed", unit});
    if (output.ok() && Trimmed(output->text) == "failed") {
      failed.emplace_back(unit);
    }
  }
  return failed.empty() ? Right("no unit of cgpu has failed")
                        : Wrong("these units have failed: " + Joined(failed));
}

Finding GroupThere(const Facts& facts) {
  const std::string group = SettingsOrDefaults(facts).group;
  for (const std::string& line : LinesOf(TextOf(facts, "/etc/group"))) {
    if (line.starts_with(group + ":")) {
      return Right("the group " + group + " is here");
    }
  }
  return Wrong("there is no group " + group);
}

Finding ShimsCurrent(const Facts& facts) {
  return Current(facts, "cgpu-shim");
}

Finding ShimsAnswer(const Facts& facts) {
  const auto list = ListIn(facts.Run({facts.Program(), "ps", "--json"}), "cgpu ps");
  if (!list.ok()) {
    return Skipped(list.error().what);
  }
  std::vector<std::string> silent;
  for (const Value& container : list->Items()) {
    if (container["state"].Text() == kUnresponsive) {
      silent.push_back(container["id"].Text());
    }
  }
  return silent.empty() ? Right("the shims of all containers answer")
                        : Wrong("the shims of these give no answer: " + Joined(silent));
}

// Lines of `cgpu ps -v`, and what cgpud's log says of refused calls, have "control-NUMBER (SIZE
// bytes): SENTENCE" in them, with a sentence of boundary/reasons.h. The log has those of containers
// that have ended, such as one whose program did not start.
Finding FirmwareRefused(const Facts& facts) {
  constexpr std::string_view kName = "control-0x";
  constexpr std::string_view kSentence = " bytes): a control of the GPU's firmware ";
  const auto output = facts.Run({facts.Program(), "ps", "-v"});
  if (!output.ok() || output->status != 0) {
    return Skipped("cgpu ps does not tell what was refused");
  }
  const std::string log =
      OutputOrNothing(facts, {"journalctl", "--quiet", "--no-pager", "--output=cat",
                              "--unit=cgpud.service", "--since=-24h"});
  std::vector<std::string> refused;
  for (const std::string& line : LinesOf(output->text + "\n" + log)) {
    const std::size_t name = line.find(kName);
    const std::size_t size = name == std::string::npos ? name : line.find(" (", name);
    const std::size_t sentence = size == std::string::npos ? size : line.find(kSentence, size);
    if (sentence == std::string::npos) {
      continue;
    }
    const std::size_t number = name + kName.size() - 2;  // from "0x" on
    const std::string control =
        line.substr(number, size - number) + "/" + line.substr(size + 2, sentence - size - 2);
    if (!Has(refused, control)) {
      refused.push_back(control);
    }
  }
  return refused.empty()
             ? Right("no control of a GPU's firmware was refused that cgpu may not know")
             : Wrong("refused, as number/bytes: " + Joined(refused));
}

Finding FirmwareAllowed(const Facts& facts) {
  const auto settings = SettingsOf(facts);
  if (!settings.ok()) {
    return Unread();
  }
  return settings->firmware.empty()
             ? Right("slices send a GPU's firmware what cgpu lists, and nothing else")
             : Wrong("slices may send a GPU's firmware " +
                     std::to_string(settings->firmware.size()) +
                     " controls that cgpu does not list (`firmware` in the settings)");
}

Finding ShimUsers(const Facts& facts) {
  std::vector<std::string> users;
  for (const std::string& line : LinesOf(TextOf(facts, "/etc/passwd"))) {
    const auto fields = FieldsOf(line);
    if (fields.size() > 2 && HasShimUsers(Number(fields[2]), 1)) {
      users.push_back(fields[0]);
    }
  }
  for (const std::string& line : LinesOf(TextOf(facts, "/etc/subuid"))) {
    const auto fields = FieldsOf(line);
    if (fields.size() > 2 && HasShimUsers(Number(fields[1]), Number(fields[2]))) {
      users.push_back(fields[0] + " (/etc/subuid)");
    }
  }
  return users.empty() ? Right("no user has the number of a shim")
                       : Wrong("user ids of shims belong to " + Joined(users));
}

Finding RegistryMode(const Facts& facts) {
  const auto folder = facts.Look(kRegistry);
  if (!folder.ok()) {
    return Skipped("there is no /run/cgpu");
  }
  return folder->user == 0 && (folder->mode & 022U) == 0
             ? Right("only root can write to /run/cgpu")
             : Wrong("others than root can write to /run/cgpu");
}

Finding RegistryDead(const Facts& facts) {
  std::vector<std::string> dead;
  for (const std::string& id : IdsWith(facts, ".grant")) {
    if (!Lives(facts, std::string(kRegistry) + "/" + id + ".sock")) {
      dead.push_back(id);
    }
  }
  return dead.empty() ? Right("each reservation has a shim")
                      : Wrong("there are reservations without a shim: " + Joined(dead));
}

Finding RegistryStrays(const Facts& facts) {
  const std::vector<std::string> grants = IdsWith(facts, ".grant");
  std::vector<std::string> strays = IdsWith(facts, ".new");
  for (const std::string kind : {".sock", ".agent"}) {
    for (const std::string& id : IdsWith(facts, kind)) {
      if (id != "cgpud" && !Has(grants, id)) {
        strays.push_back(id + kind);
      }
    }
  }
  return strays.empty() ? Right("each file in /run/cgpu belongs to a container")
                        : Wrong("files in /run/cgpu belong to no container: " + Joined(strays));
}

Finding ExporterAddress(const Facts& facts) {
  const auto settings = SettingsOf(facts);
  if (!settings.ok()) {
    return Unread();
  }
  const std::string& address = settings->exporter_listen;
  const bool here = address.starts_with("127.") || address.starts_with("[::1]");
  return here || !settings->exporter_token_file.empty()
             ? Right("cgpu-exporter shows metrics to this host, or to those that have a token")
             : Wrong("cgpu-exporter is to listen at " + address + ", and no token is asked for");
}

Finding ExporterToken(const Facts& facts) {
  const auto settings = SettingsOf(facts);
  if (!settings.ok()) {
    return Unread();
  }
  const std::string& path = settings->exporter_token_file;
  if (path.empty()) {
    return Right("no token is asked for");
  }
  if (settings->kubernetes) {
    return Skipped("the token is in the pod of cgpu-exporter");
  }
  const auto file = facts.Look(path);
  const auto text = facts.Read(path);
  if (!file.ok() || !text.ok()) {
    return Wrong("the token's file " + path + " cannot be read");
  }
  if ((file->mode & 04U) != 0) {
    return Wrong("everyone may read the token in " + path);
  }
  return text->substr(0, text->find('\n')).size() < kShortestToken
             ? Wrong("the token in " + path + " has less than 16 characters")
             : Right("the token's file " + path + " is in order");
}

Finding ExporterTls(const Facts& facts) {
  const auto settings = SettingsOf(facts);
  if (!settings.ok()) {
    return Unread();
  }
  const std::string& certificate = settings->exporter_tls_cert;
  const std::string& key = settings->exporter_tls_key;
  for (const std::string& path : {certificate, key}) {
    if (!path.empty() && !Exists(facts, path)) {
      return Wrong("there is no file " + path + ", which the settings name");
    }
  }
  return Right(key.empty() ? "cgpu-exporter speaks no TLS" : "the files for TLS are here");
}

Finding LeftoverBackup(const Facts& facts) {
  const std::string path(install::FactsOf(install::Engine::kDocker).file);
  if (!Exists(facts, path + ".before-cgpu")) {
    return Right("no backup of a configuration is left");
  }
  const auto text = Content(facts, path);
  const auto entry = install::FindEntry(install::Engine::kDocker, text.value_or(""));
  return entry.ok() && !entry->path.has_value()
             ? Wrong(path + ".before-cgpu is here, and " + path + " has no runtime cgpu")
             : Right(path + ".before-cgpu belongs to the runtime cgpu in " + path);
}

Finding LeftoverScopes(const Facts& facts) {
  constexpr std::string_view kBegin = "cgpu-shim-";
  if (!Exists(facts, "/run/systemd/system")) {
    return Skipped("systemd does not manage this host");
  }
  const std::vector<std::string> grants = IdsWith(facts, ".grant");
  std::vector<std::string> left;
  for (const std::string& line :
       LinesOf(OutputOrNothing(facts, {"systemctl", "list-units", "--all", "--plain", "--no-legend",
                                       "cgpu-shim-*.scope"}))) {
    const std::string unit = Trimmed(line.substr(0, line.find(' ')));
    const std::string id = unit.starts_with(kBegin)
                               ? unit.substr(kBegin.size(), unit.find('.') - kBegin.size())
                               : std::string();
    if (!id.empty() && !Has(grants, id)) {
      left.push_back(unit);
    }
  }
  return left.empty() ? Right("each shim's scope belongs to a container")
                      : Wrong("scopes belong to no container: " + Joined(left));
}

Finding LeftoverMounts(const Facts& facts) {
  std::vector<std::string> left;
  for (const MountEntry& mount : ParseMounts(TextOf(facts, "/proc/self/mountinfo") + "\n")) {
    const std::string folder = mount.point.substr(0, mount.point.rfind('/'));
    if (mount.type == "fuse.cgpu-sim" && mount.point.ends_with("/mnt") &&
        !Lives(facts, folder + "/control.sock")) {
      left.push_back(mount.point);
    }
  }
  return left.empty()
             ? Right("no mount of a simulated node is left")
             : Wrong("mounts are left of simulated nodes that have ended: " + Joined(left));
}

}  // namespace cgpu::doctor
