// A program that makes the calls a test tells it, byte by byte, and says what came back. One line
// in, one line out (caller.py writes and reads them):
//
//   open FILE PATH     -> ERRNO; FILE is a number of the test's
//   close FILE         -> ERRNO
//   call FILE REQUEST IMAGE [p:HOLDER:OFFSET:BYTES | f:HOLDER:OFFSET:FILE]...
//                      -> ERRNO IMAGE BYTES...
//                         the ioctl with its parameters, in hexadecimal; `p` puts the address of
//                         further bytes at an offset of the image (HOLDER -1) or of the HOLDERth
//                         such bytes, `f` the descriptor of a file. Both come back as zero where
//                         the driver left them alone.
//   map FILE BYTES ADDRESS -> ERRNO; pages at that address: of the file at the offset of the same
//                         number, or with FILE -1 the process's own
//   unmap BYTES ADDRESS -> ERRNO
//   listen NAME        -> ERRNO; at an abstract socket
//   lend FILE...       -> ERRNO; gives these files to the next who connects
//   borrow NAME FILE... -> ERRNO; connects there and gives what it gets these numbers
//   fork               -> 0 from a child, which goes on in this process's place
//   inherit            -> the same, once this process has ended
//   execute            -> 0 from the program anew, in the same process and with the same files
//   forbid             -> 0 under the filter of containers without a slice
//   tables VERSION     -> a line KIND NUMBER SIZE NAME for each class, control, escape (SIZE: the
//                         least that this driver takes, 0 if none) and request of nvidia-uvm, for
//                         each escape's sizes with a status (NUMBER << 16 | SIZE and where it
//                         lies) and for each request where its status lies; then "."
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common.h"
#include "rm/abi.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/uvm_table.h"
#include "rmclient/raw.h"
#include "runtime/others_filter.h"

namespace cgpu {
namespace {

using Bytes = std::vector<unsigned char>;

[[noreturn]] void Wrong(const std::string& what) {
  std::fprintf(stderr, "caller: %s\n", what.c_str());
  std::exit(64);
}

unsigned Digit(char c) {
  const char* const digits = "0123456789abcdef";
  const char* const found = c == 0 ? nullptr : std::strchr(digits, c);
  if (found == nullptr) {
    Wrong("no hexadecimal digit");
  }
  return static_cast<unsigned>(found - digits);
}

// "-" stands for no bytes.
Bytes FromHex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<unsigned char>(Digit(text[i]) << 4U | Digit(text[i + 1])));
  }
  return bytes;
}

