#include "shim/handover.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/state.h"

namespace cgpu::shim {
namespace {

// Outermost records, each with fields alone. Those that come several times are items of a list.
enum HandoverTag : StateTag {
  kHead = 1,
  kConfig = 2,
  kAllowed = 3,
  kDriver = 4,
  kDriverGpu = 5,
  kServer = 6,
  kSource = 7,
  kProcess = 8,
  kUvmFile = 9,
  kUvmInode = 10,
  kExports = 11,
  kAccounting = 12,
  kAgent = 13,
  kConnection = 14,
  kWatcher = 15,
  kEnd = 16,  // the last one
  kOrder = 17,
  kWitness = 18 | kRequired,  // the boundary's trackers name them
  kAsker = 19,
  kCounters = 20,
  kClientFile = 21 | kRequired,  // who does not know of these files keeps them open
};

// Putter, Getter and Lister visit a state by the same function, Visit(): it says which records
// there are, in the order in which they are written, and which fields each has. Putter writes them.
class Putter {
 public:
  template <class Body>
  void Record(StateTag tag, Body body) {
    writer_.Begin(tag);
    body();
    writer_.End();
  }
  template <class List, class Body>
  void Each(StateTag tag, const List& list, Body body) {
    for (const auto& item : list) {
      Record(tag, [&] { body(item); });
    }
  }

  template <class... T>
  void Number(const T&... values) {
    (writer_.Number(static_cast<std::uint64_t>(values)), ...);
  }
  void Text(const std::string& text) { writer_.Text(text); }
  void Config(const ShimConfig& config) { writer_.Text(EncodeConfig(config)); }
  // No descriptor is 0, which is what a reader finds where there is no field.
  void File(const int& fd) { writer_.Number(static_cast<std::uint64_t>(fd) + 1); }
  // A descriptor of a tenant's process: the successor does not keep it.
  void TenantsFile(const int& number) { File(number); }
  template <class List>
  void Numbers(const List& list) {
    Number(list.size());
    for (const auto& one : list) {
      Number(one);
    }
  }

  std::string Take() { return writer_.Take(); }

 private:
  StateWriter writer_;
};

// Reads the records, in whatever order they are.
class Getter {
 public:
  explicit Getter(std::string_view bytes) : reader_(bytes) {
    while (const auto tag = reader_.Enter()) {
      unread_.emplace(*tag, reader_);
      reader_.Leave();
    }
    if (!unread_.contains(kEnd)) {
      Fail("it ends too early");
    }
  }

  template <class Body>
  void Record(StateTag tag, Body body) {
    auto [next, end] = unread_.equal_range(tag);
    while (next != end && !reader_.failed()) {
      reader_ = std::move(next->second);
      next = unread_.erase(next);
      body();
    }
  }
  template <class List, class Body>
  void Each(StateTag tag, List& list, Body body) {
    Record(tag, [&] {
      typename List::value_type item{};
      body(item);
      list.insert(list.end(), std::move(item));
    });
  }

  template <class... T>
  void Number(T&... values) {
    ((values = reader_.As<T>()), ...);
  }
  void Text(std::string& text) { text = reader_.Text(); }
  void Config(ShimConfig& config) {
    auto read = DecodeConfig(reader_.Text());
    if (!read.ok()) {
      Fail(read.error().what);
      return;
    }
    config = *std::move(read);
  }
  void File(int& fd) {
    const std::uint64_t number = reader_.Number();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      Fail("a descriptor's number is too large");
      return;
    }
    fd = static_cast<int>(number) - 1;
  }
  void TenantsFile(int& number) { File(number); }
  template <class List>
  void Numbers(List& list) {
    for (std::uint64_t left = reader_.Number(); left > 0 && !reader_.failed() && !reader_.AtEnd();
         --left) {
      list.insert(list.end(), reader_.As<typename List::value_type>());
    }
  }

  void Fail(std::string_view why) { reader_.Fail(why); }
  // Ends the visit: nobody knows the records that are left.
  void End() {
    for (const auto& [tag, record] : unread_) {
      reader_.Unknown(tag);
    }
  }
  [[nodiscard]] Result<> Finish() const { return reader_.Finish(); }

 private:
  StateReader reader_;  // of the record that is visited; keeps the first fault
  std::multimap<StateTag, StateReader> unread_;
};

// Lists the descriptors.
class Lister {
 public:
  template <class Body>
  void Record(StateTag /*tag*/, Body body) {
    body();
  }
  template <class List, class Body>
  void Each(StateTag /*tag*/, const List& list, Body body) {
    std::ranges::for_each(list, body);
  }
  template <class... T>
  void Number(const T&... /*values*/) {}
  void Text(const std::string& /*text*/) {}
  void Config(const ShimConfig& /*config*/) {}
  void File(const int& fd) {
    if (fd != -1) {
      files_.push_back(fd);
    }
  }
  void TenantsFile(const int& /*number*/) {}
  template <class List>
  void Numbers(const List& /*list*/) {}

  std::vector<int> Take() { return std::move(files_); }

