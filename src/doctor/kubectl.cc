#include "doctor/kubectl.h"

#include <utility>

#include "doctor/reading.h"

namespace cgpu::doctor {

Result<std::string> AskKubectl(const Facts& facts, std::vector<std::string> words) {
  words.insert(words.begin(), {"kubectl", "--request-timeout=8s"});
  auto output = facts.Run(words);
  if (!output.ok()) {  // kubectl itself is not there, or does not end
    return Error{Code::kUnavailable, 0, output.error().what, {}};
  }
  if (output->status == 0) {
    return output->text;
  }
  const bool missing = output->text.find("(NotFound)") != std::string::npos;
  return Error{missing ? Code::kNotFound : Code::kUnavailable,
               0,
               "kubectl says: " + Trimmed(output->text),
               {}};
}

Result<Value> GetObject(const Facts& facts, std::vector<std::string> words) {
  words.insert(words.begin(), "get");
  words.insert(words.end(), {"-o", "json"});
  CGPU_ASSIGN_OR_RETURN(const auto text, AskKubectl(facts, std::move(words)));
  return Value::Parse(JsonPart(text));
}

std::string ReleaseNamespace(const Facts& facts) {
  const auto webhook = GetObject(facts, {"mutatingwebhookconfigurations", "cgpu"});
  if (webhook.ok()) {
    for (const Value& one : (*webhook)["webhooks"].Items()) {
      const std::string found = one["clientConfig"]["service"]["namespace"].Text();
      if (!found.empty()) {
        return found;
      }
    }
  }
  return "cgpu-system";
}

Finding NotGot(const Error& error, const std::string& missing) {
  return error.code == Code::kNotFound ? Wrong(missing) : Skipped(error.what);
}

}  // namespace cgpu::doctor
