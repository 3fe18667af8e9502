#include "page/request_head.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace cgpu::page {
namespace {

constexpr int kBadRequest = 400;
constexpr int kLengthRequired = 411;
constexpr int kBodyTooLarge = 413;
constexpr int kEncoded = 415;

// The library reads a name up to the colon, whatever its case.
bool Names(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         strncasecmp(line.data(), name.data(), name.size()) == 0;
}

std::optional<std::size_t> Number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  std::size_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && stop == last ? std::optional(number) : std::nullopt;
}

}  // namespace

HeadVerdict JudgeHead(std::string& head, std::size_t most_body) {
  constexpr std::string_view kLength = "content-length";
  std::optional<std::size_t> body;
  std::size_t lines = 0;
  for (std::size_t at = 0, next = 0; at < head.size(); at = next) {
    next = head.find('\n', at);
    next = next == std::string::npos ? head.size() : next + 1;
    const std::string_view line = std::string_view(head).substr(at, next - at);
    if (++lines > kMostLines) {
      return {kHeadTooLarge, 0};
    }
    if (Names(line, "range")) {
      head[at] = '-';
    } else if (most_body == 0) {
      continue;
    } else if (Names(line, "transfer-encoding")) {
      return {kLengthRequired, 0};
    } else if (Names(line, "content-encoding")) {
      return {kEncoded, 0};
    } else if (Names(line, kLength)) {
      const auto length = Number(line.substr(kLength.size() + 1));
      if (!length || body) {
        return {kBadRequest, 0};
      }
      body = length;
    }
  }
  return {body.value_or(0) > most_body ? kBodyTooLarge : 0, body.value_or(0)};
}

}  // namespace cgpu::page
