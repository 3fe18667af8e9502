// `kubectl inspect cgpu`: a plugin of kubectl that shows which pods have which part of which GPU.
// It asks the cluster by kubectl itself, and so knows every way in which kubectl signs in.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/command_line.h"
#include "kube/inspect.h"

namespace cgpu::kube {
namespace {

// Runs kubectl with these words. Returns what it prints; it says errors itself.
Result<std::string> Kubectl(std::vector<std::string> words) {
  words.insert(words.begin(), "kubectl");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(Code::kInternal, errno, "cannot make a pipe");
  }
  UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    (void)dup2(in.get(), STDOUT_FILENO);
    (void)execvp("kubectl", argv.data());
    (void)std::fprintf(stderr, "error: cannot execute kubectl: it is not in PATH\n");
    _exit(127);
  }
  in.reset();
  std::string text;
  std::array<char, 65536> buffer{};
  for (ssize_t size = 0; (size = read(out.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    return Error{Code::kUnavailable, 0, "kubectl could not ask the cluster", {}};
  }
  return text;
}

Result<> Run(bool details, const std::string& output, const std::vector<std::string>& options) {
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), options.begin(), options.end());
    return words;
  };
  if (!output.empty() && output != "json" && output != "wide") {
    return Error{Code::kInvalid, 0, "-o is neither json nor wide: " + output, {}};
  }
  CGPU_ASSIGN_OR_RETURN(const auto nodes, Kubectl(with({"get", "nodes", "-o", "json"})));
  CGPU_ASSIGN_OR_RETURN(const auto pods,
                        Kubectl(with({"get", "pods", "--all-namespaces", "-o", "json"})));
  const InspectForm form = output == "json"              ? InspectForm::kJson
                           : details || output == "wide" ? InspectForm::kDetails
                                                         : InspectForm::kNodes;
  CGPU_ASSIGN_OR_RETURN(const auto text, Inspect(nodes, pods, form));
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace
}  // namespace cgpu::kube

int main(int argc, char** argv) {
  const cgpu::cli::Program app("Shows how much of the cluster's GPUs pods have",
                               "kubectl inspect cgpu");
  app.SetVersion(CGPU_VERSION);
  bool details = false;
  std::string output;
  std::string kubeconfig;
  std::string context;
  app.AddFlag("-d,--details", details, "The pods of each node");
  app.AddOption("-o,--output", output, "json, or wide: the same as -d");
  app.AddOption("--kubeconfig", kubeconfig, "As of kubectl");
  app.AddOption("--context", context, "As of kubectl");
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  std::vector<std::string> options;
  if (!kubeconfig.empty()) {
    options.push_back("--kubeconfig=" + kubeconfig);
  }
  if (!context.empty()) {
    options.push_back("--context=" + context);
  }
  if (const auto done = cgpu::kube::Run(details, output, options); !done.ok()) {
    (void)std::fprintf(stderr, "%s\n", cgpu::FormatError(done.error()).c_str());
    return 1;
  }
  return 0;
}
