// Judges pods at admission, as a mutating webhook of the API server (k8s.io/api/admission/v1). A
// pod that asks for parts of GPUs is checked, and gets the scheduler and the runtime class that it
// needs where it names none, and our names in place of HAMi's where these are accepted. Other pods
// pass as they are. Pure.
#ifndef CGPU_KUBE_ADMISSION_H_
#define CGPU_KUBE_ADMISSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "kube/pod.h"

namespace cgpu::kube {

struct AdmissionRules {
  std::string scheduler = "cgpu-scheduler";
  std::string runtime_class = "cgpu";
  PodRules pods;
  bool hami_names = false;  // see hami.h
  // GiB of the largest GPU of the cluster; 0: not known.
  std::uint32_t largest = 0;
};

// Takes the body of an AdmissionReview and returns the answer's. A refusal names the number that is
// wrong and one that would do.
[[nodiscard]] std::string Review(std::string_view body, const AdmissionRules& rules);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_ADMISSION_H_