 private:
  std::vector<int> files_;
};

template <class Io, class S>
void VisitDriver(Io& io, S& driver) {
  io.Record(kDriver, [&] {
    io.File(driver.control);
    io.Number(driver.client);
    io.File(driver.helper);
  });
  io.Each(kDriverGpu, driver.gpus, [&](auto& gpu) {
    io.Number(gpu.device_instance);
    io.File(gpu.file);
    io.Number(gpu.asked, gpu.sizes.context_bytes, gpu.sizes.space_bytes, gpu.sizes.bar1_bytes);
  });
}

template <class Io, class S>
void VisitProcesses(Io& io, S& server) {
  io.Each(kSource, server.sources, [&](auto& source) {
    io.File(source.listener);
    io.Number(source.pid);
    io.File(source.process);
    io.Number(source.first);
  });
  io.Each(kProcess, server.processes, [&](auto& process) {
    io.Number(process.serial, process.tgid, process.ns_pid, process.shares_with);
    io.File(process.pidfd);
    io.File(process.mem);
  });
}

template <class Io, class S>
void VisitUvm(Io& io, S& server) {
  io.Each(kUvmFile, server.uvm_files, [&](auto& file) {
    io.Number(file.key);
    io.File(file.file);
    io.Number(file.user);
    io.TenantsFile(file.number);
  });
  io.Each(kUvmInode, server.uvm_inodes, [&](auto& inode) { io.Number(inode.first, inode.second); });
}

template <class Io, class S>
void VisitClientFiles(Io& io, S& server) {
  io.Each(kClientFile, server.client_files, [&](auto& file) {
    io.File(file.file);
    io.Number(file.user);
    io.TenantsFile(file.number);
    io.Numbers(file.clients);
    io.Numbers(file.serials);
  });
}

template <class Io, class S>
void VisitOrders(Io& io, S& orders) {
  io.Each(kOrder, orders, [&](auto& state) {
    auto& order = state.order;
    io.Number(order.slice_us, order.duty.period_us, order.duty.on_us, order.duty.phase_us,
              order.high, state.standard_us, order.may_rest, order.turns, state.throttled_us,
              state.knows_scheduled);
    io.Numbers(state.scheduled);
    io.Number(order.trigger);
  });
}

// The lists never change (protocol/counters.h).
template <class Io, class S>
void VisitCounters(Io& io, S& counters) {
  io.Record(kCounters, [&] {
    io.Number(counters.upgrades, counters.duration_ns);
    const auto visit = [&](auto& counts) {
      for (auto& count : counts) {
        io.Number(count);
      }
    };
    visit(counters.calls);
    visit(counters.refused);
    visit(counters.durations);
  });
}

template <class Io, class S>
void VisitServer(Io& io, S& server) {
  VisitDriver(io, server.driver);
  io.Record(kServer, [&] {
    io.Number(server.served, server.first_process, server.next_serial, server.next_uvm_key,
              server.mapping);
    io.File(server.record);
    io.Number(server.unproved);
  });
  VisitProcesses(io, server);
  VisitUvm(io, server);
  VisitClientFiles(io, server);
  io.Record(kExports, [&] { io.Numbers(server.exports); });
  io.Record(kAccounting, [&] {
    io.Text(server.ledger);
    io.Text(server.boundary);
    io.Text(server.replay);
  });
  VisitOrders(io, server.orders);
  VisitCounters(io, server.counters);
  io.Each(kWitness, server.witnesses, [&](auto& witness) {
    io.Number(witness.number);
    io.File(witness.mem);
    io.File(witness.maps);
  });
}

template <class Io, class S>
void VisitConnections(Io& io, S& state) {
  io.Record(kAgent, [&] {
    io.File(state.agent.socket);
    io.File(state.agent.creator);
    io.Text(state.agent.word);
  });
  io.Each(kConnection, state.agent.connections, [&](auto& connection) {
    io.File(connection.socket);
    io.Number(connection.silent);
  });
  io.Each(kWatcher, state.watchers, [&](auto& watcher) {
    io.File(watcher.connection);
    io.Numbers(watcher.told);
  });
  io.Each(kAsker, state.askers, [&](auto& asker) {
    io.File(asker.connection);
    io.Text(asker.line);
    io.File(asker.file);
  });
}

template <class Io, class S>
void Visit(Io& io, S& state) {
  io.Record(kHead, [&] {
    io.Number(state.quiet_since_ns);
    io.File(state.launcher);
    io.File(state.admin);
    io.File(state.upgrader);
    io.File(state.closes);
  });
  io.Record(kConfig, [&] { io.Config(state.config); });
  io.Record(kAllowed, [&] { io.Numbers(state.allowed); });
  VisitServer(io, state.server);
  VisitConnections(io, state);
  io.Record(kEnd, [] {});
}

// Refuses combinations that make no sense.
void Check(Getter& io, const Handover& state) {
  std::vector<int> files = DescriptorsOf(state);
  std::ranges::sort(files);
  if (std::ranges::adjacent_find(files) != files.end()) {
    io.Fail("a descriptor is in it twice");
  }
  if (state.config.id.empty() || state.server.driver.gpus.size() != state.config.gpus.size()) {
    io.Fail("it has no configuration, or one of other GPUs");
  }
  const auto& orders = state.server.orders;
  if ((!orders.empty() && orders.size() != state.config.gpus.size()) ||
      !std::ranges::all_of(orders,
                           [](const OrderState& one) { return governor::IsSound(one.order); })) {
    io.Fail("it has orders that cannot be carried out");
  }
}

}  // namespace

std::string Encode(const Handover& state) {
  Putter io;
  Visit(io, state);
  return io.Take();
}

Result<Handover> DecodeHandover(std::string_view bytes) {
  Getter io(bytes);
  Handover state;
  Visit(io, state);
  io.End();
  Check(io, state);
  CGPU_TRY(io.Finish());
  return state;
}

std::vector<int> DescriptorsOf(const Handover& state) {
  Lister io;
  Visit(io, state);
  return io.Take();
}

}  // namespace cgpu::shim
