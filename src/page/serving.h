// Lets a server of cpp-httplib serve on a thread of its own.
#ifndef CGPU_PAGE_SERVING_H_
#define CGPU_PAGE_SERVING_H_

#include <atomic>
#include <thread>

namespace httplib {
class Server;
}  // namespace httplib

namespace cgpu::page {

class Serving {
 public:
  // `server` is bound to its address, and outlives this.
  explicit Serving(httplib::Server& server);
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  // Ends the server. Waits for the requests that are under way.
  ~Serving();

  // Returns whether the server has ended by itself. For any thread.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  httplib::Server& server_;
  std::atomic<bool> ended_{false};
  std::thread thread_;  // begins last
};

}  // namespace cgpu::page

#endif  // CGPU_PAGE_SERVING_H_
