// A host that a test makes up: files by path, outputs of commands, answers of the kernel.
#ifndef CGPU_DOCTOR_TESTING_H_
#define CGPU_DOCTOR_TESTING_H_

#include <cerrno>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "doctor/facts.h"

namespace cgpu::doctor {

struct FakeHost final : Facts {
  std::map<std::string, std::string> files;  // contents, by path
  std::map<std::string, FileFacts> looks;    // of files that are not plain ones of root's, 0644
  std::map<std::string, std::string> links;  // targets, by path
  std::map<std::string, Output> outputs;     // by the words of the command, with spaces
  // Asked before `outputs`.
  std::function<std::optional<Output>(const std::string&)> says = [](const std::string&) {
    return std::nullopt;
  };
  std::map<Question, int> refused;     // errno
  std::map<std::string, int> sockets;  // what connecting returns
  std::set<std::string> closed;        // paths that this user may not read
  unsigned user = 0;
  std::uint64_t now = 1'800'000'000;
  mutable unsigned pauses = 0;
  std::function<void()> in_pause = [] {};
  mutable std::set<std::string> read;  // paths and commands that were asked for

  // Adds a program.
  void Install(const std::string& path) {
    files[path] = "#!";
    looks[path] = {FileFacts::Kind::kRegular, 0755, 0, 0, 0};
  }
  void AddDevice(const std::string& path, unsigned major, unsigned minor, unsigned mode = 0666) {
    looks[path] = {FileFacts::Kind::kCharacterDevice, mode, 0, major, minor};
  }
  // Adds a process. `name` is cut as the kernel cuts it.
  void AddProcess(const std::string& number, const std::string& name, const std::string& program) {
    constexpr std::size_t kMost = 15;
    files["/proc/" + number + "/comm"] = name.substr(0, kMost) + "\n";
    links["/proc/" + number + "/exe"] = program;
  }
  void Says(const std::string& command, const std::string& text, int status = 0) {
    outputs[command] = {text, status};
  }
  // Removes all at and below a path.
  void Remove(const std::string& path) {
    const auto below = [&](const auto& one) {
      return one.first == path || one.first.starts_with(path + "/");
    };
    std::erase_if(files, below);
    std::erase_if(looks, below);
    std::erase_if(links, below);
    std::erase_if(sockets, below);
  }

  [[nodiscard]] Result<std::string> Read(const std::string& path) const override {
    read.insert(path);
    if (closed.contains(path)) {
      return Error{Code::kPermission, EACCES, "cannot read " + path, {}};
    }
    const auto found = files.find(path);
    return found == files.end() ? Result<std::string>(Missing(path)) : found->second;
  }
  [[nodiscard]] Result<std::vector<std::string>> List(const std::string& folder) const override {
    std::set<std::string> names;
    const auto add = [&](const std::string& path) {
      if (path.starts_with(folder + "/")) {
        const std::string rest = path.substr(folder.size() + 1);
        names.insert(rest.substr(0, rest.find('/')));
      }
    };
    for (const auto& [path, value] : files) {
      add(path);
    }
    for (const auto& [path, value] : looks) {
      add(path);
    }
    for (const auto& [path, value] : sockets) {
      add(path);
    }
    if (names.empty()) {
      return Missing(folder);
    }
    return std::vector<std::string>(names.begin(), names.end());
  }
  [[nodiscard]] Result<FileFacts> Look(const std::string& path) const override {
    if (const auto found = looks.find(path); found != looks.end()) {
      return found->second;
    }
    if (files.contains(path)) {
      return FileFacts{FileFacts::Kind::kRegular, 0644, 0, 0, 0};
    }
    return List(path).ok() ? Result<FileFacts>(FileFacts{FileFacts::Kind::kFolder, 0755, 0, 0, 0})
                           : Missing(path);
  }
  [[nodiscard]] Result<std::string> Link(const std::string& path) const override {
    const auto found = links.find(path);
    return found == links.end() ? Result<std::string>(Missing(path)) : found->second;
  }
  [[nodiscard]] Result<Output> Run(const std::vector<std::string>& words) const override {
    std::string command;
    for (const std::string& word : words) {
      command += (command.empty() ? "" : " ") + word;
    }
    read.insert(command);
    if (auto output = says(command)) {
      return *output;
    }
    const auto found = outputs.find(command);
    return found == outputs.end() ? Result<Output>(Missing(command)) : found->second;
  }
  [[nodiscard]] int Ask(Question question) const override {
    const auto found = refused.find(question);
    return found == refused.end() ? 0 : found->second;
  }
  [[nodiscard]] int Connect(const std::string& socket) const override {
    const auto found = sockets.find(socket);
    return found == sockets.end() ? ENOENT : found->second;
  }
  [[nodiscard]] unsigned User() const override { return user; }
  [[nodiscard]] std::uint64_t Now() const override { return now; }
  [[nodiscard]] std::string Version() const override { return "1.2.3"; }
  [[nodiscard]] std::string Program() const override { return "/usr/bin/cgpu"; }
  void Pause() const override {
    ++pauses;
    in_pause();
  }

 private:
  static Error Missing(const std::string& what) {
    return Error{Code::kNotFound, ENOENT, "there is no " + what, {}};
  }
};

// A host on which every check is right: a driver, all container engines, cgpud, a cluster.
[[nodiscard]] FakeHost HealthyHost();

// A fault, which the check `id` must find. `found` is a part of what it says.
struct Fault {
  std::string id;
  std::string found;
  std::function<void(FakeHost&)> make;
};
// Return faults that provoke each check of these categories at least once.
[[nodiscard]] std::vector<Fault> KernelFaults();
[[nodiscard]] std::vector<Fault> DriverFaults();
[[nodiscard]] std::vector<Fault> EngineFaults();
[[nodiscard]] std::vector<Fault> InstallationFaults();
[[nodiscard]] std::vector<Fault> KubernetesFaults();
[[nodiscard]] std::vector<Fault> WorkloadFaults();

// Returns a fault by which the file `path` has this text.
[[nodiscard]] inline Fault Changed(const std::string& id, const std::string& found,
                                   const std::string& path, const std::string& text) {
  return {id, found, [=](FakeHost& host) { host.files[path] = text; }};
}
// Returns a fault by which nothing is at and below `path`.
[[nodiscard]] inline Fault Removed(const std::string& id, const std::string& found,
                                   const std::string& path) {
  return {id, found, [=](FakeHost& host) { host.Remove(path); }};
}
// Returns a fault by which a command prints this text, and has this status.
[[nodiscard]] inline Fault Said(const std::string& id, const std::string& found,
                                const std::string& command, const std::string& text,
                                int status = 0) {
  return {id, found, [=](FakeHost& host) { host.Says(command, text, status); }};
}
// Returns the command line by which an object or a list of a cluster is got.
[[nodiscard]] inline std::string Get(const std::string& words) {
  return "kubectl --request-timeout=8s get " + words + " -o json";
}

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_TESTING_H_
