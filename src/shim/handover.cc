#include "shim/handover.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/state.h"

namespace cgpu::shim {
namespace {

// Outermost records, each with fields alone. Those that come several times are items of a list.
enum Tag : StateTag {
  kHead = 1,
  kConfig = 2,
  kAllowed = 3,
  kDriver = 4,
  kDriverCard = 5,
  kServer = 6,
  kSource = 7,
  kProcess = 8,
  kUvmFile = 9,
  kUvmInode = 10,
  kExports = 11,
  kBooks = 12,
  kAgent = 13,
  kConnection = 14,
  kWatcher = 15,
  kEnd = 16,  // the last one
  kOrder = 17,
  kWitness = 18 | kRequired,  // the boundary's trackers name them
  kAsker = 19,
};

// Putter and Getter visit the same fields in the same order.
class Putter {
 public:
  explicit Putter(StateWriter& writer) : writer_(writer) {}

  template <class T>
  void Number(const T& value) {
    writer_.Number(static_cast<std::uint64_t>(value));
  }
  void Text(const std::string& text) { writer_.Text(text); }
  // No descriptor is 0, which is what a reader finds where there is no field.
  void File(const int& fd) { writer_.Number(static_cast<std::uint64_t>(fd) + 1); }
  template <class List>
  void Numbers(const List& list) {
    Number(list.size());
    for (const auto& one : list) {
      Number(one);
    }
  }

 private:
  StateWriter& writer_;
};

class Getter {
 public:
  explicit Getter(StateReader& reader) : reader_(reader) {}

  template <class T>
  void Number(T& value) {
    value = reader_.As<T>();
  }
  void Text(std::string& text) { text = reader_.Text(); }
  void File(int& fd) {
    const std::uint64_t number = reader_.Number();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      reader_.Fail("a descriptor's number is too large");
      return;
    }
    fd = static_cast<int>(number) - 1;
  }
  template <class List>
  void Numbers(List& list) {
    for (std::uint64_t left = reader_.Number(); left > 0 && !reader_.failed() && !reader_.AtEnd();
         --left) {
      list.insert(list.end(), reader_.As<typename List::value_type>());
    }
  }

