// The state that a shim hands to its successor at a hot upgrade: everything it knows, and its
// descriptors.
//
// The successor is the same process executing another program, so process id, descriptors and the
// objects that the driver ties to either stay. No call is between its receipt and its answer then,
// and requests that the tenants make meanwhile wait in the kernel. Descriptors are written as their
// numbers; -1 means none.
//
// The format is base/state.h's, whose rules keep versions compatible. Pure; decoding trusts
// nothing.
#ifndef CGPU_SHIM_HANDOVER_H_
#define CGPU_SHIM_HANDOVER_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "boundary/boundary.h"
#include "protocol/config.h"
#include "protocol/counters.h"
#include "shim/scheduler.h"

namespace cgpu::shim {

struct DriverState {
  struct Gpu {
    std::uint32_t device_instance = 0;
    int file = -1;  // of the GPU, while it is open
    bool asked = false;
    boundary::GpuSizes sizes;
  };
  int control = -1;
  std::uint32_t client = 0;  // on `control`
  int helper = -1;           // the socket to a helper that sets interleave levels
  std::vector<Gpu> gpus;     // in the order of the grant
};

struct SourceState {
  int listener = -1;
  pid_t pid = 0;
  int process = -1;  // pidfd
  bool first = false;
};

struct ProcessState {
  std::uint64_t serial = 0;
  pid_t tgid = 0;
  pid_t ns_pid = 0;
  pid_t shares_with = 0;
  int pidfd = -1;
  int mem = -1;
};

struct UvmFileState {
  std::uint64_t key = 0;
  int file = -1;
  std::uint64_t user = 0;  // serial of a process, or 0
  int number = -1;
};

struct ClientFileState {
  int file = -1;
  std::uint64_t user = 0;  // serial of a process, or 0
  int number = -1;
  std::vector<std::uint32_t> clients;  // handles
  std::vector<std::uint64_t> serials;  // of the ledger, for each
};

struct WitnessState {
  std::uint64_t number = 0;
  int mem = -1;
  int maps = -1;
};

struct ServerState {
  DriverState driver;
  std::vector<SourceState> sources;
  bool served = false;  // the server has ever had a source
  unsigned first_process = 0;
  std::vector<ProcessState> processes;
  std::uint64_t next_serial = 1;
  std::vector<UvmFileState> uvm_files;
  std::uint64_t next_uvm_key = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> uvm_inodes;
  std::vector<ClientFileState> client_files;
  std::vector<WitnessState> witnesses;
  std::set<std::uint32_t> exports;
  std::vector<OrderState> orders;  // in the order of the grant; empty: no order was given
  bool mapping = false;
  int record = -1;
  // Records of their own kinds:
  std::string ledger;
  std::string boundary;
  std::string replay;
  CallCounters counters;
  bool unproved = false;  // a proof of the container's filter is still to come (sandbox/proof.h)
};

struct AgentState {
  struct Connection {
    int socket = -1;
    bool silent = false;  // it has said nothing yet; nothing else about it is needed
  };
  int socket = -1;   // -1: there is no agent
  int creator = -1;  // -1: it has exited
  std::string word;  // metadata of the container's listeners; earlier versions do not know it
  std::vector<Connection> connections;
};

struct WatcherState {
  int connection = -1;
  std::set<pid_t> told;
};

// A connection to the admin socket whose request is not complete yet.
struct AskerState {
  int connection = -1;
  std::string line;  // what it has sent
  int file = -1;     // came with it
};

struct Handover {
  ShimConfig config;
  std::set<int> allowed;            // system calls that the process may still make
  std::int64_t quiet_since_ns = 0;  // CLOCK_MONOTONIC: since when calls have had to wait
  int launcher = -1;
  int admin = -1;
  int upgrader = -1;  // asked for the upgrade, and waits for the answer
  int closes = -1;    // inotify instance that hears of closes
  ServerState server;
  AgentState agent;
  std::vector<WatcherState> watchers;
  std::vector<AskerState> askers;  // the oldest first
};

[[nodiscard]] std::string Encode(const Handover& state);
[[nodiscard]] Result<Handover> DecodeHandover(std::string_view bytes);

// Returns all descriptors in it. Decoding fails if a number is in it twice.
[[nodiscard]] std::vector<int> DescriptorsOf(const Handover& state);

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HANDOVER_H_
