// The messages between cgpu's own processes, and the files of the registry. For every input: what
// is accepted is written again as text that means the same.
#include <string>

#include "host/gpu_settings.h"
#include "host/reservation.h"
#include "host/saved_settings.h"
#include "protocol/admin.h"
#include "protocol/config.h"
#include "protocol/creation.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;

namespace {

template <class Decode, class Encode>
void CheckRound(const std::string& text, Decode decode, Encode encode, const char* sentence) {
  const auto first = decode(text);
  if (!first.ok()) {
    Require(!first.error().what.empty(), "an error has a sentence");
    return;
  }
  const std::string written = encode(first.value());
  const auto second = decode(written);
  Require(second.ok(), sentence);
  Require(encode(second.value()) == written, sentence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cgpu::fuzz::Input input(data, size);
  const auto kind = input.Take<char>();
  const std::string text = input.TakeRest();
  switch (kind) {
    case 'c':
      CheckRound(text, cgpu::DecodeConfig, cgpu::EncodeConfig,
                 "a configuration is written as read");
      break;
    case 'd':
      CheckRound(text, cgpu::DecodeCreationRequest, cgpu::EncodeCreationRequest,
                 "a request for a slice is written as read");
      break;
    case 'e':
      CheckRound(text, cgpu::DecodeCreationReply, cgpu::EncodeCreationReply,
                 "a reply with a slice is written as read");
      break;
    case 'g':
      CheckRound(text, cgpu::DecodeReservation, cgpu::EncodeReservation,
                 "a reservation is written as read");
      break;
    case 'k':
      CheckRound(text, cgpu::DecodeGpuSettings, cgpu::EncodeGpuSettings,
                 "a GPU's settings are written as read");
      break;
    case 'p':
      CheckRound(text, cgpu::DecodeSaved, cgpu::EncodeSaved, "saved settings are written as read");
      break;
    case 'l':
      CheckRound(text, cgpu::DecodeListener, cgpu::EncodeListener, "a listener is written as read");
      break;
    case 'r':
      CheckRound(text, cgpu::DecodeRequest, cgpu::EncodeRequest, "a request is written as read");
      break;
    case 's':
      CheckRound(text, cgpu::DecodeStatus, cgpu::EncodeStatus, "a status is written as read");
      break;
    case 'm':
      CheckRound(text, cgpu::DecodeGpuMemory, cgpu::EncodeGpuMemory,
                 "a GPU's memory is written as read");
      break;
    case 'u':
      (void)cgpu::DecodeUpgraded(text);
      break;
    default:
      (void)cgpu::DecodeOutcome(text);
      break;
  }
  return 0;
}
