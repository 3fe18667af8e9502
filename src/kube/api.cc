#include "kube/api.h"

#include <curl/curl.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "json/json.h"

namespace cgpu::kube {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kAnswerSeconds = 30;
constexpr long kKeepAliveSeconds = 10;
constexpr int kLongestWaitMs = 60'000;
constexpr std::size_t kMostIdle = 16;                        // handles
constexpr std::size_t kMostAnswer = std::size_t{256} << 20;  // a list of a large cluster

// Returns what a Status object says (apimachinery meta/v1/types.go), or the body.
std::string MessageOf(const std::string& body) {
  const auto json = ParseJson(body);
  const auto message = json.is_object() ? json.find("message") : json.end();
  return message != json.end() && message->is_string() ? message->get<std::string>() : body;
}

Error StatusError(long status, const std::string& path, const std::string& body) {
  Code code = Code::kInvalid;
  switch (status) {
    case 401:
    case 403:
      code = Code::kPermission;
      break;
    case 404:
      code = Code::kNotFound;
      break;
    case 409:
    case 410:
      code = Code::kConflict;
      break;
    default:
      code = status >= 500 || status == 429 ? Code::kUnavailable : Code::kInvalid;
  }
  return Error{
      code,
      0,
      "the API server answers " + std::to_string(status) + " to " + path + ": " + MessageOf(body),
      {}};
}

// The parts that take the answer.
struct Sink {
  std::string text;
  const std::function<bool(std::string_view)>* line = nullptr;
};

std::size_t TakeBytes(char* bytes, std::size_t, std::size_t size, void* argument) {
  Sink& sink = *static_cast<Sink*>(argument);
  sink.text.append(bytes, size);
  if (sink.text.size() > kMostAnswer) {
    return 0;
  }
  if (sink.line == nullptr) {
    return size;
  }
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = sink.text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    if (!(*sink.line)(std::string_view(sink.text).substr(begin, end - begin))) {
      return 0;
    }
  }
  sink.text.erase(0, begin);
  return size;
}

std::string ScalarAt(const YAML::Node& node, const char* name) {
  const YAML::Node value = node[name];
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : "";
}

// Returns the entry of that name in a list of {name: …, KIND: {…}}.
YAML::Node Named(const YAML::Node& list, const std::string& name, const char* kind) {
  for (const YAML::Node& one : list) {
    if (ScalarAt(one, "name") == name) {
      return one[kind];
    }
  }
  return YAML::Node(YAML::NodeType::Map);
}

}  // namespace

Result<Access> AccessInPod() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nobody changes it
  const char* const host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* const port = std::getenv("KUBERNETES_SERVICE_PORT");
  // NOLINTEND(concurrency-mt-unsafe)
  if (host == nullptr || port == nullptr) {
    return Error{Code::kNotFound, 0, "this process runs in no pod of Kubernetes",
                 "name a kubeconfig file: --kubeconfig FILE"};
  }
  const std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
  const std::string name = host;
  const bool ipv6 = name.find(':') != std::string::npos;
  return Access{"https://" + (ipv6 ? "[" + name + "]" : name) + ":" + port, folder + "ca.crt", "",
                "", folder + "token"};
}

Result<Access> ReadKubeconfig(const std::string& path) {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  const Error wrong{Code::kInvalid, 0, path + " is no kubeconfig file with a current context",
                    "see `kubectl config view`"};
  try {
    const YAML::Node config = YAML::Load(text);
    const YAML::Node context =
        Named(config["contexts"], ScalarAt(config, "current-context"), "context");
    const YAML::Node cluster = Named(config["clusters"], ScalarAt(context, "cluster"), "cluster");
    const YAML::Node user = Named(config["users"], ScalarAt(context, "user"), "user");
    Access access{ScalarAt(cluster, "server"), ScalarAt(cluster, "certificate-authority"),
                  ScalarAt(user, "client-certificate"), ScalarAt(user, "client-key"),
                  ScalarAt(user, "tokenFile")};
    return access.server.empty() ? Result<Access>(wrong) : access;
  } catch (const YAML::Exception&) {
    return wrong;
  }
}

Result<Access> FindAccess(const std::string& kubeconfig) {
  return kubeconfig.empty() ? AccessInPod() : ReadKubeconfig(kubeconfig);
}

// A handle of curl's, with the connections that it has made.
struct Api::Handle {
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl{curl_easy_init(), curl_easy_cleanup};
};

Api::Api(Access access) : access_(std::move(access)) {}
Api::~Api() = default;

