#include "page/serving.h"

#include <httplib.h>

#include <chrono>

namespace cgpu::page {
namespace {

// Time between two looks whether the server has ended.
constexpr std::chrono::milliseconds kBetweenStops{10};

}  // namespace

Serving::Serving(httplib::Server& server)
    : server_(server), thread_([this] {
        (void)server_.listen_after_bind();
        ended_ = true;
      }) {}

Serving::~Serving() {
  while (!ended_) {  // a server that does not run yet does not hear it
    server_.stop();
    std::this_thread::sleep_for(kBetweenStops);
  }
  thread_.join();
}

}  // namespace cgpu::page
