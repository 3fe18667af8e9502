#include "kubelet/device_plugin.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/mutex.h"
#include "deviceplugin.grpc.pb.h"

namespace cgpu::kubelet {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kDeadline{30};

// A kubelet: takes registrations, and asks what is registered.
class FakeKubelet final : public v1beta1::Registration::Service {
 public:
  // As the kubelet starts: removes what is in its folder, then listens there.
  explicit FakeKubelet(const std::string& folder) : folder_(folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      fs::remove(entry.path());
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder + "/" + kKubeletSocket,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  grpc::Status Register(grpc::ServerContext* /*context*/, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* /*answer*/) override {
    const MutexLock lock(mutex_);
    EXPECT_EQ(request->version(), "v1beta1");
    EXPECT_TRUE(fs::exists(folder_ + "/" + request->endpoint()));
    endpoints_[request->resource_name()] = request->endpoint();
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  // Waits until the resource is registered. Returns a way to ask about it.
  std::unique_ptr<v1beta1::DevicePlugin::Stub> Wait(const std::string& resource) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    const MutexLock lock(mutex_);
    while (endpoints_.count(resource) == 0) {
      if (!changed_.WaitUntil(mutex_, until)) {
        ADD_FAILURE() << resource << " is not registered";
        return nullptr;
      }
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1beta1::DevicePlugin::NewStub(
        grpc::CreateCustomChannel("unix:" + folder_ + "/" + endpoints_[resource],
                                  grpc::InsecureChannelCredentials(), arguments));
  }

 private:
  const std::string folder_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> endpoints_ CGPU_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

// Watches the devices of a resource.
class Watch {
 public:
  explicit Watch(v1beta1::DevicePlugin::Stub& stub) {
    context_.set_deadline(std::chrono::system_clock::now() + kDeadline);
    reader_ = stub.ListAndWatch(&context_, {});
  }
  // Returns the next list, as "id=health" words; "end" after the last.
  std::string Next() {
    v1beta1::ListAndWatchResponse list;
    if (!reader_->Read(&list)) {
      return "end";
    }
    std::string words;
    for (const auto& device : list.devices()) {
      words += (words.empty() ? "" : " ") + device.id() + "=" + device.health();
    }
    return words;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1beta1::ListAndWatchResponse>> reader_;
};

class DevicePluginTest : public ::testing::Test {
 protected:
  DevicePluginTest()
      : folder_(fs::temp_directory_path() / ("kubelet-test-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~DevicePluginTest() override { fs::remove_all(folder_); }

  std::unique_ptr<DevicePlugin> Start(const Resources& resources) {
    auto plugin = DevicePlugin::Start(folder_, resources, [](const std::string&) {});
    EXPECT_TRUE(plugin.ok());
    return *std::move(plugin);
  }

  const std::string folder_;
};

TEST_F(DevicePluginTest, TellsAKubeletThatIsThere) {
  FakeKubelet kubelet(folder_);
  const auto plugin = Start({{"a/memory", {{"m0", true}, {"m1", true}}}, {"a/count", {}}});
  const auto memory = kubelet.Wait("a/memory");
  Watch watch(*memory);
  EXPECT_EQ(watch.Next(), "m0=Healthy m1=Healthy");
  const auto count = kubelet.Wait("a/count");
  EXPECT_EQ(Watch(*count).Next(), "");
  // The kubelet hears of a change, once.
  plugin->Set({{"a/memory", {{"m0", true}, {"m1", true}}}, {"a/count", {{"c", true}}}});
  plugin->Set({{"a/memory", {{"m0", true}, {"m1", false}}}, {"a/count", {{"c", true}}}});
  EXPECT_EQ(watch.Next(), "m0=Healthy m1=Unhealthy");
  EXPECT_EQ(Watch(*count).Next(), "c=Healthy");
}

TEST_F(DevicePluginTest, GivesContainersNothing) {
  FakeKubelet kubelet(folder_);
  const auto plugin = Start({{"a/memory", {{"m0", true}}}});
  const auto stub = kubelet.Wait("a/memory");
  grpc::ClientContext context;
  v1beta1::AllocateRequest request;
  request.add_container_requests()->add_devices_ids("m0");
  request.add_container_requests();
  v1beta1::AllocateResponse response;
  ASSERT_TRUE(stub->Allocate(&context, request, &response).ok());
  EXPECT_EQ(response.container_responses_size(), 2);  // the kubelet wants one for each
  EXPECT_EQ(response.ByteSizeLong(), 4U);             // two empty ones
}

TEST_F(DevicePluginTest, TellsEachKubeletThatStartsThere) {
  const auto plugin = Start({{"a/memory", {{"m0", true}}}});  // the kubelet is not there yet
  auto first = std::make_unique<FakeKubelet>(folder_);
  const auto stub = first->Wait("a/memory");
  Watch watch(*stub);
  EXPECT_EQ(watch.Next(), "m0=Healthy");
  first.reset();
  FakeKubelet second(folder_);
  const auto again = second.Wait("a/memory");
  EXPECT_EQ(watch.Next(), "end");
  EXPECT_EQ(Watch(*again).Next(), "m0=Healthy");
}

TEST_F(DevicePluginTest, LeavesNoSocketBehind) {
  FakeKubelet kubelet(folder_);
  auto plugin = Start({{"a/memory", {}}});
  EXPECT_NE(kubelet.Wait("a/memory"), nullptr);
  plugin.reset();
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) {
    ++files;
  }
  EXPECT_EQ(files, 1U);  // the kubelet's own
}

}  // namespace
}  // namespace cgpu::kubelet
