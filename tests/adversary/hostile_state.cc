// A version of the shim that hands on what it was handed, but not as it was: KIND. A test appends
// "\nKIND PATH" to a copy of this program; PATH is the shim that has to make do with it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/state.h"
#include "boundary/quotas.h"
#include "ledger/ledger.h"
#include "protocol/admin.h"
#include "shim/upgrade.h"

namespace {

using cgpu::shim::Handover;

std::string Books(Handover& state, std::uint64_t limit) {
  std::vector<std::uint64_t> limits(state.config.gpus.size(), limit);
  cgpu::ledger::Ledger ledger(limits, cgpu::boundary::kContainerQuotas);
  cgpu::StateReader reader(state.server.ledger);
  (void)ledger.Load(reader);
  for (std::size_t gpu = 0; gpu < limits.size(); ++gpu) {
    (void)ledger.SetLimit(static_cast<cgpu::ledger::Gpu>(gpu), limit);
  }
  cgpu::StateWriter writer;
  ledger.Save(writer);
  return writer.Take();
}

std::string Change(const std::string& kind, Handover& state) {
  constexpr int kClosed = 900;
  if (kind == "missing") {
    state.server.sources.at(0).listener = kClosed;
  } else if (kind == "swapped") {
    std::swap(state.server.sources.at(0).listener, state.admin);
  } else if (kind == "negative") {
    state.admin = -7;
  } else if (kind == "twice") {
    state.server.ledger += state.server.ledger;
  } else if (kind == "books") {
    state.server.ledger.resize(state.server.ledger.size() / 2);
  } else if (kind == "id") {
    state.config.id = "0123456789ab";
  } else if (kind == "limit") {
    state.server.ledger = Books(state, std::uint64_t{1} << 62);
  }
  std::string bytes = cgpu::shim::Encode(state);
  if (kind == "cut") {
    bytes.resize(bytes.size() / 2);
  } else if (kind == "empty") {
    bytes.clear();
  } else if (kind == "flipped") {
    for (std::size_t at = 0; at < bytes.size(); at += 16) {
      bytes[at] = static_cast<char>(~bytes[at]);
    }
  }
  return bytes;
}

// "KIND PATH" of this program's end.
std::pair<std::string, std::string> Order() {
  const int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  std::string end(4096, '\0');
  const off_t size = lseek(self, 0, SEEK_END);
  end.resize(static_cast<std::size_t>(
      pread(self, end.data(), end.size(), size - static_cast<off_t>(end.size()))));
  end = end.substr(end.rfind('\n') + 1);
  return {end.substr(0, end.find(' ')), end.substr(end.find(' ') + 1)};
}

int HandOn() {
  const auto [kind, path] = Order();
  auto state = cgpu::shim::ReadHandover(cgpu::shim::kStateFd);
  if (!state.ok()) {
    return 3;
  }
  const std::string bytes = Change(kind, *state);
  const int file = memfd_create("state", MFD_CLOEXEC);
  const int program = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (!cgpu::WriteAll(file, bytes).ok() || dup3(file, cgpu::shim::kStateFd, 0) < 0 ||
      dup3(program, cgpu::shim::kProgramFd, O_CLOEXEC) < 0) {
    return 4;
  }
  char name[] = "cgpu-shim";
  std::string what = cgpu::shim::kResumeWord;
  char* const argv[] = {name, what.data(), nullptr};
  char* const envp[] = {nullptr};
  execveat(cgpu::shim::kProgramFd, "", argv, envp, AT_EMPTY_PATH);
  return 5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], cgpu::shim::kCheckWord) == 0) {
    return cgpu::WriteAll(STDOUT_FILENO, cgpu::kCanTakeOver).ok() ? 0 : 1;
  }
  return HandOn();
}
