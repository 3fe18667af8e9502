// Options of cgpu-scheduler, as its command line says them.
#ifndef CGPU_APPS_CGPU_SCHEDULER_OPTIONS_H_
#define CGPU_APPS_CGPU_SCHEDULER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kube/admission.h"

namespace cgpu::kube {

// Threads of a server, and so the most connections at a time. Callers keep theirs open: where there
// are fewer threads, a connection waits for another one to end.
inline constexpr std::size_t kConnections = 128;
inline constexpr int kPort = 12345;  // of the extender in cGPU's contract

struct Options {
  std::string kubeconfig;
  std::string address = "127.0.0.1";
  std::uint64_t port = kPort;
  std::string key_file;
  // The webhook, for all nodes to call; without a certificate there is none.
  std::uint64_t webhook_port = 9443;
  std::string certificate_file;
  std::string certificate_key_file;
  AdmissionRules rules;
  // The lease that the kube-scheduler beside this program leads by: NAMESPACE/NAME; empty: it is
  // the only one.
  std::string lease;
  std::string identity;  // of that kube-scheduler; empty: its host is this one
  // The namespace of the pods with cgpu-exporter; empty: nobody asks them.
  std::string exporters;
  std::string exporter_token_file;  // empty: they want none
  // IP address and port of the page; empty: there is none.
  std::string page_listen;
  std::string page_token_file;
  std::string page_certificate_file;  // empty: without TLS
  std::string page_certificate_key_file;
  bool log_json = false;
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_SCHEDULER_OPTIONS_H_
