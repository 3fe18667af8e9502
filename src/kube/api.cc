#include "kube/api.h"

#include <curl/curl.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"

namespace cgpu::kube {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kAnswerSeconds = 30;
constexpr std::size_t kMostAnswer = std::size_t{256} << 20;  // a list of a large cluster

struct Cleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Returns what a Status object says (apimachinery meta/v1/types.go), or the body.
std::string MessageOf(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
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
  const std::atomic<bool>* stop = nullptr;
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

int LookWhetherToStop(void* argument, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const Sink& sink = *static_cast<Sink*>(argument);
  return sink.stop != nullptr && sink.stop->load() ? 1 : 0;
}

std::string TextAt(const YAML::Node& node, const char* name) {
  const YAML::Node value = node[name];
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : "";
}

// Returns the entry of that name in a list of {name: …, KIND: {…}}.
YAML::Node Named(const YAML::Node& list, const std::string& name, const char* kind) {
  for (const YAML::Node& one : list) {
    if (TextAt(one, "name") == name) {
      return one[kind];
    }
  }
  return YAML::Node(YAML::NodeType::Map);
}

}  // namespace

Result<Access> AccessInPod() {
  const char* const host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* const port = std::getenv("KUBERNETES_SERVICE_PORT");
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
        Named(config["contexts"], TextAt(config, "current-context"), "context");
    const YAML::Node cluster = Named(config["clusters"], TextAt(context, "cluster"), "cluster");
    const YAML::Node user = Named(config["users"], TextAt(context, "user"), "user");
    Access access{TextAt(cluster, "server"), TextAt(cluster, "certificate-authority"),
                  TextAt(user, "client-certificate"), TextAt(user, "client-key"),
                  TextAt(user, "tokenFile")};
    return access.server.empty() ? Result<Access>(wrong) : access;
  } catch (const YAML::Exception&) {
    return wrong;
  }
}

Result<Access> FindAccess(const std::string& kubeconfig) {
  return kubeconfig.empty() ? AccessInPod() : ReadKubeconfig(kubeconfig);
}

// One request: its handle, its headers and what takes the answer.
struct Api::Request {
  std::unique_ptr<CURL, Cleanup> curl{curl_easy_init()};
  std::unique_ptr<curl_slist, Cleanup> headers;
  Sink sink;

  void Add(const std::string& header) {
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  }

  Result<> Prepare(const Access& access, const std::string& path) {
    CURL* const handle = curl.get();
    curl_easy_setopt(handle, CURLOPT_URL, (access.server + path).c_str());
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, TakeBytes);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &sink);
    for (const auto& [option, file] : {std::pair(CURLOPT_CAINFO, &access.ca_file),
                                       {CURLOPT_SSLCERT, &access.certificate_file},
                                       {CURLOPT_SSLKEY, &access.key_file}}) {
      if (!file->empty()) {
        curl_easy_setopt(handle, option, file->c_str());
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
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
    const CURLcode code = curl_easy_perform(curl.get());
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    const bool cut_off = code == CURLE_WRITE_ERROR || code == CURLE_ABORTED_BY_CALLBACK;
    if (code != CURLE_OK && !(cut_off && status != 0)) {
      return Error{Code::kUnavailable,
                   0,
                   "no answer from the API server to " + path + ": " + curl_easy_strerror(code),
                   {}};
    }
    return status;
  }
};

Result<std::string> Api::Ask(const char* method, const std::string& path, const std::string& type,
                             const std::string& body) const {
  Request request;
  CGPU_TRY(request.Prepare(access_, path));
  CURL* const curl = request.curl.get();
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

Result<> Api::Stream(const std::string& path, const std::function<bool(std::string_view)>& line,
                     const std::atomic<bool>& stop) const {
  Request request;
  request.sink.line = &line;
  request.sink.stop = &stop;
  CGPU_TRY(request.Prepare(access_, path));
  CURL* const curl = request.curl.get();
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, LookWhetherToStop);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &request.sink);
  // A connection that is dead without a word is found by the kernel.
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  CGPU_ASSIGN_OR_RETURN(const auto status, request.Perform(path));
  if (status >= 300) {
    return StatusError(status, path, request.sink.text);
  }
  return {};
}

}  // namespace cgpu::kube
