#include "host/events.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"
#include "base/rfc3339.h"
#include "json/json.h"

namespace cgpu {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kMsOfSecond = 1'000;

// Sentences by kind. {key} is a field; {key:mib}, {key:s} and {key:ms} show bytes in MiB,
// milliseconds in seconds and microseconds in milliseconds. {key:one|many} shows the words before
// '|' for 1, and else the number and the words after it. A part in [] is left out where one of its
// fields is missing.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kSentences{{
    {events::kStarted,
     "{name} ({container}) started with {memory_bytes:mib} MiB of GPU {gpu}[; compute time: "
     "{compute}][; for {engine_id}]"},
    {events::kStartRefused, "{who} was refused a slice: {why}[ ({hint})]"},
    {events::kMemoryRefused,
     "{name} ({container}) was refused memory at its limit on GPU {gpu} {count:once|times}[ "
     "in {over_ms:s} s]; the limit is {limit_bytes:mib} MiB; {total:once|times} so far"},
    {events::kCallsRefused,
     "{name} ({container}) made {count:1 driver call|driver calls}[ in {over_ms:s} s] that cgpu "
     "refuses, most often {most}; {total} so far"},
    {events::kMemorySet,
     "the memory limit of {name} ({container}) on GPU {gpu} was set from {from_bytes:mib} MiB to "
     "{to_bytes:mib} MiB"},
    {events::kComputeSet, "the compute time of {name} ({container}) was set from {from} to {to}"},
    {events::kPolicySet, "GPU {gpu} was set from {from} to {to}"},
    {events::kUpgraded,
     "{name} ({container}) was upgraded[ from {from}] to {to}; its calls waited {pause_us:ms} ms"},
    {events::kUpgradeRefused, "{name} ({container}) was not upgraded to {to}: {why}"},
    {events::kForced, "{name} ({container}) is ended by force: {why}"},
    {events::kEnded, "{name} ({container}) ended: {why}"},
    {events::kGpuLost, "GPU {gpu} ({uuid}) answers no more"},
    {events::kGpuBack, "GPU {gpu} ({uuid}) answers again"},
    {events::kDaemonStarted, "cgpud {version} started"},
    {events::kDaemonUpgraded, "cgpud was upgraded[ from {from}] to {to}"},
    {events::kDaemonStopped, "cgpud {version} stopped"},
    {events::kLeftOut, "{count:1 event was|events were} left out, since too many came from {who}"},
}};

std::string Divided(std::uint64_t number, std::uint64_t by) {
  char text[32];
  std::snprintf(text, sizeof(text), number % by == 0 ? "%.0f" : "%.1f",
                static_cast<double>(number) / static_cast<double>(by));
  return text;
}

// Returns the field that "key", "key:unit" or "key:one|many" names; nothing if it is missing.
std::optional<std::string> Filled(const Event& event, std::string_view word) {
  const std::size_t colon = std::min(word.find(':'), word.size());
  const std::string key(word.substr(0, colon));
  if (!event.fields.contains(key)) {
    return std::nullopt;
  }
  const std::string_view unit = colon == word.size() ? "" : word.substr(colon + 1);
  if (unit.empty()) {
    return Printable(TextOf(event, key));
  }
  if (const std::size_t bar = unit.find('|'); bar != std::string_view::npos) {
    return NumberOf(event, key) == 1 ? std::string(unit.substr(0, bar))
                                     : TextOf(event, key) + " " + std::string(unit.substr(bar + 1));
  }
  return Divided(NumberOf(event, key), unit == "mib" ? std::uint64_t{1} << 20 : kMsOfSecond);
}

// Fills in a template without []. A missing field is "?"; `whole` says whether there was one.
std::string Fill(const Event& event, std::string_view text, bool& whole) {
  std::string sentence;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('{'), text.size());
    sentence += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) {
      break;
    }
    const std::size_t close = text.find('}');
    const auto field = Filled(event, text.substr(1, close - 1));
    whole = whole && field.has_value();
    sentence += field.value_or("?");
    text.remove_prefix(close + 1);
  }
  return sentence;
}

std::optional<std::uint64_t> ParseTime(const std::string& text) {
  std::tm parts{};
  unsigned ms = 0;
  char zone = 0;
  char more = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3u%c%c", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &ms, &zone,
                  &more) != 8 ||
      zone != 'Z') {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const std::time_t seconds = timegm(&parts);
  return seconds < 0 ? std::nullopt
                     : std::optional(static_cast<std::uint64_t>(seconds) * kMsOfSecond + ms);
}