 private:
  StateReader& reader_;
};

template <class Io, class S>
void VisitHead(Io& io, S& state) {
  io.Number(state.quiet_since_ns);
  io.File(state.launcher);
  io.File(state.admin);
  io.File(state.upgrader);
}

template <class Io, class S>
void Visit(Io& io, S& card, const DriverState::Card* /*kind*/) {
  io.Number(card.device_instance);
  io.File(card.file);
  io.Number(card.asked);
  io.Number(card.figures.context_bytes);
  io.Number(card.figures.space_bytes);
  io.Number(card.figures.bar1_bytes);
}

template <class Io, class S>
void VisitServer(Io& io, S& server) {
  io.Number(server.served);
  io.Number(server.first_process);
  io.Number(server.next_serial);
  io.Number(server.next_uvm_key);
  io.Number(server.mapping);
  io.File(server.record);
  io.Number(server.unproved);
}

template <class Io, class S>
void Visit(Io& io, S& source, const SourceState* /*kind*/) {
  io.File(source.listener);
  io.Number(source.pid);
  io.File(source.process);
  io.Number(source.first);
}

template <class Io, class S>
void Visit(Io& io, S& process, const ProcessState* /*kind*/) {
  io.Number(process.serial);
  io.Number(process.tgid);
  io.Number(process.ns_pid);
  io.Number(process.shares_with);
  io.File(process.pidfd);
  io.File(process.mem);
}

template <class Io, class S>
void Visit(Io& io, S& file, const UvmFileState* /*kind*/) {
  io.Number(file.key);
  io.File(file.file);
  io.Number(file.user);
  io.File(file.number);
}

template <class Io, class S>
void Visit(Io& io, S& witness, const WitnessState* /*kind*/) {
  io.Number(witness.number);
  io.File(witness.mem);
  io.File(witness.maps);
}

template <class Io, class S>
void Visit(Io& io, S& state, const OrderState* /*kind*/) {
  auto& order = state.order;
  io.Number(order.slice_us);
  io.Number(order.duty.period_us);
  io.Number(order.duty.on_us);
  io.Number(order.duty.phase_us);
  io.Number(order.high);
  io.Number(state.standard_us);
  io.Number(order.may_rest);
  io.Number(order.turns);
}

template <class Io, class S>
void VisitBooks(Io& io, S& server) {
  io.Text(server.ledger);
  io.Text(server.boundary);
  io.Text(server.replay);
}

template <class Io, class S>
void Visit(Io& io, S& connection, const AgentState::Connection* /*kind*/) {
  io.File(connection.socket);
  io.Number(connection.silent);
}

template <class Io, class S>
void Visit(Io& io, S& watcher, const WatcherState* /*kind*/) {
  io.File(watcher.connection);
  io.Numbers(watcher.told);
}

template <class Io, class S>
void Visit(Io& io, S& asker, const AskerState* /*kind*/) {
  io.File(asker.connection);
  io.Text(asker.line);
  io.File(asker.file);
}

template <class Item>
void PutList(StateWriter& writer, StateTag tag, const std::vector<Item>& items) {
  for (const Item& item : items) {
    writer.Begin(tag);
    Putter io(writer);
    Visit(io, item, &item);
    writer.End();
  }
}

template <class Item>
void GetItem(StateReader& reader, std::vector<Item>& items) {
  Getter io(reader);
  Item item;
  Visit(io, item, &item);
  items.push_back(std::move(item));
}

void GetInode(StateReader& reader, ServerState& server) {
  const std::uint64_t device = reader.Number();
  server.uvm_inodes.emplace(device, reader.Number());
}

void GetConfig(StateReader& reader, Handover& state) {
  auto config = DecodeConfig(reader.Text());
  if (!config.ok()) {
    reader.Fail(config.error().what);
    return;
  }
  state.config = std::move(*config);
}

// Returns false if the tag is none of these.
bool GetServerRecord(StateReader& reader, StateTag tag, ServerState& server) {
  Getter io(reader);
  switch (tag) {
    case kDriver:
      io.File(server.driver.control);
      io.Number(server.driver.client);
      io.File(server.driver.helper);
      return true;
    case kDriverCard:
      GetItem(reader, server.driver.cards);
      return true;
    case kServer:
      VisitServer(io, server);
      return true;
    case kSource:
      GetItem(reader, server.sources);
      return true;
    case kProcess:
      GetItem(reader, server.processes);
      return true;
    case kUvmFile:
      GetItem(reader, server.uvm_files);
      return true;
    case kUvmInode:
      GetInode(reader, server);
      return true;
    case kExports:
      io.Numbers(server.exports);
      return true;
    case kBooks:
      VisitBooks(io, server);
      return true;
    case kOrder:
      GetItem(reader, server.orders);
      return true;
    case kWitness:
      GetItem(reader, server.witnesses);
      return true;
    default:
      return false;
  }
}

void GetRecord(StateReader& reader, StateTag tag, Handover& state, bool* whole) {
  Getter io(reader);
  switch (tag) {
    case kEnd:
      *whole = true;
      break;
    case kHead:
      VisitHead(io, state);
      break;
    case kConfig:
      GetConfig(reader, state);
      break;
    case kAllowed:
      io.Numbers(state.allowed);
      break;
    case kAgent:
      io.File(state.agent.socket);
      io.File(state.agent.creator);
      break;
    case kConnection:
      GetItem(reader, state.agent.connections);
      break;
    case kWatcher:
      GetItem(reader, state.watchers);
      break;
    case kAsker:
      GetItem(reader, state.askers);
      break;
    default:
      if (!GetServerRecord(reader, tag, state.server)) {
        reader.Unknown(tag);
      }
  }
}

// Refuses combinations that make no sense.
void Check(StateReader& reader, const Handover& state) {
  std::vector<int> files = DescriptorsOf(state);
  std::sort(files.begin(), files.end());
  if (std::adjacent_find(files.begin(), files.end()) != files.end()) {
    reader.Fail("a descriptor is in it twice");
  }
  if (state.config.id.empty() || state.server.driver.cards.size() != state.config.cards.size()) {
    reader.Fail("it has no configuration, or one of other cards");
  }
  const auto& orders = state.server.orders;
  if ((!orders.empty() && orders.size() != state.config.cards.size()) ||
      !std::all_of(orders.begin(), orders.end(),
                   [](const OrderState& one) { return governor::IsSound(one.order); })) {
    reader.Fail("it has orders that cannot be carried out");
  }
}

}  // namespace

