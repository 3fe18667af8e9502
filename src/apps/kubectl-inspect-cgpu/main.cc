// `kubectl inspect cgpu`: a plugin of kubectl that shows which pods have which part of which GPU.
// It asks the cluster by kubectl itself, and so knows every way in which kubectl signs in.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "apps/kubectl-inspect-cgpu/inspect.h"
#include "base/child.h"
#include "base/file.h"
#include "cli/command_line.h"
#include "version/version.h"

namespace cgpu::kube {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{1} << 30;  // a list of a large cluster

// Runs kubectl with these words. Returns what it prints; it says errors itself.
Result<std::string> Kubectl(std::vector<std::string> words) {
  words.insert(words.begin(), "kubectl");
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  CGPU_ASSIGN_OR_RETURN(const auto child, Fork());
  if (child == 0) {
    (void)dup2(pipe.to.get(), STDOUT_FILENO);
    (void)execvp("kubectl", PointersTo(words).data());
    (void)std::fprintf(stderr, "error: cannot execute kubectl: it is not in PATH\n");
    _exit(127);
  }
  pipe.to.reset();
  auto text = ReadAll(pipe.from.get(), "kubectl's answer", kMostAnswer);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
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
  app.SetVersion(cgpu::VersionText("kubectl-inspect-cgpu"));
  bool details = false;
  std::string output;
  std::string kubeconfig;
  std::string context;
  app.AddFlag("-d,--details", details, "The pods of each node");
  app.AddOption("-o,--output", output, "json, or wide: the same as -d").Value("json|wide");
  app.AddOption("--kubeconfig", kubeconfig, "As of kubectl").Value("FILE");
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
