#include "kubelet/resource_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "base/mutex.h"
#include "deviceplugin.grpc.pb.h"
#include "kubelet/device_plugin.h"

namespace cgpu::kubelet {
namespace {

constexpr char kVersion[] = "v1beta1";
constexpr std::chrono::seconds kRegisterTimeout{5};
constexpr int kReconnectMs = 100;

}  // namespace

// Answers the kubelet's calls. ListAndWatch keeps a thread of gRPC's for as long as it is watched.
class ResourceServer::Service final : public v1beta1::DevicePlugin::Service {
 public:
  explicit Service(std::vector<Device> devices) : devices_(std::move(devices)) {}

  void Set(std::vector<Device> devices) {
    const MutexLock lock(mutex_);
    if (devices != devices_) {
      devices_ = std::move(devices);
      ++version_;
      changed_.NotifyAll();
    }
  }

  void End() {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                      const v1beta1::Empty* /*request*/,
                                      v1beta1::DevicePluginOptions* /*options*/) override {
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* /*context*/, const v1beta1::Empty* /*request*/,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    std::uint64_t told = 0;
    v1beta1::ListAndWatchResponse list;
    while (Next(told, list) && writer->Write(list)) {
    }
    return grpc::Status::OK;
  }

  // Gives a container nothing: cgpud goes by the pod and the container, which this call does not
  // name.
  grpc::Status Allocate(grpc::ServerContext* /*context*/, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    for (int i = 0; i < request->container_requests_size(); ++i) {
      response->add_container_responses();
    }
    return grpc::Status::OK;
  }

 private:
  // Waits for devices other than those of version `told`. Returns false at the end.
  bool Next(std::uint64_t& told, v1beta1::ListAndWatchResponse& list) {
    const MutexLock lock(mutex_);
    while (!ended_ && told == version_) {
      changed_.Wait(mutex_);
    }
    told = version_;
    list.clear_devices();
    for (const Device& device : devices_) {
      v1beta1::Device& one = *list.add_devices();
      one.set_id(device.id);
      one.set_health(device.healthy ? "Healthy" : "Unhealthy");
    }
    return !ended_;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<Device> devices_ CGPU_GUARDED_BY(mutex_);
  std::uint64_t version_ CGPU_GUARDED_BY(mutex_) = 1;
  bool ended_ CGPU_GUARDED_BY(mutex_) = false;
};

struct ResourceServer::Served {
  explicit Served(std::vector<Device> devices) : service(std::move(devices)) {}

  Service service;
  std::unique_ptr<grpc::Server> server;
};

ResourceServer::ResourceServer(std::unique_ptr<Served> served) : served_(std::move(served)) {}

Result<std::unique_ptr<ResourceServer>> ResourceServer::Start(const std::string& socket,
                                                              std::vector<Device> devices) {
  auto served = std::make_unique<Served>(std::move(devices));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.RegisterService(&served->service);
  served->server = builder.BuildAndStart();
  if (!served->server) {
    return Error{Code::kUnavailable, 0, "cannot listen at " + socket,
                 "see that the kubelet's folder may be written"};
  }
  return std::unique_ptr<ResourceServer>(new ResourceServer(std::move(served)));
}

ResourceServer::~ResourceServer() {
  served_->service.End();
  served_->server->Shutdown(std::chrono::system_clock::now());
}

void ResourceServer::Set(std::vector<Device> devices) {
  served_->service.Set(std::move(devices));
}

Result<> Register(const std::string& folder, const std::string& endpoint,
                  const std::string& resource) {
  grpc::ChannelArguments arguments;
  // A kubelet that starts makes its socket a moment before it listens there.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  // Another kubelet listens at the same place after a restart.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1beta1::Registration::NewStub(grpc::CreateCustomChannel(
      "unix:" + folder + "/" + kKubeletSocket, grpc::InsecureChannelCredentials(), arguments));
  v1beta1::RegisterRequest request;
  request.set_version(kVersion);
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_authority("localhost");
  context.set_deadline(std::chrono::system_clock::now() + kRegisterTimeout);
  v1beta1::Empty answer;
  const grpc::Status status = stub->Register(&context, request, &answer);
  return status.ok()
             ? Result<>()
             : Error{Code::kUnavailable, 0,
                     "the kubelet does not take " + resource + ": " + status.error_message(),
                     "see the kubelet's log"};
}

}  // namespace cgpu::kubelet
