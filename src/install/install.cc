#include "install/install.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "install/file_change.h"

namespace cgpu::install {
namespace {

constexpr const char* kDropIn = "cgpu.toml";  // sorts behind names that begin with a number

// A file that has, or gets, the runtime.
struct Target {
  std::string file;
  std::optional<std::string> before;
  std::optional<std::string> like;  // the configuration that imports the file
};

Error In(const std::string& file, Error error) {
  error.what = file + " " + error.what;
  return error;
}

// Returns where Docker's file from before is kept. JSON has no comments that could say what it was.
std::string OriginalOf(const std::string& file) {
  return file + ".before-cgpu";
}

// Returns the pattern as containerd reads it: relative to the folder of the file that imports.
std::string Absolute(const std::string& pattern, const std::string& file) {
  return std::filesystem::path(file).parent_path() / pattern;
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (glob(pattern.c_str(), GLOB_PERIOD, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return files;
}

// Returns cgpu's file in a folder of which all is imported, or nothing.
std::optional<std::string> DropInFor(const std::string& pattern) {
  const std::size_t star = pattern.find_first_of("*?[");
  if (star == std::string::npos || pattern.substr(star) != "*.toml" || pattern[star - 1] != '/') {
    return std::nullopt;
  }
  return pattern.substr(0, star) + kDropIn;
}

Result<Target> ReadTarget(const std::string& path, std::optional<std::string> like = {}) {
  CGPU_ASSIGN_OR_RETURN(auto file, RealFile(path));
  CGPU_ASSIGN_OR_RETURN(auto before, ReadIfThere(file));
  return Target{std::move(file), std::move(before), std::move(like)};
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
      return ReadTarget(*file, text);
    }
  }
  return main;
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

Result<> Install(const Request& request, Target target, Report& report) {
  if (request.engine == Engine::kContainerd) {
    if (DisablesCri(target.before.value_or(""))) {
      report.notes.push_back(target.file +
                             " disables containerd's CRI plugin (disabled_plugins): until that is "
                             "changed, Kubernetes cannot use this containerd");
    }
    CGPU_ASSIGN_OR_RETURN(target, ContainerdTarget(std::move(target)));
  }
  const auto edit =
      AddEntry(request.engine, target.before, request.program, request.set_default, target.like);
  if (!edit.ok()) {
    return In(target.file, edit.error());
  }
  if (edit->after == target.before) {
    return {};
  }
  const bool keep = request.engine == Engine::kDocker && target.before.has_value() &&
                    !FindEntry(request.engine, *target.before)->path.has_value();
  const auto kind =
      target.before.has_value() ? FileChange::Kind::kChanged : FileChange::Kind::kWritten;
  report.changes.push_back(
      {target.file, kind, edit->gets, keep ? OriginalOf(target.file) : std::string()});
  if (request.dry_run) {
    return {};
  }
  if (keep) {
    CGPU_TRY(ReplaceFile(OriginalOf(target.file), *target.before, target.file));
  }
  return ReplaceFile(target.file, *edit->after, target.file);
}

// Takes the runtime out of one file.
Result<> TakeOut(const Request& request, const Target& target, Report& report) {
  const std::string kept = OriginalOf(target.file);
  std::optional<std::string> original;
  if (request.engine == Engine::kDocker) {
    CGPU_ASSIGN_OR_RETURN(original, ReadIfThere(kept));
  }
  const auto after = RemoveEntry(request.engine, target.before.value_or(""), original);
  if (!after.ok()) {
    return In(target.file, after.error());
  }
  if (*after == target.before) {
    if (original.has_value()) {
      report.notes.push_back(kept + " stays: there is no runtime cgpu in " + target.file);
    }
    return {};
  }
  report.changes.push_back(
      {target.file, after->has_value() ? FileChange::Kind::kChanged : FileChange::Kind::kRemoved,
       "", ""});
  if (request.dry_run) {
    return {};
  }
  CGPU_TRY(after->has_value() ? ReplaceFile(target.file, **after, target.file)
                              : DeleteFile(target.file));
  return original.has_value() ? DeleteFile(kept) : Result<>();
}

Result<> Uninstall(const Request& request, const Target& main, Report& report) {
  if (request.engine == Engine::kContainerd) {
    const auto imports = ImportsOf(*main.before);
    if (!imports.ok()) {
      return In(main.file, imports.error());
    }
    for (const std::string& pattern : imports->patterns) {
      const auto file = DropInFor(Absolute(pattern, main.file));
      CGPU_ASSIGN_OR_RETURN(const auto target,
                            file.has_value() ? ReadTarget(*file) : Result<Target>(Target{}));
      if (target.before.has_value() && target.file != main.file) {
        CGPU_TRY(TakeOut(request, target, report));
      }
    }
  }
  return TakeOut(request, main, report);
}

}  // namespace

Result<Report> Change(const Request& request) {
  Report report;
  const std::string config =
      request.config.empty() ? std::string(FactsOf(request.engine).file) : request.config;
  CGPU_ASSIGN_OR_RETURN(auto main, ReadTarget(config));
  CGPU_TRY(request.uninstall ? Result<>() : CheckProgram(request.program));
  if (request.uninstall && !main.before.has_value()) {
    return report;
  }
  UniqueFd lock;
  if (!request.dry_run) {
    CGPU_ASSIGN_OR_RETURN(lock, LockFolderOf(main.file));
    CGPU_ASSIGN_OR_RETURN(main, ReadTarget(config));  // as it is while nobody else changes it
  }
  CGPU_TRY(request.uninstall && !main.before.has_value() ? Result<>()
           : request.uninstall                           ? Uninstall(request, main, report)
                                                         : Install(request, main, report));
  return report;
}

}  // namespace cgpu::install