std::string Encode(const Handover& state) {
  StateWriter writer;
  Putter io(writer);
  const auto record = [&](StateTag tag, const auto& fields) {
    writer.Begin(tag);
    fields();
    writer.End();
  };
  const ServerState& server = state.server;
  record(kHead, [&] { VisitHead(io, state); });
  record(kConfig, [&] { io.Text(EncodeConfig(state.config)); });
  record(kAllowed, [&] { io.Numbers(state.allowed); });
  record(kDriver, [&] {
    io.File(server.driver.control);
    io.Number(server.driver.client);
    io.File(server.driver.helper);
  });
  PutList(writer, kDriverCard, server.driver.cards);
  record(kServer, [&] { VisitServer(io, server); });
  PutList(writer, kSource, server.sources);
  PutList(writer, kProcess, server.processes);
  PutList(writer, kUvmFile, server.uvm_files);
  for (const auto& inode : server.uvm_inodes) {
    record(kUvmInode, [&] {
      io.Number(inode.first);
      io.Number(inode.second);
    });
  }
  record(kExports, [&] { io.Numbers(server.exports); });
  record(kBooks, [&] { VisitBooks(io, server); });
  PutList(writer, kOrder, server.orders);
  PutList(writer, kWitness, server.witnesses);
  record(kAgent, [&] {
    io.File(state.agent.socket);
    io.File(state.agent.creator);
  });
  PutList(writer, kConnection, state.agent.connections);
  PutList(writer, kWatcher, state.watchers);
  PutList(writer, kAsker, state.askers);
  record(kEnd, [] {});
  return writer.Take();
}

Result<Handover> DecodeHandover(std::string_view bytes) {
  StateReader reader(bytes);
  Handover state;
  bool whole = false;
  while (const auto tag = reader.Enter()) {
    GetRecord(reader, *tag, state, &whole);
    reader.Leave();
  }
  if (!whole) {
    reader.Fail("it ends too early");
  }
  Check(reader, state);
  if (const auto read = reader.Finish(); !read.ok()) {
    return read.error();
  }
  return state;
}

std::vector<int> DescriptorsOf(const Handover& state) {
  std::vector<int> all = {state.launcher,
                          state.admin,
                          state.upgrader,
                          state.server.record,
                          state.agent.socket,
                          state.agent.creator,
                          state.server.driver.control,
                          state.server.driver.helper};
  for (const DriverState::Card& card : state.server.driver.cards) {
    all.push_back(card.file);
  }
  for (const SourceState& source : state.server.sources) {
    all.insert(all.end(), {source.listener, source.process});
  }
  for (const ProcessState& process : state.server.processes) {
    all.insert(all.end(), {process.pidfd, process.mem});
  }
  for (const UvmFileState& file : state.server.uvm_files) {
    all.push_back(file.file);
  }
  for (const WitnessState& witness : state.server.witnesses) {
    all.insert(all.end(), {witness.mem, witness.maps});
  }
  for (const AgentState::Connection& connection : state.agent.connections) {
    all.push_back(connection.socket);
  }
  for (const WatcherState& watcher : state.watchers) {
    all.push_back(watcher.connection);
  }
  for (const AskerState& asker : state.askers) {
    all.insert(all.end(), {asker.connection, asker.file});
  }
  std::erase(all, -1);
  return all;
}

}  // namespace cgpu::shim
