// A client of the Kubernetes API server: requests, and lists that are followed by a watch.
//
// Thread-safe; a call blocks its caller. Connections are kept for later calls.
#ifndef CGPU_KUBE_API_H_
#define CGPU_KUBE_API_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "kube/stop.h"

namespace cgpu::kube {

// Where the API server is and who asks. The files are read at each call, since tokens and
// certificates are renewed.
struct Access {
  std::string server;  // https://HOST:PORT
  std::string ca_file;
  std::string certificate_file;  // of the client; empty: none
  std::string key_file;
  std::string token_file;  // empty: none
};

// Returns the access of a pod's service account (Kubernetes' documentation, "Accessing the
// Kubernetes API from a Pod"). kNotFound: this process is in no pod.
[[nodiscard]] Result<Access> AccessInPod();
// Reads a kubeconfig file: its current context, with names of files.
[[nodiscard]] Result<Access> ReadKubeconfig(const std::string& path);
// Returns the access by this file; without a name, that of a pod.
[[nodiscard]] Result<Access> FindAccess(const std::string& kubeconfig);

class Api {
 public:
  explicit Api(Access access);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  ~Api();

  // Each returns the body of the answer. kUnavailable: no answer came; the request may have been
  // executed. kNotFound, kConflict, kPermission, kInvalid: statuses 404, 409, 401 and 403, and the
  // other ones below 500.
  [[nodiscard]] Result<std::string> Get(const std::string& path) const;
  [[nodiscard]] Result<std::string> Post(const std::string& path, const std::string& json) const;
  [[nodiscard]] Result<std::string> MergePatch(const std::string& path,
                                               const std::string& json) const;
  // Merges lists by the keys of their objects too, where the API defines such.
  [[nodiscard]] Result<std::string> StrategicPatch(const std::string& path,
                                                   const std::string& json) const;

  // Receives the lines of a streaming answer until it ends, `line` returns false, or `stop` is set.
  // kConflict: the API server no longer has what was asked for (410).
  [[nodiscard]] Result<> Stream(const std::string& path,
                                const std::function<bool(std::string_view line)>& line,
                                const Stop& stop) const;

 private:
  struct Request;
  struct Handle;
  [[nodiscard]] std::unique_ptr<Handle> TakeHandle() const;
  void KeepHandle(std::unique_ptr<Handle> handle) const;
  [[nodiscard]] Result<std::string> Ask(const char* method, const std::string& path,
                                        const std::string& type, const std::string& body) const;

  const Access access_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Handle>> idle_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_API_H_
