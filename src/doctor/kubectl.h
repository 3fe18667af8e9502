// Asks kubectl. Answers are kept as Facts::Run() keeps them.
#ifndef CGPU_DOCTOR_KUBECTL_H_
#define CGPU_DOCTOR_KUBECTL_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/check.h"
#include "doctor/facts.h"
#include "doctor/value.h"

namespace cgpu::doctor {

// Returns what `kubectl WORDS` prints. kNotFound: the cluster has no such object. kUnavailable: it
// says something else, which is the error's sentence.
[[nodiscard]] Result<std::string> AskKubectl(const Facts& facts, std::vector<std::string> words);
// Returns the object or list of `kubectl get WORDS`, in JSON; errors likewise.
[[nodiscard]] Result<Value> GetObject(const Facts& facts, std::vector<std::string> words);
// Returns the namespace of cgpu's release: the one that the webhook's service is in.
[[nodiscard]] std::string ReleaseNamespace(const Facts& facts);
// Returns the finding where something could not be got: wrong, if the cluster does not have it.
[[nodiscard]] Finding NotGot(const Error& error, const std::string& missing);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_KUBECTL_H_