std::string ToHex(const Bytes& bytes) {
  const char* const digits = "0123456789abcdef";
  std::string text = bytes.empty() ? "-" : "";
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

// A value that is put into the parameters and taken out of them again.
struct Patch {
  int holder = -1;
  std::size_t at = 0;
  std::uint64_t value = 0;
  std::size_t size = 0;
};

// Leaves the talk to a child: the process in front only waits until all its descendants have ended.
// `ends`: it ends at once, and the child answers when it has.
void LeaveToChild(bool ends) {
  if (!ends && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    Wrong("no subreaper");
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    Wrong("no child");
  }
  if (child > 0) {
    while (!ends && (wait(nullptr) > 0 || errno == EINTR)) {
    }
    _exit(0);
  }
  while (ends && getppid() == parent) {
    sched_yield();
  }
}

class Caller {
 public:
  // The files that Execute() left.
  void Adopt(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      const std::size_t at = file.find('=');
      const int fd = std::stoi(file.substr(at + 1));
      fcntl(fd, F_SETFD, FD_CLOEXEC);
      files_[std::stoi(file.substr(0, at))] = fd;
    }
  }

  [[noreturn]] void Execute() const {
    std::vector<std::string> words = {"/proc/self/exe"};
    for (const auto& [file, fd] : files_) {
      fcntl(fd, F_SETFD, 0);
      words.push_back(std::to_string(file) + "=" + std::to_string(fd));
    }
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    Wrong("not executed");
  }

  int Listen(const std::string& name) {
    listener_ = adversary::ListenAt(name);
    return 0;
  }

  int Lend(std::istringstream& words) const {
    const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    for (int file = -1; words >> file;) {
      adversary::SendFd(peer, FdOf(file));
    }
    close(peer);
    return 0;
  }

  int Borrow(std::istringstream& words) {
    std::string name;
    words >> name;
    const int peer = adversary::ConnectTo(name);
    for (int file = -1; words >> file;) {
      Close(file);
      files_[file] = adversary::ReceiveFd(peer);
    }
    close(peer);
    return 0;
  }

  int Open(int file, const std::string& path) {
    Close(file);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      return errno;
    }
    files_[file] = fd;
    return 0;
  }

  int Close(int file) {
    const auto found = files_.find(file);
    if (found == files_.end()) {
      return EBADF;
    }
    close(found->second);
    files_.erase(found);
    return 0;
  }

  int Map(int file, std::size_t bytes, std::uint64_t address) const {
    void* const at = std::bit_cast<void*>(address);
    const bool own = file < 0;
    const int flags = MAP_FIXED_NOREPLACE | (own ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    const void* const got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, own ? -1 : FdOf(file),
                                 own ? 0 : static_cast<off_t>(address));
    return got == MAP_FAILED ? errno : 0;
  }

  std::string Call(std::istringstream& words) {
    int file = -1;
    std::uint64_t request = 0;
    std::string hex;
    words >> file >> std::hex >> request >> hex;
    std::vector<Bytes> blocks = {FromHex(hex)};
    std::vector<Patch> patches;
    for (std::string item; words >> item;) {
      patches.push_back(ReadPatch(item, blocks));
    }
    // Only now do the blocks stay where they are.
    for (Patch& patch : patches) {
      if (patch.size == sizeof(std::uint64_t)) {
        patch.value = std::bit_cast<std::uint64_t>(blocks.at(patch.value).data());
      }
      Put(blocks, patch, patch.value, false);
    }
    const int error = rmclient::KernelGpuCalls().Call(FdOf(file), request, blocks[0].data());
    for (const Patch& patch : patches) {
      Put(blocks, patch, 0, true);
    }
    std::string answer = std::to_string(error);
    for (const Bytes& block : blocks) {
      answer += " " + ToHex(block);
    }
    return answer;
  }

 private:
  int FdOf(int file) const {
    const auto found = files_.find(file);
    return found == files_.end() ? -1 : found->second;
  }

  Patch ReadPatch(const std::string& item, std::vector<Bytes>& blocks) const {
    std::istringstream parts(item);
    std::string kind;
    std::string holder;
    std::string at;
    std::string what;
    if (!std::getline(parts, kind, ':') || !std::getline(parts, holder, ':') ||
        !std::getline(parts, at, ':') || !std::getline(parts, what)) {
      Wrong("wrong item " + item);
    }
    Patch patch{std::stoi(holder), std::stoul(at), 0, 0};
    if (kind == "p") {
      patch.size = sizeof(std::uint64_t);
      patch.value = blocks.size();
      blocks.push_back(FromHex(what));
    } else {
      patch.size = sizeof(std::int32_t);
      patch.value = static_cast<std::uint32_t>(FdOf(std::stoi(what)));
    }
    return patch;
  }

  static void Put(std::vector<Bytes>& blocks, const Patch& patch, std::uint64_t value,
                  bool if_unchanged) {
    Bytes& holder = blocks.at(static_cast<std::size_t>(patch.holder + 1));
    if (patch.at + patch.size > holder.size()) {
      Wrong("an item beyond the end");
    }
    unsigned char* const at = holder.data() + patch.at;
    if (!if_unchanged || std::memcmp(at, &patch.value, patch.size) == 0) {
      std::memcpy(at, &value, patch.size);
    }
  }

  std::map<int, int> files_;
  int listener_ = -1;
};