std::unique_ptr<Api::Handle> Api::TakeHandle() const {
  const MutexLock lock(mutex_);
  if (idle_.empty()) {
    return std::make_unique<Handle>();
  }
  auto handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void Api::KeepHandle(std::unique_ptr<Handle> handle) const {
  curl_easy_reset(handle->curl.get());
  const MutexLock lock(mutex_);
  if (idle_.size() < kMostIdle) {
    idle_.push_back(std::move(handle));
  }
}

// One request: its handle, its headers and what takes the answer.
struct Api::Request {
  explicit Request(const Api& from) : api(from), handle(from.TakeHandle()) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { api.KeepHandle(std::move(handle)); }

  [[nodiscard]] CURL* curl() const { return handle->curl.get(); }

  void Add(const std::string& header) {
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  }

  Result<> Prepare(const Access& access, const std::string& path) {
    curl_easy_setopt(curl(), CURLOPT_URL, (access.server + path).c_str());
    curl_easy_setopt(curl(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl(), CURLOPT_WRITEFUNCTION, TakeBytes);
    curl_easy_setopt(curl(), CURLOPT_WRITEDATA, &sink);
    for (const auto& [option, file] : {std::pair(CURLOPT_CAINFO, &access.ca_file),
                                       {CURLOPT_SSLCERT, &access.certificate_file},
                                       {CURLOPT_SSLKEY, &access.key_file}}) {
      if (!file->empty()) {
        curl_easy_setopt(curl(), option, file->c_str());
      }
    }
    if (!access.token_file.empty()) {
      CGPU_ASSIGN_OR_RETURN(auto token, ReadFile(access.token_file));
      token.erase(std::remove(token.begin(), token.end(), '\n'), token.end());
      Add("Authorization: Bearer " + token);
    }
    return {};
  }

  // Makes the request. Returns the status of the answer.
  Result<long> Perform(const std::string& path) {
    curl_easy_setopt(curl(), CURLOPT_HTTPHEADER, headers.get());
    return StatusAfter(curl_easy_perform(curl()), path);
  }

  // Makes the request, and breaks it off once `stop` is set.
  Result<long> PerformUntil(const std::string& path, const Stop& stop) {
    curl_easy_setopt(curl(), CURLOPT_HTTPHEADER, headers.get());
    const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi(curl_multi_init(),
                                                                      curl_multi_cleanup);
    curl_multi_add_handle(multi.get(), curl());
    int running = 1;
    while (running != 0 && !stop.set()) {
      curl_multi_perform(multi.get(), &running);
      curl_waitfd event{stop.fd(), CURL_WAIT_POLLIN, 0};
      if (running != 0) {
        curl_multi_poll(multi.get(), &event, 1, kLongestWaitMs, nullptr);
      }
    }
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi.get(), &left)) {
      code = message->data.result;
    }
    auto status = StatusAfter(code, path);
    curl_multi_remove_handle(multi.get(), curl());
    return status;
  }

  Result<long> StatusAfter(CURLcode code, const std::string& path) const {
    long status = 0;
    curl_easy_getinfo(curl(), CURLINFO_RESPONSE_CODE, &status);
    const bool cut_off = code == CURLE_WRITE_ERROR || code == CURLE_ABORTED_BY_CALLBACK;
    if (code != CURLE_OK && !(cut_off && status != 0)) {
      return Error{Code::kUnavailable,
                   0,
                   "no answer from the API server to " + path + ": " + curl_easy_strerror(code),
                   {}};
    }
    return status;
  }

  const Api& api;
  std::unique_ptr<Handle> handle;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers{nullptr, curl_slist_free_all};
  Sink sink;
};

Result<std::string> Api::Ask(const char* method, const std::string& path, const std::string& type,
                             const std::string& body) const {
  Request request(*this);
  CGPU_TRY(request.Prepare(access_, path));
  CURL* const curl = request.curl();
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kAnswerSeconds);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
  if (!type.empty()) {
    request.Add("Content-Type: " + type);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  CGPU_ASSIGN_OR_RETURN(const auto status, request.Perform(path));
  if (status >= 300) {
    return StatusError(status, path, request.sink.text);
  }
  return std::move(request.sink.text);
}

Result<std::string> Api::Get(const std::string& path) const {
  return Ask("GET", path, "", "");
}

Result<std::string> Api::Post(const std::string& path, const std::string& json) const {
  return Ask("POST", path, "application/json", json);
}

Result<std::string> Api::MergePatch(const std::string& path, const std::string& json) const {
  return Ask("PATCH", path, "application/merge-patch+json", json);
}

Result<std::string> Api::StrategicPatch(const std::string& path, const std::string& json) const {
  return Ask("PATCH", path, "application/strategic-merge-patch+json", json);
}

Result<> Api::Stream(const std::string& path, const std::function<bool(std::string_view)>& line,
                     const Stop& stop) const {
  Request request(*this);
  request.sink.line = &line;
  CGPU_TRY(request.Prepare(access_, path));
  // A connection that is dead without a word is found by the kernel.
  curl_easy_setopt(request.curl(), CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(request.curl(), CURLOPT_TCP_KEEPIDLE, kKeepAliveSeconds);
  curl_easy_setopt(request.curl(), CURLOPT_TCP_KEEPINTVL, kKeepAliveSeconds);
  CGPU_ASSIGN_OR_RETURN(const auto status, request.PerformUntil(path, stop));
  if (status >= 300) {
    return StatusError(status, path, request.sink.text);
  }
  return {};
}

}  // namespace cgpu::kube