bool HasIndex(const std::string& list, const std::string& index) {
  return ("," + list + ",").find("," + index + ",") != std::string::npos;
}

}  // namespace

std::string EncodeEvent(const Event& event) {
  OrderedJson json{{"time", Rfc3339Ms(event.time_ms)}, {"kind", event.kind}};
  for (const auto& [key, value] : event.fields) {
    if (const auto* const text = std::get_if<std::string>(&value)) {
      json[key] = text->size() <= kMaxEventText ? *text : text->substr(0, kMaxEventText) + "...";
    } else {
      json[key] = std::get<std::uint64_t>(value);
    }
  }
  return json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

std::optional<Event> DecodeEvent(std::string_view line) {
  if (line.size() > kMaxEventLine || NestsDeeper(line, 1)) {
    return std::nullopt;
  }
  const OrderedJson json = ParseOrderedJson(line);
  if (!json.is_object()) {
    return std::nullopt;
  }
  Event event;
  std::optional<std::uint64_t> time;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      if (key == "time") {
        time = ParseTime(text);
      } else if (key == "kind") {
        event.kind = text;
      } else {
        event.fields[key] = text;
      }
    } else if (value.is_number_unsigned()) {
      event.fields[key] = value.get<std::uint64_t>();
    } else {
      return std::nullopt;
    }
  }
  event.time_ms = time.value_or(0);
  return time && !event.kind.empty() ? std::optional(std::move(event)) : std::nullopt;
}

std::string TextOf(const Event& event, const std::string& key) {
  const auto found = event.fields.find(key);
  if (found == event.fields.end()) {
    return "";
  }
  const auto* const text = std::get_if<std::string>(&found->second);
  return text != nullptr ? *text : std::to_string(std::get<std::uint64_t>(found->second));
}

std::uint64_t NumberOf(const Event& event, const std::string& key) {
  const auto found = event.fields.find(key);
  const auto* const number =
      found == event.fields.end() ? nullptr : std::get_if<std::uint64_t>(&found->second);
  return number == nullptr ? 0 : *number;
}

std::string SentenceOf(const Event& event) {
  const auto* const known =
      std::ranges::find(kSentences, event.kind, [](const auto& row) { return row.first; });
  if (known == kSentences.end()) {
    std::string line = Printable(event.kind);
    for (const auto& [key, value] : event.fields) {
      line += " " + Printable(key) + "=" + Printable(TextOf(event, key));
    }
    return line;
  }
  std::string sentence;
  std::string_view text = known->second;
  while (!text.empty()) {
    bool whole = true;
    const std::size_t open = std::min(text.find('['), text.size());
    sentence += Fill(event, text.substr(0, open), whole);
    text.remove_prefix(open);
    if (text.empty()) {
      break;
    }
    const std::size_t close = text.find(']');
    whole = true;
    const std::string part = Fill(event, text.substr(1, close - 1), whole);
    sentence += whole ? part : "";
    text.remove_prefix(close + 1);
  }
  return sentence;
}

bool Matches(const EventFilter& filter, const Event& event) {
  if (event.time_ms < filter.since_ms) {
    return false;
  }
  const std::string& wanted = filter.container;
  const std::string id = TextOf(event, "container");
  if (!wanted.empty() && TextOf(event, "name") != wanted && !id.starts_with(wanted) &&
      (filter.id.empty() || id != filter.id) && !TextOf(event, "engine_id").starts_with(wanted)) {
    return false;
  }
  return filter.gpu.empty() || HasIndex(TextOf(event, "gpu"), filter.gpu) ||
         TextOf(event, "uuid") == filter.gpu;
}

Result<std::uint64_t> ParseAge(std::string_view text) {
  constexpr std::array<std::pair<char, std::uint64_t>, 4> kUnits{
      {{'s', 1}, {'m', 60}, {'h', 3'600}, {'d', 86'400}}};
  constexpr std::uint64_t kMost = 1'000'000;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [tail, error] = std::from_chars(text.data(), end, number);
  const auto* const unit = std::ranges::find_if(
      kUnits, [&](const auto& one) { return tail + 1 == end && one.first == *tail; });
  if (error != std::errc() || unit == kUnits.end() || number > kMost) {
    return Error{Code::kInvalid, 0, "this is no time: " + std::string(text),
                 "give a number and a unit: 90s, 15m, 1h, 7d"};
  }
  return number * unit->second * kMsOfSecond;
}

}  // namespace cgpu
