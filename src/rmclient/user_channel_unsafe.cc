#include <atomic>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/user_channel.h"

namespace cgpu::rmclient {
namespace {

constexpr std::size_t kErrorBytes = 4096;
constexpr std::size_t kPage = 0x10000;
constexpr std::size_t kEntryBytes = 8;
constexpr std::size_t kGpPut = 0x8C;  // Nvc36fControl
constexpr std::size_t kInfo32 = 8;    // offset in NvNotification
constexpr std::size_t kStatus = 12;   // info16, and status in the upper half
constexpr std::size_t kDoorbellBytes = 0x10000;
constexpr std::size_t kNotifyChannelPending = 0x90;  // clc361.h

constexpr rm::NvU32 kChannelClasses[] = {
    rm::BLACKWELL_CHANNEL_GPFIFO_B, rm::BLACKWELL_CHANNEL_GPFIFO_A, rm::HOPPER_CHANNEL_GPFIFO_A,
    rm::AMPERE_CHANNEL_GPFIFO_A,    rm::TURING_CHANNEL_GPFIFO_A,    rm::VOLTA_CHANNEL_GPFIFO_A};
constexpr rm::NvU32 kDoorbellClasses[] = {rm::VOLTA_USERMODE_A, rm::TURING_USERMODE_A,
                                          rm::AMPERE_USERMODE_A, rm::HOPPER_USERMODE_A,
                                          rm::BLACKWELL_USERMODE_A};

Result<Mapping> MapDoorbell(Client& client, const Gpu& gpu, rm::NvU32 class_number) {
  rm::NV_HOPPER_USERMODE_A_PARAMS params{};
  params.bBar1Mapping = 1;
  const bool takes_params = class_number >= rm::HOPPER_USERMODE_A;
  rm::NvHandle doorbell = 0;
  CGPU_TRY(
      Checked(client.Alloc(gpu.subdevice, &doorbell, class_number, takes_params ? &params : nullptr,
                           takes_params ? sizeof(params) : 0),
              "asking for the doorbell of GPU " + gpu.bdf));
  return Mapping::Make(client, gpu, doorbell, kDoorbellBytes);
}

}  // namespace

// A locked instruction does it. ThreadSanitizer knows no std::atomic_thread_fence().
void StoreFence() {
  static std::atomic<std::uint32_t> fences{0};
  fences.fetch_add(1, std::memory_order_seq_cst);
}

Result<UserChannel> UserChannel::Make(Client& client, const Gpu& gpu, const Layout& layout) {
  const std::string what = "making a channel on GPU " + gpu.bdf;
  CGPU_ASSIGN_OR_RETURN(const auto classes, ClassesOf(client, gpu));
  const rm::NvU32 doorbell_class = FirstOf(kDoorbellClasses, classes);
  const rm::NvU32 channel_class = FirstOf(kChannelClasses, classes);
  if (doorbell_class == 0 || channel_class == 0) {
    return Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " has no channels that are known here",
                 "GPUs from Volta to Blackwell are known"};
  }
  rm::VidmemRequest request;
  request.size = (layout.bytes + kPage - 1) / kPage * kPage;
  rm::NvHandle memory = 0;
  rm::NvHandle errors = 0;
  CGPU_TRY(Checked(AllocVidmem(client, gpu, &request, &memory), what));
  CGPU_TRY(Checked(AllocHostToRead(client, gpu, kErrorBytes, &errors), what));
  CGPU_ASSIGN_OR_RETURN(auto area, Mapping::Make(client, gpu, memory, request.size));
  CGPU_ASSIGN_OR_RETURN(
      auto read, Mapping::Make(client, gpu, errors, kErrorBytes, Mapping::Kind::kHostToRead));
  CGPU_ASSIGN_OR_RETURN(auto doorbell, MapDoorbell(client, gpu, doorbell_class));
  UserChannel made(layout, std::move(area), std::move(read), std::move(doorbell));
  CGPU_ASSIGN_OR_RETURN(made.address_, MapForGpu(client, gpu, memory, request.size));
  CGPU_TRY(Checked(AllocChannelGroup(client, gpu, &made.group_), what));
  CGPU_ASSIGN_OR_RETURN(made.channel_, MakeChannel(client, gpu, made.group_, channel_class,
                                                   {errors, memory, layout.userd,
                                                    made.address_ + layout.ring, layout.entries}));
  rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS token{};
  CGPU_TRY(Checked(client.Control(made.channel_, rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
                                  &token, sizeof(token)),
                   what));
  made.token_ = token.workSubmitToken;
  return made;
}

void UserChannel::Store(std::size_t offset, std::uint32_t word) {
  *reinterpret_cast<volatile std::uint32_t*>(area_.data() + offset) = word;
}

std::uint32_t UserChannel::Load(std::size_t offset) const {
  return *reinterpret_cast<const volatile std::uint32_t*>(area_.data() + offset);
}

void UserChannel::SetEntry(std::size_t entry, std::size_t methods, std::uint64_t words) {
  const std::uint64_t value = (address_ + methods) | words << 42 | std::uint64_t{1} << 41;
  const std::size_t at = layout_.ring + entry * kEntryBytes;
  Store(at, static_cast<std::uint32_t>(value));
  Store(at + sizeof(std::uint32_t), static_cast<std::uint32_t>(value >> 32));
}

void UserChannel::Submit(std::uint32_t put) {
  StoreFence();
  Store(layout_.userd + kGpPut, put);
  StoreFence();
  *reinterpret_cast<volatile std::uint32_t*>(doorbell_.data() + kNotifyChannelPending) = token_;
}

rm::NvU32 UserChannel::Fault() const {
  const auto load = [this](std::size_t offset) {
    return *reinterpret_cast<const volatile std::uint32_t*>(errors_.data() + offset);
  };
  return (load(kStatus) >> 16) == 0 ? 0 : load(kInfo32);
}

}  // namespace cgpu::rmclient
