// A model of the ledger that is obviously right and slow: it computes every answer from a plain
// list of facts. For the property test.
#ifndef CGPU_LEDGER_MODEL_TESTING_H_
#define CGPU_LEDGER_MODEL_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ledger/ledger.h"

namespace cgpu::ledger {

class Model {
 public:
  struct Block {
    Gpu gpu = 0;
    std::uint64_t bytes = 0;
    Kind kind = Kind::kOther;
  };
  struct Row {
    Handle client = 0;
    Handle handle = 0;
    Handle parent = 0;
    std::optional<Gpu> gpu;
    Kind kind = Kind::kOther;
    std::optional<int> block;
    std::uint64_t age = 0;
  };
  struct ClientRow {
    FileKey file = 0;
    ProcessKey owner = 0;
    std::uint64_t age = 0;
  };
  struct Copy {  // what a duplicate, import or export in flight will add
    std::optional<Gpu> gpu;
    Kind kind = Kind::kOther;
    std::optional<int> block;
  };
  struct Flight {
    enum class What : std::uint8_t { kClient, kObject, kCopy, kExport } what = What::kObject;
    Kind kind = Kind::kOther;
    Gpu gpu = 0;
    std::uint64_t bytes = 0;
    Copy source;
  };
  struct ExportRow {
    FileKey file = 0;
    std::uint32_t index = 0;
    Copy what;
  };
  struct Edge {
    Handle client = 0;
    Handle dependant = 0;
    Handle on = 0;
  };

  Model(std::vector<std::uint64_t> limits_in, Quotas quotas_in)
      : limits(std::move(limits_in)), quotas(quotas_in), peak(limits.size()) {}

  const Row* Find(Handle client, Handle handle) const {
    for (const Row& row : rows) {
      if (row.client == client && row.handle == handle) {
        return &row;
      }
    }
    return nullptr;
  }

  // Returns the blocks that something holds; the others are gone.
  std::set<int> Live() const {
    std::set<int> live;
    const auto hold = [&live](const std::optional<int>& block) {
      if (block) {
        live.insert(*block);
      }
    };
    for (const Row& row : rows) {
      hold(row.block);
    }
    for (const ExportRow& row : exports) {
      hold(row.what.block);
    }
    for (const auto& [id, flight] : flights) {
      hold(flight.source.block);
    }
    return live;
  }

  std::uint64_t Used(Gpu gpu) const {
    std::uint64_t sum = 0;
    for (const int block : Live()) {
      const Block& row = blocks[static_cast<std::size_t>(block)];
      sum += row.gpu == gpu ? row.bytes : 0;
    }
    return sum;
  }

  std::uint64_t Reserved(Gpu gpu) const {
    std::uint64_t sum = 0;
    for (const auto& [id, flight] : flights) {
      sum += flight.what == Flight::What::kObject && flight.gpu == gpu ? flight.bytes : 0;
    }
    return sum;
  }

  Counts Count() const {
    Counts counts;
    counts.clients = static_cast<std::uint32_t>(clients.size());
    counts.handles = static_cast<std::uint32_t>(rows.size() - clients.size() + exports.size());
    for (const int block : Live()) {
      const Kind kind = blocks[static_cast<std::size_t>(block)].kind;
      counts.channel_groups += kind == Kind::kChannelGroup ? 1 : 0;
      counts.channels += kind == Kind::kChannel ? 1 : 0;
      counts.debuggers += kind == Kind::kDebugger ? 1 : 0;
    }
    return counts;
  }

  Counts InFlight() const {
    Counts counts;
    for (const auto& [id, flight] : flights) {
      counts.clients += flight.what == Flight::What::kClient ? 1 : 0;
      counts.handles += flight.what != Flight::What::kClient ? 1 : 0;
      const bool object = flight.what == Flight::What::kObject;
      counts.channel_groups += object && flight.kind == Kind::kChannelGroup ? 1 : 0;
      counts.channels += object && flight.kind == Kind::kChannel ? 1 : 0;
      counts.debuggers += object && flight.kind == Kind::kDebugger ? 1 : 0;
    }
    return counts;
  }

