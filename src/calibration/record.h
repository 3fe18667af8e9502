// Keeps what a GPU showed when it was asked: one file for each GPU, in JSON. It holds for that GPU
// with that driver.
#ifndef CGPU_CALIBRATION_RECORD_H_
#define CGPU_CALIBRATION_RECORD_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "calibration/calibrate.h"
#include "governor/card.h"

namespace cgpu {

struct CardRecord {
  std::string uuid;
  std::string model;
  std::string driver;  // "580.159.04"
  std::string when;    // RFC 3339
  Calibration calibration;
};

// Returns a name and what it means: "at once", "after a restart of the runlist".
[[nodiscard]] std::string_view NameOf(governor::Effect effect);
[[nodiscard]] std::string_view Describe(governor::Effect effect);

// Encode and decode a record. Decoding skips members that a later version has added, and takes an
// effect that it does not know for kUnknown. Pure.
[[nodiscard]] std::string EncodeCard(const CardRecord& record);
[[nodiscard]] Result<CardRecord> DecodeCard(std::string_view text);

// Reads the record <folder>/<UUID>.json of a GPU with this driver. Nothing: it was never asked, or
// with another driver.
[[nodiscard]] Result<std::optional<CardRecord>> ReadCard(const std::string& folder,
                                                         const std::string& uuid,
                                                         const std::string& driver);
// Replaces the record (0644) and makes its folder (0755). Readers see the old text or the new one.
[[nodiscard]] Result<> WriteCard(const std::string& folder, const CardRecord& record);

}  // namespace cgpu

#endif  // CGPU_CALIBRATION_RECORD_H_
