#include "page/access.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/base64.h"
#include "base/file.h"

namespace cgpu::page {
namespace {

constexpr std::size_t kLeastToken = 16;
constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kBasic = "Basic ";

Error Wrong(std::string what, std::string hint) {
  return Error{Code::kInvalid, 0, std::move(what), std::move(hint)};
}

bool IsAddress(int family, const std::string& host) {
  in6_addr bytes{};
  return inet_pton(family, host.c_str(), &bytes) == 1;
}

bool IsInBrackets(std::string_view host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']';
}

bool IsSame(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace

Result<Address> ParseAddress(const std::string& text) {
  const Error wrong = Wrong("\"" + text + "\" is no IP address with a port",
                            "for example 127.0.0.1:9400, or [::1]:9400");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return wrong;
  }
  Address address{text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const auto [tail, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  const bool six = IsInBrackets(address.host);
  if (six) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (error != std::errc() || tail != end || address.port < 1 || address.port > 65535 ||
      !IsAddress(six ? AF_INET6 : AF_INET, address.host)) {
    return wrong;
  }
  return address;
}

bool IsLoopback(const Address& address) {
  return address.host == "::1" || address.host.starts_with("127.");
}

Result<std::string> ReadToken(const std::string& path) {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  std::string token = text.substr(0, text.find('\n'));
  const bool sound = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  if (!sound || token.size() < kLeastToken) {
    return Wrong(path + " has no token of at least " + std::to_string(kLeastToken) +
                     " printable characters in its first line",
                 "make one: openssl rand -hex 32");
  }
  return token;
}

Result<std::string> TokenFor(const Address& address, const std::string& path,
                             const std::string& setting) {
  if (!path.empty()) {
    return ReadToken(path);
  }
  if (!IsLoopback(address)) {
    return Error{Code::kPermission, 0,
                 address.host + ":" + std::to_string(address.port) +
                     " can be reached from other hosts, and no token is asked for there",
                 "name a file with a token (" + setting + "), or listen at 127.0.0.1"};
  }
  return std::string();
}

bool Carries(std::string_view header, const std::string& token) {
  if (header.starts_with(kBearer)) {
    return IsSame(header.substr(kBearer.size()), token);
  }
  if (!header.starts_with(kBasic)) {
    return false;
  }
  const auto decoded = FromBase64(header.substr(kBasic.size()));
  const std::size_t colon = decoded ? decoded->find(':') : std::string::npos;
  return colon != std::string::npos && IsSame(std::string_view(*decoded).substr(colon + 1), token);
}

bool NamesNoSite(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && !host.ends_with(']')) {
    host = host.substr(0, colon);
  }
  if (IsInBrackets(host)) {
    return IsAddress(AF_INET6, std::string(host.substr(1, host.size() - 2)));
  }
  return host.empty() || host == "localhost" || IsAddress(AF_INET, std::string(host));
}

}  // namespace cgpu::page