  bool Owns(const Row& asked) const {
    return std::none_of(rows.begin(), rows.end(), [&asked](const Row& row) {
      return row.block == asked.block && row.age < asked.age;
    });
  }

  std::size_t Holders(int block) const {
    const auto holds = [block](const auto& row) { return row.block == block; };
    const auto exported = [block](const ExportRow& row) { return row.what.block == block; };
    return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), holds) +
                                    std::count_if(exports.begin(), exports.end(), exported));
  }

  std::map<ProcessKey, Usage> UsageByProcess(Gpu gpu) const {
    std::map<ProcessKey, Usage> usages;
    for (const Row& row : rows) {
      Usage& usage = usages[clients.at(row.client).owner];
      if (!row.block) {
        continue;
      }
      const Block& block = blocks[static_cast<std::size_t>(*row.block)];
      if (block.gpu != gpu) {
        continue;
      }
      if (block.kind != Kind::kMemory) {
        usage.context_bytes += Owns(row) ? block.bytes : 0;
      } else if (Holders(*row.block) == 1) {
        usage.private_bytes += block.bytes;
      } else {
        (Owns(row) ? usage.shared_owned_bytes : usage.shared_duped_bytes) += block.bytes;
      }
    }
    return usages;
  }

  // Returns the handles that are freed with it.
  std::set<Handle> Doomed(Handle client, Handle handle) const {
    std::set<Handle> doomed{handle};
    for (bool grown = true; grown;) {
      grown = false;
      for (const Row& row : rows) {
        if (row.client == client && doomed.contains(row.parent)) {
          grown |= doomed.insert(row.handle).second;
        }
      }
      for (const Edge& edge : edges) {
        if (edge.client == client && doomed.contains(edge.on)) {
          grown |= doomed.insert(edge.dependant).second;
        }
      }
    }
    return doomed;
  }

  bool IsKept(Handle client, Handle handle) const {
    const std::set<Handle> doomed = Doomed(client, handle);
    return handle != client && std::any_of(keepers.begin(), keepers.end(), [&](const Edge& edge) {
             const bool group = Find(edge.client, edge.dependant)->kind == Kind::kChannelGroup;
             return edge.client == client && doomed.contains(edge.on) &&
                    !doomed.contains(edge.dependant) &&
                    (!group || std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
                      return row.client == client && row.parent == edge.dependant &&
                             row.kind == Kind::kChannel;
                    }));
           });
  }

  void Free(Handle client, Handle handle) {
    const std::set<Handle> doomed = Doomed(client, handle);
    std::erase_if(
        rows, [&](const Row& row) { return row.client == client && doomed.contains(row.handle); });
    std::erase_if(edges, [&](const Edge& edge) {
      return edge.client == client && (doomed.contains(edge.dependant) || doomed.contains(edge.on));
    });
    std::erase_if(keepers, [&](const Edge& edge) {
      return edge.client == client && doomed.contains(edge.dependant);
    });
    if (handle == client) {
      clients.erase(client);
    }
  }

  void CloseFile(FileKey file) {
    std::vector<Handle> gone;
    for (const auto& [handle, client] : clients) {
      if (client.file == file) {
        gone.push_back(handle);
      }
    }
    for (const Handle handle : gone) {
      Free(handle, handle);
    }
    std::erase_if(exports, [file](const ExportRow& row) { return row.file == file; });
  }

  void Unexport(FileKey file, std::uint32_t index) {
    std::erase_if(exports,
                  [&](const ExportRow& row) { return row.file == file && row.index == index; });
  }

  std::vector<std::uint64_t> limits;
  Quotas quotas;
  std::vector<std::uint64_t> peak;
  std::vector<Block> blocks;  // never shrinks
  std::vector<Row> rows;      // a client's own row: handle == client == parent
  std::map<Handle, ClientRow> clients;
  std::vector<ExportRow> exports;
  std::vector<Edge> edges;
  std::vector<Edge> keepers;  // `dependant` uses what lies under `on`, now or later
  std::map<std::uint64_t, Flight> flights;
  std::uint64_t clock = 0;
};

}  // namespace cgpu::ledger

#endif  // CGPU_LEDGER_MODEL_TESTING_H_
