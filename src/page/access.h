// Decides who may read what our programs show by HTTP. Pure, but for ReadToken().
#ifndef CGPU_PAGE_ACCESS_H_
#define CGPU_PAGE_ACCESS_H_

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::page {

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
// Returns the token that requests to the address must carry; empty: none. `path`: of its file, or
// empty; `setting` names it. kPermission: other hosts reach the address, and there is no token.
[[nodiscard]] Result<std::string> TokenFor(const Address& address, const std::string& path,
                                           const std::string& setting);
// Returns whether the value of a header "Authorization" has the token: as "Bearer TOKEN", or as the
// password of any user in the form "Basic". Takes the same time for each token of a length.
[[nodiscard]] bool Carries(std::string_view header, const std::string& token);
// Value of the header "WWW-Authenticate" where the token is missing: browsers ask their user.
inline constexpr char kAskForToken[] = "Basic realm=\"cgpu\"";

// Returns whether the value of a header "Host" is an IP address or "localhost", or empty. Another
// site can let a name of its own lead to this host, and then read what needs no token (DNS
// rebinding).
[[nodiscard]] bool NamesNoSite(std::string_view host);

// Headers of each answer: a browser runs no script and loads nothing from elsewhere, shows the page
// in no other page, and keeps nothing.
inline constexpr auto kHeaders = std::to_array<std::array<const char*, 2>>({
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
});

}  // namespace cgpu::page

#endif  // CGPU_PAGE_ACCESS_H_