void PrintTables(const std::string& version) {
  constexpr rm::NvU32 kMostStatusSizes = 256;
  constexpr rm::NvU32 kMostSizes = 1U << 14U;  // what a request's number has room for
  const auto parsed = rm::ParseDriverVersion(version);
  const rm::Abi* abi = parsed ? rm::FindAbi(*parsed) : nullptr;
  if (abi == nullptr) {
    Wrong("no such driver: " + version);
  }
  for (const rm::ClassRow& row : rm::ClassRows()) {
    std::cout << "class " << row.number << ' ' << rm::ClassParamSize(*abi, row.number) << ' '
              << row.name << '\n';
  }
  for (const rm::ControlRow& row : rm::ControlRows()) {
    std::cout << "control " << row.cmd << ' ' << rm::ControlSize(*abi, row.cmd) << ' ' << row.name
              << '\n';
  }
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    rm::NvU32 least = 1;
    while (least < kMostSizes && !rm::EscapeAcceptsSize(*abi, row.nr, least)) {
      ++least;
    }
    std::cout << "escape " << unsigned{row.nr} << ' ' << least % kMostSizes << ' ' << row.name
              << '\n';
    for (rm::NvU32 size = 0; size < kMostStatusSizes; ++size) {
      const auto at = rm::StatusOffset(row.nr, size);
      if (at && rm::EscapeAcceptsSize(*abi, row.nr, size)) {
        std::cout << "status " << (unsigned{row.nr} << 16U | size) << ' ' << *at << ' ' << row.name
                  << '\n';
      }
    }
  }
  for (const rm::UvmRow& row : rm::UvmRows()) {
    std::cout << "uvm " << row.request << ' ' << row.size.At(abi->branch) << ' ' << row.name
              << '\n';
    std::cout << "uvm-status " << row.request << ' ' << row.status.At(abi->branch) << ' '
              << row.name << '\n';
  }
  std::cout << "." << std::endl;
}

// Does what is told of processes and of files that change hands. Returns false if it is something
// else.
bool PassOn(const std::string& verb, std::istringstream& words, Caller& caller) {
  int error = 0;
  if (verb == "fork" || verb == "inherit") {
    LeaveToChild(verb == "inherit");
  } else if (verb == "execute") {
    caller.Execute();
  } else if (verb == "forbid") {
    error = InstallOthersFilter().ok() ? 0 : EPERM;
  } else if (verb == "listen") {
    std::string name;
    words >> name;
    error = caller.Listen(name);
  } else if (verb == "lend") {
    error = caller.Lend(words);
  } else if (verb == "borrow") {
    error = caller.Borrow(words);
  } else {
    return false;
  }
  std::cout << error << std::endl;
  return true;
}

void Run(const std::vector<std::string>& files) {
  Caller caller;
  caller.Adopt(files);
  if (!files.empty()) {
    std::cout << 0 << std::endl;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    int file = -1;
    std::string text;
    std::size_t bytes = 0;
    std::uint64_t address = 0;
    words >> verb;
    if (verb == "call") {
      std::cout << caller.Call(words) << std::endl;
    } else if (verb == "open" && words >> file >> text) {
      std::cout << caller.Open(file, text) << std::endl;
    } else if (verb == "close" && words >> file) {
      std::cout << caller.Close(file) << std::endl;
    } else if (verb == "map" && words >> file >> bytes >> std::hex >> address) {
      std::cout << caller.Map(file, bytes, address) << std::endl;
    } else if (verb == "unmap" && words >> bytes >> std::hex >> address) {
      std::cout << (munmap(std::bit_cast<void*>(address), bytes) == 0 ? 0 : errno) << std::endl;
    } else if (verb == "tables" && words >> text) {
      PrintTables(text);
    } else if (!PassOn(verb, words, caller)) {
      Wrong("no command: " + line);
    }
  }
}

}  // namespace
}  // namespace cgpu

int main(int argc, char** argv) {
  cgpu::Run({argv + 1, argv + argc});
  return 0;
}
