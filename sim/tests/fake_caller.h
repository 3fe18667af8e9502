// A caller inside the test: its memory is the test's own.
#ifndef CGPU_SIM_TESTS_FAKE_CALLER_H_
#define CGPU_SIM_TESTS_FAKE_CALLER_H_

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "sim/driver/caller.h"

namespace cgpu::sim {

class FakeCaller final : public Caller {
 public:
  std::uint32_t tgid = 100;
  std::uint32_t euid = 1000;
  bool admin = false;
  bool nice = false;
  std::map<int, FileId> fds;
  std::set<unsigned> minors;

  bool Read(rm::NvP64 address, std::span<std::byte> bytes) override {
    if (address < kLowest) {
      return false;
    }
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(address), bytes.size());
    return true;
  }
  bool Write(rm::NvP64 address, std::span<const std::byte> bytes) override {
    if (address < kLowest) {
      return false;
    }
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
    return true;
  }
  std::shared_ptr<Pages> PagesAt(rm::NvP64 /*address*/, rm::NvU64 /*length*/) override {
    return nullptr;
  }
  std::uint32_t Tgid() override { return tgid; }
  std::uint32_t Euid() override { return euid; }
  bool IsAdmin() override { return admin; }
  bool IsNice() override { return nice; }
  FileId ResolveFd(int fd) override {
    const auto found = fds.find(fd);
    return found == fds.end() ? 0 : found->second;
  }
  std::map<int, FileId> FilesByFd() override { return fds; }
  void LookAhead(bool /*files*/) override {}
  std::set<unsigned> OpenMinors() override { return minors; }
  std::optional<std::uint32_t> PidAsSeen(std::uint32_t pid) override { return pid; }

 private:
  static constexpr rm::NvP64 kLowest = 0x10000;  // below it nothing is ever mapped
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_TESTS_FAKE_CALLER_H_
