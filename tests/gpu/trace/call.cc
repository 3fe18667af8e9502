#include "gpu/trace/call.h"

#include <algorithm>
#include <cstdio>

#include "boundary/names.h"
#include "boundary/policy.h"
#include "rm/class_table.h"
#include "rm/control_route.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::trace {
namespace {

using boundary::Load;

std::string Hex(std::uint64_t value) {
  char text[24];
  (void)std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// Zeros that follow each other as 00*N, parts joined by +.
std::string Hex(const Bytes& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr std::ptrdiff_t kFewest = 8;  // zeros worth a part of their own
  std::string text;
  bool apart = false;
  for (auto at = bytes.begin(); at != bytes.end();) {
    const auto end =
        std::find_if(at, bytes.end(), [](std::byte one) { return one != std::byte{}; });
    const bool run = end - at >= kFewest;
    text += (run || apart) && !text.empty() ? "+" : "";
    apart = run;
    if (run) {
      text += "00*" + std::to_string(end - at);
      at = end;
      continue;
    }
    const auto value = std::to_integer<unsigned>(*at++);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

bool IsLongAlloc(const Call& call) {
  return call.nr == rm::NV_ESC_RM_ALLOC && call.image.size() >= sizeof(rm::NVOS64_PARAMETERS);
}

std::uint32_t FlagsOf(const Call& call) {
  if (call.nr == rm::NV_ESC_RM_CONTROL) {
    return Load<rm::NVOS54_PARAMETERS>(call.asked).flags;
  }
  return IsLongAlloc(call) ? Load<rm::NVOS64_PARAMETERS>(call.asked).flags : 0;
}

std::uint32_t ParamsSizeSaid(const Call& call) {
  return IsLongAlloc(call) ? Load<rm::NVOS64_PARAMETERS>(call.asked).paramsSize
                           : Load<rm::NVOS21_PARAMETERS>(call.asked).paramsSize;
}

// The call with what it selects, and its bytes: as boundary/describe.h has it.
std::string Described(const Call& call) {
  if (call.file == "uvm") {
    return boundary::UvmName(call.request) + " " + std::to_string(call.image.size());
  }
  std::string text = boundary::EscapeName(call.nr) + " ";
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC: {
      // Programs say no size: it is not known where our tables lack the class.
      const bool unknown = call.params.address != 0 && call.params.size == 0 &&
                           rm::FindClass(*call.Class()) == nullptr;
      return text + boundary::ClassName(*call.Class()) + " " +
             (unknown ? "-" : std::to_string(call.params.size));
    }
    case rm::NV_ESC_RM_CONTROL:
      return text + boundary::ControlName(*call.Command()) + " " +
             std::to_string(Load<rm::NVOS54_PARAMETERS>(call.asked).paramsSize);
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      text += boundary::Hex("function", Load<rm::NVOS32_PARAMETERS>(call.asked).function) + " ";
      break;
    default:
      break;
  }
  return text + std::to_string(call.image.size());
}

std::string Handle(const char* key, std::uint32_t handle, std::uint32_t client) {
  const std::string hex = Hex(handle);
  return std::string(" ") + key + "=" + (handle == client ? "client" : hex.substr(2));
}

std::string OfAlloc(const Call& call) {
  const auto api =
      Load<rm::NVOS21_PARAMETERS>(call.asked);  // the long form begins as the short one
  const std::uint32_t made = Load<rm::NVOS21_PARAMETERS>(call.image).hObjectNew;
  const std::uint32_t client = boundary::IsClientClass(api.hClass) ? made : api.hRoot;
  std::string text = IsLongAlloc(call) ? "" : " form=32";
  text += Handle("object", made, client);
  text += boundary::IsClientClass(api.hClass) ? "" : Handle("parent", api.hObjectParent, client);
  if (api.pAllocParms == 0) {
    return text + " params=none";
  }
  return ParamsSizeSaid(call) == 0 ? text : text + " said=" + std::to_string(ParamsSizeSaid(call));
}

std::string OfMapping(const Call& call) {
  const auto api = Load<rm::nv_ioctl_nvos33_parameters_with_fd>(call.asked);
  return Handle("device", api.params.hDevice, api.params.hClient) +
         Handle("memory", api.params.hMemory, api.params.hClient) +
         " length=" + Hex(api.params.length) + " flags=" + Hex(api.params.flags) +
         " fd=" + std::to_string(api.fd);
}

// Returns what the call's own parameters say.
std::string Said(const Call& call) {
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC:
      return OfAlloc(call);
    case rm::NV_ESC_RM_ALLOC_MEMORY: {
      const auto api = Load<rm::NVOS02_PARAMETERS>(call.image);
      return Handle("object", api.hObjectNew, api.hRoot) +
             Handle("parent", api.hObjectParent, api.hRoot);
    }
    case rm::NV_ESC_RM_CONTROL: {
      const auto api = Load<rm::NVOS54_PARAMETERS>(call.asked);
      return Handle("object", api.hObject, api.hClient);
    }
    case rm::NV_ESC_RM_FREE: {
      const auto api = Load<rm::NVOS00_PARAMETERS>(call.asked);
      return Handle("object", api.hObjectOld, api.hRoot) +
             Handle("parent", api.hObjectParent, api.hRoot);
    }
    case rm::NV_ESC_RM_MAP_MEMORY:
      return OfMapping(call);
    case rm::NV_ESC_REGISTER_FD:
      return " fd=" + std::to_string(Load<std::int32_t>(call.asked));
    case rm::NV_ESC_RM_IDLE_CHANNELS:
      return " timeout=" + std::to_string(Load<rm::NVOS30_PARAMETERS>(call.asked).timeout);
    default:
      return "";
  }
}

std::string Details(const Call& call, const LineOptions& options) {
  std::string text = " file=" + std::to_string(call.fd);
  if (call.file == "uvm") {
    return text;
  }
  if (const auto command = call.Command()) {
    text += " cmd=" + Hex(*command);
  }
  if (const auto number = call.Class()) {
    text += " class=" + Hex(*number);
  }
  text += call.wrapped ? " wrapped=1" : "";
  text += Said(call);
  if (const std::uint32_t flags = FlagsOf(call); flags != 0) {
    text += " callflags=" + Hex(flags);
  }
  const bool shown =
      options.bytes == Shown::kAll || (options.bytes == Shown::kFirmware && call.ToFirmware());
  return shown && !call.in.empty() ? text + " in=" + Hex(call.in) + " out=" + Hex(call.out) : text;
}

}  // namespace

std::string FileName(std::string_view link) {
  // A simulated file's name leads to another file once it was opened again.
  constexpr std::string_view kDeleted = " (deleted)";
  if (link.ends_with(kDeleted)) {
    link.remove_suffix(kDeleted.size());
  }
  constexpr std::string_view kGpu = "nvidia";
  const std::string_view name = link.substr(link.rfind('/') + 1);
  if (!name.starts_with(kGpu) || link.find("/dev/") == std::string_view::npos) {
    return "";
  }
  if (name == "nvidiactl" || name == "nvidia-uvm") {
    return name == "nvidiactl" ? "ctl" : "uvm";
  }
  const std::string_view number = name.substr(kGpu.size());
  const bool gpu = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  return gpu ? "gpu" + std::string(number) : std::string(name);
}

std::optional<std::uint32_t> Call::Command() const {
  return file != "uvm" && nr == rm::NV_ESC_RM_CONTROL
             ? std::optional(Load<rm::NVOS54_PARAMETERS>(asked).cmd)
             : std::nullopt;
}

std::optional<std::uint32_t> Call::Class() const {
  if (file == "uvm") {
    return std::nullopt;
  }
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC:  // the long form begins as the short one
      return Load<rm::NVOS21_PARAMETERS>(asked).hClass;
    case rm::NV_ESC_RM_ALLOC_MEMORY:
      return Load<rm::NVOS02_PARAMETERS>(asked).hClass;
    default:
      return std::nullopt;
  }
}

