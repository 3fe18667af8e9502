#include "install/plan.h"

#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/result.h"
#include "install/file_change.h"

namespace cgpu::install {
namespace {

constexpr const char* kDropIn = "cgpu.toml";  // sorts behind names that begin with a number

// A file that has, or gets, the runtime; and the configuration that it belongs to.
struct Target {
  std::string file;
  std::optional<std::string> before;
  std::string empty;                // text that the runtime is added to if there is no file
  std::optional<std::string> like;  // the configuration that imports the file
};

Error In(const std::string& file, Error error) {
  error.what = file + " " + error.what;
  return error;
}

std::string FolderOf(const std::string& file) {
  return file.substr(0, file.rfind('/'));
}

// Returns the pattern as containerd reads it: relative to the folder of the file that imports.
std::string Absolute(const std::string& pattern, const std::string& file) {
  return pattern.starts_with('/') ? pattern : FolderOf(file) + "/" + pattern;
}

// Returns the files of a pattern, whose "*" and the like may be in any part of it.
std::vector<std::string> Matches(const std::string& pattern) {
  const std::size_t star = pattern.find_first_of("*?[");
  if (star == std::string::npos) {
    return {pattern};
  }
  const auto depth =
      std::count(pattern.begin() + static_cast<std::ptrdiff_t>(star), pattern.end(), '/');
  std::vector<std::string> found;
  std::error_code none;
  using Walk = std::filesystem::recursive_directory_iterator;
  Walk at(pattern.substr(0, pattern.rfind('/', star) + 1),
          std::filesystem::directory_options::follow_directory_symlink, none);
  for (; at != Walk(); at.increment(none)) {
    if (fnmatch(pattern.c_str(), at->path().c_str(), FNM_PATHNAME) == 0) {
      found.push_back(at->path());
    }
    if (at.depth() >= depth) {
      at.disable_recursion_pending();
    }
  }
  return found;
}

// Returns cgpu's file in a folder of which all is imported, or nothing.
std::optional<std::string> DropInFor(const std::string& pattern) {
  const std::size_t star = pattern.find_first_of("*?[");
  if (star == std::string::npos || pattern.substr(star) != "*.toml" || pattern[star - 1] != '/') {
    return std::nullopt;
  }
  return pattern.substr(0, star) + kDropIn;
}

Result<Target> ReadTarget(const std::string& path) {
  CGPU_ASSIGN_OR_RETURN(auto file, RealFile(path));
  CGPU_ASSIGN_OR_RETURN(auto before, ReadIfThere(file));
  return Target{std::move(file), std::move(before), {}, {}};
}

// Refuses an import that would hide settings: before containerd 2, what this file says of the CRI
// plugin is lost if an imported one says anything of it.
Result<> RefuseHidden(const Imports& imports, const Target& main) {
  for (const std::string& pattern : imports.patterns) {
    for (const std::string& file : Matches(Absolute(pattern, main.file))) {
      CGPU_ASSIGN_OR_RETURN(const auto text, ReadIfThere(file));
      const auto cri = ConfiguresCri(text.value_or(""));
      if (!cri.ok()) {
        return In(file, cri.error());
      }
      if (*cri && file != main.file) {
        return Error{Code::kConflict, 0,
                     main.file + " imports " + file +
                         ", whose CRI section takes the place of the one in it in containerd 1",
                     "add the runtime there: --config " + file};
      }
    }
  }
  return {};
}

// Returns the file for containerd's runtime: the configuration itself, or cgpu's own in a folder
// that it imports.
Result<Target> ContainerdTarget(Target main) {
  const std::string text = main.before.value_or("");
  const auto entry = FindEntry(Engine::kContainerd, text);
  const auto imports = ImportsOf(text);
  if (!entry.ok() || !imports.ok()) {
    return In(main.file, entry.ok() ? imports.error() : entry.error());
  }
  if (entry->path.has_value()) {
    return main;
  }
  if (!imports->merged) {
    CGPU_TRY(RefuseHidden(*imports, main));
    return main;
  }
  for (const std::string& pattern : imports->patterns) {
    if (const auto file = DropInFor(Absolute(pattern, main.file)); file.has_value()) {
      auto target = ReadTarget(*file);
      const auto empty = EmptyImport(text);
      if (!target.ok() || !empty.ok()) {
        return target.ok() ? empty.error() : target.error();
      }
      target->empty = *empty;
      target->like = text;
      return target;
    }
  }
  return main;
}

Result<std::string> Added(Engine engine, const Target& target, const std::string& text,
                          const std::string& program, bool set_default) {
  auto added = AddEntry(engine, text, program, set_default,
                        target.like.has_value() ? &*target.like : nullptr);
  return added.ok() ? std::move(added) : In(target.file, added.error());
}

// Returns whether the file is what installing makes of `original` (nothing: of no file): nobody has
// changed it since. A default that was set later makes the same text.
bool IsMadeFrom(const std::optional<std::string>& original, Engine engine, const Target& target,
                const Entry& entry) {
  if (!entry.path.has_value()) {
    return false;
  }
  const std::string base = original.value_or(target.empty);
  const auto earlier = FindEntry(engine, base);
  if (!earlier.ok() || earlier->path.has_value()) {
    return false;
  }
  const auto made = Added(engine, target, base, *entry.path, entry.is_default);
  return made.ok() && *made == target.before;
}

// Returns whether to keep a copy of what is there now: yes, unless cgpu itself wrote that.
Result<bool> IsToBeKept(Engine engine, const Target& target) {
  if (!target.before.has_value()) {
    return false;
  }
  const auto entry = FindEntry(engine, *target.before);
  const auto original = ReadIfThere(OriginalOf(target.file));
  if (!entry.ok() || !original.ok()) {
    return entry.ok() ? original.error() : entry.error();
  }
  return !entry->path.has_value() ||
         (!original->has_value() && !IsMadeFrom(std::nullopt, engine, target, *entry));
}

// Returns what the file gets, as text of the engine's configuration.
Result<std::string> Gets(const Request& request, Target target, const std::string& after) {
  if (!target.before.has_value()) {
    return after;
  }
  std::string base;
  if (request.engine == Engine::kContainerd) {
    CGPU_ASSIGN_OR_RETURN(base, EmptyImport(*target.before));
  }
  target.like = target.like.has_value() ? target.like : target.before;
  CGPU_ASSIGN_OR_RETURN(const auto text,
                        Added(request.engine, target, base, request.program, request.set_default));
  return text.substr(std::min(text.find_first_not_of('\n', base.size()), text.size()));
}

Result<> CheckProgram(const std::string& program) {
  struct stat status{};
  if (!program.starts_with('/')) {
    return Error{Code::kInvalid, 0, "\"" + program + "\" is no absolute path",
                 "engines do not look for runtimes in folders"};
  }
  if (stat(program.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      access(program.c_str(), X_OK) != 0) {
    return Error{Code::kNotFound, 0, "there is no program " + program,
                 "--runtime-path says where cgpu-runtime is"};
  }
  return {};
}

Result<Plan> PlanInstall(const Request& request, Target main) {
  CGPU_TRY(CheckProgram(request.program));
  Plan plan;
  const bool containerd = request.engine == Engine::kContainerd;
  if (containerd && DisablesCri(main.before.value_or(""))) {
    plan.notes.push_back(main.file +
                         " disables containerd's CRI plugin (disabled_plugins): until that is "
                         "changed, Kubernetes cannot use this containerd");
  }
  CGPU_ASSIGN_OR_RETURN(auto target, containerd ? ContainerdTarget(std::move(main))
                                                : Result<Target>(std::move(main)));
  CGPU_ASSIGN_OR_RETURN(const auto after,
                        Added(request.engine, target, target.before.value_or(target.empty),
                              request.program, request.set_default));
  if (after == target.before) {
    return plan;
  }
  CGPU_ASSIGN_OR_RETURN(const auto keep, IsToBeKept(request.engine, target));
  CGPU_ASSIGN_OR_RETURN(const auto gets, Gets(request, target, after));
  plan.changes.push_back({target.file, target.before, after, target.file + " gets\n" + gets,
                          keep ? Change::Original::kWrite : Change::Original::kLeave});
  return plan;
}

// Plans the removal of the runtime from one file.
Result<> PlanRemoval(Engine engine, const Target& target, Plan& plan) {
  const auto original = ReadIfThere(OriginalOf(target.file));
  const auto entry = FindEntry(engine, target.before.value_or(""));
  if (!original.ok() || !entry.ok()) {
    return original.ok() ? In(target.file, entry.error()) : original.error();
  }
  if (!entry->path.has_value() && !entry->is_default) {
    if (original->has_value() && *original == target.before) {  // left by a run that was cut off
      plan.changes.push_back({target.file, target.before, target.before,
                              target.file + " is as it was before cgpu\n",
                              Change::Original::kDelete});
    } else if (original->has_value()) {
      plan.notes.push_back(OriginalOf(target.file) + " stays: there is no runtime cgpu in " +
                           target.file + ", and it differs from that");
    }
    return {};
  }
  Change change{target.file, target.before, *original,
                target.file + " becomes what it was before cgpu\n", Change::Original::kDelete};
  if (!IsMadeFrom(*original, engine, target, *entry)) {
    auto rest = RemoveEntry(engine, *target.before, *original);
    if (!rest.ok()) {
      return In(target.file, rest.error());
    }
    change.after = std::move(*rest);
    change.shown =
        target.file + " was changed since: it loses the runtime cgpu and keeps the rest\n";
    if (!original->has_value() && SaysNothing(engine, *change.after)) {
      change.after.reset();
    }
  }
  if (!change.after.has_value()) {
    change.shown = target.file + " goes: nothing but the runtime cgpu is in it\n";
  }
  plan.changes.push_back(std::move(change));
  return {};
}

Result<Plan> PlanUninstall(const Request& request, const Target& main) {
  Plan plan;
  CGPU_TRY(PlanRemoval(request.engine, main, plan));
  if (request.engine != Engine::kContainerd || !main.before.has_value()) {
    return plan;
  }
  const auto imports = ImportsOf(*main.before);
  if (!imports.ok()) {
    return In(main.file, imports.error());
  }
  for (const std::string& pattern : imports->patterns) {
    const auto file = DropInFor(Absolute(pattern, main.file));
    if (!file.has_value()) {
      continue;
    }
    auto target = ReadTarget(*file);
    const auto empty = EmptyImport(*main.before);
    if (!target.ok() || !empty.ok()) {
      return target.ok() ? empty.error() : target.error();
    }
    target->empty = *empty;
    target->like = main.before;
    if (target->before.has_value() && target->file != main.file) {
      CGPU_TRY(PlanRemoval(request.engine, *target, plan));
    }
  }
  return plan;
}

Result<> ApplyChange(const Change& change) {
  CGPU_ASSIGN_OR_RETURN(const auto now, ReadIfThere(change.file));
  if (now != change.before) {
    return Error{Code::kConflict, 0, change.file + " was changed by somebody else just now",
                 "run the command again"};
  }
  const std::string original = OriginalOf(change.file);
  if (change.original == Change::Original::kWrite) {
    CGPU_TRY(ReplaceFile(original, *change.before, change.file));
  }
  if (change.after != change.before) {
    CGPU_TRY(change.after.has_value() ? ReplaceFile(change.file, *change.after)
                                      : DeleteFile(change.file));
  }
  return change.original == Change::Original::kDelete ? DeleteFile(original) : Result<>();
}

Result<Plan> Look(const Request& request, const std::string& config) {
  CGPU_ASSIGN_OR_RETURN(auto main, ReadTarget(config));
  return request.uninstall ? PlanUninstall(request, main) : PlanInstall(request, std::move(main));
}

}  // namespace

Result<Plan> MakePlan(const Request& request, bool lock) {
  const std::string config =
      request.config.empty() ? std::string(FactsOf(request.engine).file) : request.config;
  auto plan = Look(request, config);
  if (!plan.ok() || !lock || plan->changes.empty()) {
    return plan;
  }
  CGPU_ASSIGN_OR_RETURN(const auto file, RealFile(config));
  CGPU_ASSIGN_OR_RETURN(auto held, LockFolderOf(file));
  plan = Look(request, config);  // as it is while nobody else changes it
  if (plan.ok()) {
    plan->lock = std::move(held);
  }
  return plan;
}

Result<> Apply(const Plan& plan) {
  for (const Change& change : plan.changes) {
    CGPU_TRY(ApplyChange(change));
  }
  return {};
}

}  // namespace cgpu::install
