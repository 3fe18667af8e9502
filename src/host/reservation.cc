#include "host/reservation.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "base/result.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr const char* kRequired[] = {"id", "name", "user", "shim-uid", "since"};
constexpr std::size_t kMaxCards = 256;
constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

bool DecodeCard(const Words& line, CardGrant& grant) {
  if (line.size() != 6 || line[1].empty() || !ToUnsigned(line[2], grant.card.index) ||
      !ToNumber(line[3], 10, kMaxU64, grant.card.memory_bytes) ||
      !ToNumber(line[4], 10, kMaxU64, grant.limit_bytes)) {
    return false;
  }
  grant.card.uuid = line[1];
  grant.card.model = line[5];
  return true;
}

bool ToOptional(const std::string& word, std::uint64_t limit, std::optional<std::uint64_t>& value) {
  return ToNumber(word, 10, limit, value.emplace());
}

bool DecodeCompute(const std::string& key, const std::string& value, ComputeRequest& compute) {
  if (key == "compute-percent") {
    return ToOptional(value, 100, compute.percent);
  }
  if (key == "compute-max-percent") {
    return ToOptional(value, 100, compute.max_percent);
  }
  if (key == "compute-weight") {
    return ToOptional(value, kMaxWeight, compute.weight);
  }
  compute.high_priority = true;
  return key == "compute-priority" && value == "high";
}

std::string EncodeCompute(const ComputeRequest& compute) {
  std::string text;
  if (compute.percent) {
    text += JoinLine({"compute-percent", std::to_string(*compute.percent)});
  }
  if (compute.max_percent) {
    text += JoinLine({"compute-max-percent", std::to_string(*compute.max_percent)});
  }
  if (compute.weight) {
    text += JoinLine({"compute-weight", std::to_string(*compute.weight)});
  }
  if (compute.high_priority) {
    text += JoinLine({"compute-priority", "high"});
  }
  return text;
}

bool DecodeScalar(const Words& line, Reservation& reservation) {
  if (line.size() != 2) {
    return false;
  }
  const std::string& key = line[0];
  const std::string& value = line[1];
  if (key == "id") {
    reservation.id = value;
    return IsId(value);
  }
  if (key == "name") {
    reservation.name = value;
    return IsName(value);
  }
  if (key == "user") {
    return ToUnsigned(value, reservation.user);
  }
  if (key == "shim-uid") {
    return ToUnsigned(value, reservation.shim_uid);
  }
  if (key == "engine") {
    reservation.engine_id = value;
    return true;
  }
  if (key == "origin") {
    reservation.origin = value;
    return true;
  }
  if (key == "isolation") {
    reservation.isolated = value != "none";
    return value == "none";
  }
  if (key.starts_with("compute-")) {
    return DecodeCompute(key, value, reservation.compute);
  }
  return key == "since" && ToNumber(value, 10, kMaxU64, reservation.since);
}

}  // namespace

std::string EncodeReservation(const Reservation& reservation) {
  std::string text;
  text += JoinLine({"id", reservation.id});
  text += JoinLine({"name", reservation.name});
  text += JoinLine({"user", std::to_string(reservation.user)});
  text += JoinLine({"shim-uid", std::to_string(reservation.shim_uid)});
  text += JoinLine({"since", std::to_string(reservation.since)});
  if (!reservation.engine_id.empty()) {
    text += JoinLine({"engine", reservation.engine_id});
  }
  if (!reservation.origin.empty()) {
    text += JoinLine({"origin", reservation.origin});
  }
  if (!reservation.isolated) {
    text += JoinLine({"isolation", "none"});
  }
  text += EncodeCompute(reservation.compute);
  for (const CardGrant& grant : reservation.cards) {
    text += JoinLine({"card", grant.card.uuid, std::to_string(grant.card.index),
                      std::to_string(grant.card.memory_bytes), std::to_string(grant.limit_bytes),
                      grant.card.model.empty() ? "-" : grant.card.model});
  }
  return text + ".\n";
}

Result<Reservation> DecodeReservation(std::string_view text) {
  if (!text.ends_with("\n.\n")) {
    return Error{Code::kInvalid, 0, "a grant's file is cut off", {}};
  }
  CGPU_ASSIGN_OR_RETURN(const auto lines, SplitLines(text.substr(0, text.size() - 2)));
  Reservation reservation;
  std::set<std::string> seen;
  for (const Words& line : lines) {
    const bool good = line[0] == "card"
                          ? reservation.cards.size() < kMaxCards &&
                                DecodeCard(line, reservation.cards.emplace_back())
                          : seen.insert(line[0]).second && DecodeScalar(line, reservation);
    if (!good) {
      return Error{Code::kInvalid, 0, "a grant's file has a bad line: " + JoinLine(line), {}};
    }
  }
  const bool complete = std::all_of(std::begin(kRequired), std::end(kRequired),
                                    [&](const char* key) { return seen.contains(key); });
  if (!complete || reservation.cards.empty()) {
    return Error{Code::kInvalid, 0, "a grant's file is incomplete", {}};
  }
  return reservation;
}

std::vector<CardUse> CardUses(const std::vector<Card>& cards, const std::vector<Reservation>& live,
                              std::string_view except) {
  std::vector<CardUse> uses(cards.size());
  for (const Reservation& reservation : live) {
    for (const CardGrant& grant : reservation.cards) {
      for (std::size_t i = 0; i < cards.size(); ++i) {
        if (cards[i].uuid == grant.card.uuid && reservation.id != except) {
          uses[i].bytes += grant.limit_bytes;
          ++uses[i].slices;
        }
      }
    }
  }
  return uses;
}

Result<std::size_t> FindReservation(std::string_view reference,
                                    const std::vector<Reservation>& live) {
  std::vector<std::size_t> found;
  std::optional<std::size_t> named;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i].id == reference) {
      return i;
    }
    if (live[i].name == reference) {
      named = i;
    }
    if (!reference.empty() && live[i].id.starts_with(reference)) {
      found.push_back(i);
    }
  }
  if (named) {
    return *named;
  }
  const std::string name(reference);
  if (found.empty()) {
    return Error{Code::kNotFound, 0, "no container \"" + name + "\" is running",
                 "it may have ended; `cgpu ps` lists those that run"};
  }
  if (found.size() > 1) {
    return Error{Code::kInvalid, 0,
                 "\"" + name + "\" is ambiguous: " + std::to_string(found.size()) +
                     " containers' ids begin with it",
                 "give more of the id, or the name"};
  }
  return found[0];
}

}  // namespace cgpu
