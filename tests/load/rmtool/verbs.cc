#include "load/rmtool/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "rm/nv_structs.h"
#include "rmclient/readings.h"

namespace cgpu::rmtool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Allocates options.mib in chunks. Returns the result of the last call; `got` is in MiB.
rmclient::Outcome AllocChunks(Target& target, const Options& options, std::uint64_t* got) {
  std::uint64_t chunk = options.chunk_mib;
  *got = 0;
  while (*got < options.mib) {
    const std::uint64_t step = std::min(chunk, options.mib - *got);
    rm::VidmemRequest request = {.size = step * kMiB, .attr = PageAttr(options.page)};
    rm::NvHandle handle = 0;
    const rmclient::Outcome outcome =
        rmclient::AllocVidmem(target.client, target.gpu, &request, &handle);
    if (outcome.ok()) {
      *got += step;
      continue;
    }
    const bool full = outcome.sys_errno == 0 && outcome.status == rm::NV_ERR_NO_MEMORY;
    if (!options.fill || !full || step == 1) {
      return outcome;
    }
    chunk = step / 2;
  }
  return {};
}

int Report(const rmclient::Outcome& outcome, std::uint64_t got, unsigned gpu) {
  if (outcome.ok()) {
    return kWorked;
  }
  const bool full = outcome.sys_errno == 0 && outcome.status == rm::NV_ERR_NO_MEMORY;
  std::printf("%s after %" PRIu64 " MiB on GPU %u\n", Describe(outcome).c_str(), got, gpu);
  return full ? kOutOfMemory : kRefused;
}

}  // namespace

int Fail(const Error& error) {
  std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  return kUsage;
}

rm::NvU32 PageAttr(Page page) {
  switch (page) {
    case Page::k4K:
      return rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
    case Page::kBig:
      return rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_BIG);
    case Page::kHuge:
      return rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_HUGE);
    case Page::kDefault:
      break;
  }
  return 0;
}

void WaitForEndOfStdin() {
  char buffer[256];
  while (read(STDIN_FILENO, buffer, sizeof(buffer)) > 0) {
  }
}

Result<Target> OpenTarget(const Options& options) {
  Result<rmclient::Client> client =
      rmclient::Client::Open(rmclient::DevicePaths::InFolder(options.dev));
  if (!client.ok()) {
    return client.error();
  }
  Result<std::vector<rmclient::Gpu>> gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok()) {
    return gpus.error();
  }
  if (options.gpu >= gpus->size()) {
    return Error{Code::kNotFound,
                 0,
                 "there is no GPU " + std::to_string(options.gpu) + "; this process sees " +
                     std::to_string(gpus->size()),
                 {}};
  }
  return Target{std::move(*client), std::move((*gpus)[options.gpu])};
}

int Info(const Options& options) {
  Result<rmclient::Client> client =
      rmclient::Client::Open(rmclient::DevicePaths::InFolder(options.dev));
  if (!client.ok()) {
    return Fail(client.error());
  }
  Result<std::vector<rmclient::Gpu>> gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok()) {
    return Fail(gpus.error());
  }
  for (const rmclient::Gpu& gpu : *gpus) {
    const Result<rmclient::FbInfo> memory = rmclient::ReadFbInfo(*client, gpu);
    if (!memory.ok()) {
      return Fail(memory.error());
    }
    std::printf("GPU %u: %s (UUID: %s) %" PRIu64 "MiB total, %" PRIu64 "MiB used, %" PRIu64
                "MiB free\n",
                gpu.index, gpu.name.c_str(), gpu.uuid.c_str(), memory->total / kMiB,
                memory->used() / kMiB, memory->free / kMiB);
  }
  return kWorked;
}

int Alloc(const Options& options) {
  Result<Target> target = OpenTarget(options);
  if (!target.ok()) {
    return Fail(target.error());
  }
  std::uint64_t got = 0;
  for (unsigned i = 0; i < options.groups; ++i) {
    rm::NvHandle handle = 0;
    const rmclient::Outcome outcome =
        rmclient::AllocChannelGroup(target->client, target->gpu, &handle);
    if (!outcome.ok()) {
      std::printf("%u channel groups, then: ", i);
      return Report(outcome, got, options.gpu);
    }
  }
  const rmclient::Outcome outcome = AllocChunks(*target, options, &got);
  const int status = Report(outcome, got, options.gpu);
  if (status != kWorked) {
    return status;
  }
  if (options.verb == Verb::kAlloc) {
    std::printf("allocated %" PRIu64 " MiB on GPU %u\n", got, options.gpu);
    return kWorked;
  }
  std::printf("holding %" PRIu64 " MiB\n", got);
  std::fflush(stdout);
  if (options.forever) {
    while (true) {
      pause();
    }
  }
  WaitForEndOfStdin();
  return kWorked;
}

}  // namespace cgpu::rmtool
