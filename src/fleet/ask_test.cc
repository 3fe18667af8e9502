#include "fleet/ask.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"

namespace cgpu::fleet {
namespace {

using testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

// An exporter that answers with a text.
class FakeExporter {
 public:
  explicit FakeExporter(std::string text) : text_(std::move(text)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(4); };
    server_.set_keep_alive_max_count(1);
    server_.Get(
        "/api/overview", [this](const httplib::Request& request, httplib::Response& answer) {
          if (request.get_header_value("Authorization") == std::string("Bearer ") + kToken) {
            answer.set_content(text_, "application/json");
          } else {
            answer.status = 401;
          }
        });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  FakeExporter(const FakeExporter&) = delete;
  FakeExporter& operator=(const FakeExporter&) = delete;
  ~FakeExporter() {
    while (!server_.is_running()) {
      std::this_thread::yield();
    }
    server_.stop();
    thread_.join();
  }

  [[nodiscard]] Exporter exporter() const { return {"a", "127.0.0.1:" + std::to_string(port_)}; }

 private:
  const std::string text_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

// A socket of a program that accepts no connection: the kernel does, and then nothing comes.
class Silent {
 public:
  Silent() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_.get(), any, size), 0);
    EXPECT_EQ(listen(socket_.get(), 8), 0);
    EXPECT_EQ(getsockname(socket_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  [[nodiscard]] Exporter exporter() const { return {"s", "127.0.0.1:" + std::to_string(port_)}; }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

TEST(Ask, AsksManyAndKeepsTheirOrder) {
  std::vector<std::unique_ptr<FakeExporter>> fakes;
  for (int i = 0; i < 20; ++i) {
    fakes.push_back(std::make_unique<FakeExporter>(std::to_string(i)));
  }
  std::vector<Exporter> exporters;
  for (std::size_t i = 0; i < 200; ++i) {
    exporters.push_back(fakes[i % fakes.size()]->exporter());
  }
  const auto answers = AskExporters(exporters, kToken, {std::chrono::seconds(60)});
  ASSERT_EQ(answers.size(), exporters.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i].ok()) << answers[i].error().what;
    EXPECT_EQ(*answers[i], std::to_string(i % fakes.size()));
  }
}

TEST(Ask, SaysWhyThereIsNoAnswer) {
  const FakeExporter one("0123456789");
  const Silent silent;
  AskLimits limits{std::chrono::milliseconds(300)};
  auto answers = AskExporters({silent.exporter(), {"new", ""}}, kToken, limits);
  EXPECT_EQ(answers[0].error().code, Code::kUnavailable);
  EXPECT_THAT(answers[0].error().what, HasSubstr("gives no answer"));
  EXPECT_THAT(answers[1].error().what, HasSubstr("has no address yet"));
  limits.time = std::chrono::seconds(60);
  EXPECT_EQ(AskExporters({one.exporter()}, "another", limits)[0].error().code, Code::kPermission);
  EXPECT_TRUE(AskExporters({}, kToken).empty());
}

TEST(Ask, TakesNoMoreThanTheLimits) {
  const FakeExporter one("0123456789");
  AskLimits limits{std::chrono::seconds(60), 10, 1000};
  EXPECT_TRUE(AskExporters({one.exporter()}, kToken, limits)[0].ok());
  limits.answer_bytes = 9;
  EXPECT_THAT(AskExporters({one.exporter()}, kToken, limits)[0].error().what,
              HasSubstr("more than can be taken"));
  limits = {std::chrono::seconds(60), 100, 15};
  int taken = 0;
  for (const auto& answer : AskExporters({one.exporter(), one.exporter()}, kToken, limits)) {
    taken += answer.ok() ? 1 : 0;
  }
  EXPECT_EQ(taken, 1);
}

}  // namespace
}  // namespace cgpu::fleet
