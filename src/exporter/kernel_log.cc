#include "exporter/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/file.h"

namespace cgpu::exporter {
namespace {

constexpr std::string_view kBegin = "NVRM: Xid (PCI:";
constexpr std::size_t kRecord = 8192;  // a shorter buffer than the record is EINVAL
constexpr unsigned kFacility = 8;      // the least number that is not the kernel's

std::optional<unsigned> NumberAt(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<Xid> XidIn(std::string_view record) {
  const std::size_t at = record.find(';');
  const auto priority = NumberAt(record);
  if (at == std::string_view::npos || !priority || *priority >= kFacility) {
    return std::nullopt;
  }
  const std::string_view text = record.substr(at + 1);
  const std::size_t close = text.find("): ");
  if (!text.starts_with(kBegin) || close == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = NumberAt(text.substr(close + 3));
  const std::string_view device = text.substr(kBegin.size(), close - kBegin.size());
  return number ? std::optional(Xid{std::string(device), *number}) : std::nullopt;
}

KernelLog::KernelLog(const std::string& path) {
  auto file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (file.ok()) {
    file_ = *std::move(file);
  }
}

void KernelLog::Read() {
  char record[kRecord];
  while (file_.valid()) {
    const ssize_t size = read(file_.get(), record, sizeof(record));
    if (size > 0) {
      if (auto xid = XidIn({record, static_cast<std::size_t>(size)})) {
        last_[std::move(xid->device)] = xid->number;
      }
    } else if (size == 0 || (errno != EPIPE && errno != EINTR)) {  // EPIPE: records were lost
      return;
    }
  }
}

std::optional<unsigned> KernelLog::LastXid(std::string_view bdf) const {
  if (!file_.valid()) {
    return std::nullopt;
  }
  const auto found = last_.find(bdf.substr(0, bdf.rfind('.')));
  return found == last_.end() ? 0 : found->second;
}

}  // namespace cgpu::exporter
