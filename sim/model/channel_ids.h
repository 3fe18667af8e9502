// The channel numbers of one GPU, or those of its channel groups: pools that all its users share.
#ifndef CGPU_SIM_MODEL_CHANNEL_IDS_H_
#define CGPU_SIM_MODEL_CHANNEL_IDS_H_

#include <map>
#include <memory>
#include <set>

#include "rm/nv_types.h"

namespace cgpu::sim {

// A runlist has 2048 of them: NVIDIA/open-gpu-kernel-modules 550.163.01
// src/nvidia/src/kernel/gpu/fifo/arch/ampere/kernel_fifo_ga100.c, and as many numbers for groups
// (kernel_fifo.c _kfifoChidMgrInitChannelGroupMgr()). Before Ampere all runlists draw from one pool
// (ask for runlist 0 then). Thread-compatible.
class ChannelIds {
 public:
  static constexpr rm::NvU32 kPerRunlist = 2048;

  // One number, returned when it goes. The pool must outlive it.
  class Id {
   public:
    Id(ChannelIds& pool, rm::NvU32 runlist, rm::NvU32 number)
        : pool_(pool), runlist_(runlist), number_(number) {}
    Id(const Id&) = delete;
    Id& operator=(const Id&) = delete;
    ~Id() { pool_.taken_[runlist_].erase(number_); }
    [[nodiscard]] rm::NvU32 Runlist() const { return runlist_; }
    [[nodiscard]] rm::NvU32 Number() const { return number_; }

   private:
    ChannelIds& pool_;
    const rm::NvU32 runlist_;
    const rm::NvU32 number_;
  };

  ChannelIds() = default;
  ChannelIds(const ChannelIds&) = delete;
  ChannelIds& operator=(const ChannelIds&) = delete;

  // Takes the lowest that is free; returns nullptr when none is.
  [[nodiscard]] std::unique_ptr<Id> Take(rm::NvU32 runlist) {
    std::set<rm::NvU32>& taken = taken_[runlist];
    rm::NvU32 number = 0;
    for (auto at = taken.begin(); at != taken.end() && *at == number; ++at) {
      ++number;
    }
    if (number == kPerRunlist) {
      return nullptr;
    }
    taken.insert(number);
    return std::make_unique<Id>(*this, runlist, number);
  }

 private:
  std::map<rm::NvU32, std::set<rm::NvU32>> taken_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_CHANNEL_IDS_H_
