// Answers scrapes by HTTP: GET /metrics and GET /healthz, and nothing else.
#ifndef CGPU_EXPORTER_SERVER_H_
#define CGPU_EXPORTER_SERVER_H_

#include <csignal>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::exporter {

struct Address {
  std::string host;  // an IP address
  int port = 0;
};

// Parses "127.0.0.1:9400" or "[::1]:9400". kInvalid, with the text.
[[nodiscard]] Result<Address> ParseAddress(const std::string& text);
// Returns whether only programs of this host reach the address.
[[nodiscard]] bool IsLoopback(const Address& address);

// Reads a token: the first line of a file. kInvalid: it has less than 16 characters, or characters
// that a header cannot have.
[[nodiscard]] Result<std::string> ReadToken(const std::string& path);
// Returns whether the value of a header "Authorization" has the token. Takes the same time for each
// text of a length.
[[nodiscard]] bool Carries(std::string_view header, const std::string& token);

// Returns the text of the metrics. Called by one thread at a time.
using Scrape = std::function<Result<std::string>()>;

// Serves until one of these signals comes, which all threads block. An empty `token` asks for none.
// `ready`: called once the address is bound.
[[nodiscard]] Result<> Serve(const Address& address, const std::string& token, const Scrape& scrape,
                             const sigset_t& ends_by, const std::function<void()>& ready);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_SERVER_H_