bool Call::ToFirmware() const {
  const auto command = Command();
  if (!command) {
    return false;
  }
  // The object's class is not known here: the command's number names the class that it is meant
  // for.
  const rm::ControlRoute route = rm::RouteOf(*command, *command >> 16U);
  return route != rm::ControlRoute::kNothing && route != rm::ControlRoute::kTable;
}

std::optional<std::size_t> Call::StatusAt(rm::Branch branch) const {
  std::optional<std::size_t> at = file == "uvm" ? std::nullopt : rm::StatusOffset(nr, image.size());
  if (const rm::UvmRow* const row = file == "uvm" ? rm::FindUvm(request) : nullptr) {
    at = row->status.At(branch);
  }
  return at && *at + sizeof(std::uint32_t) <= image.size() ? at : std::nullopt;
}

Block ParamsOf(const Call& call, rm::Branch branch) {
  if (call.Command()) {
    const auto api = Load<rm::NVOS54_PARAMETERS>(call.asked);
    return {api.params, api.params == 0 ? 0 : api.paramsSize};
  }
  if (call.file == "uvm" || call.nr != rm::NV_ESC_RM_ALLOC) {
    return {};
  }
  const auto api = Load<rm::NVOS21_PARAMETERS>(call.asked);
  const rm::ClassRow* const row = rm::FindClass(api.hClass);
  const std::uint32_t size = row == nullptr ? ParamsSizeSaid(call) : row->Size(branch);
  return {api.pAllocParms, api.pAllocParms == 0 ? 0 : size};
}

std::string Line(int process, const Call& call, const Answer* answer, const LineOptions& options) {
  const auto at = call.StatusAt(options.branch);
  const std::string status = at ? Hex(Load<std::uint32_t>(call.image, *at)) : "-";
  std::string text = std::to_string(process) + " " + call.file + " " + Described(call) + " " +
                     (answer == nullptr ? status : Hex(answer->status)) + " " +
                     std::to_string(call.error) + (answer == nullptr ? " driver" : " trace");
  if (answer != nullptr) {
    text += " was=" + status;
  }
  return options.details ? text + Details(call, options) : text;
}

}  // namespace cgpu::trace
