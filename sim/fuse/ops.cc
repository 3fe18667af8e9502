#define FUSE_USE_VERSION 314
#include "sim/fuse/ops.h"

#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "sim/fuse/pages.h"
#include "sim/fuse/proc_caller.h"
#include "sim/fuse/server.h"

namespace cgpu::sim {
namespace {

// Attributes hardly change; without a timeout every close asks for them again.
constexpr double kAttrTimeout = 86400;
// Room for an mmap of any memory object, and of managed memory, whose offset is its address: the
// pages beyond a file's size are not accessible.
constexpr off_t kDeviceSize = FuseServer::kAddresses;
// Inodes of the barrier file: a new one for every look-up, like those of device files.
constexpr Ino kBarrierIno = Ino{1} << 48;

// Stands for every file that the engines' process has open.
constexpr std::uint64_t kEngineFile = ~std::uint64_t{0};

bool IsBarrier(Ino ino) {
  return ino >> 48 == kBarrierIno >> 48;
}

FuseServer& Server(fuse_req_t request) {
  return *static_cast<FuseServer*>(fuse_req_userdata(request));
}

struct stat FileAttr(Ino ino, mode_t mode, off_t size) {
  struct stat attr{};
  attr.st_ino = ino;
  attr.st_mode = mode;
  attr.st_nlink = S_ISDIR(mode) ? 2 : 1;
  attr.st_size = size;
  return attr;
}

// nullopt: there is no such inode.
std::optional<struct stat> AttrOf(const Tree& tree, Ino ino) {
  if (DecodeDeviceIno(ino)) {
    return FileAttr(ino, S_IFREG | 0666, kDeviceSize);
  }
  if (IsBarrier(ino)) {
    return FileAttr(ino, S_IFREG | 0400, 0);
  }
  const TreeNode* node = tree.Find(ino);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (node->directory) {
    return FileAttr(ino, S_IFDIR | 0755, 0);
  }
  return FileAttr(ino, S_IFREG | 0444, static_cast<off_t>(node->content.size()));
}

}  // namespace

struct FuseOps::Impl {
  // The kernel writes an inode's pages back by whichever file it has open for writing.
  static std::optional<MapContext> ContextOf(FuseServer& server, Ino ino, std::uint64_t file) {
    return file == kEngineFile ? server.engines_->ContextOf(ino)
                               : server.driver_.MapContextOf(file);
  }

  // nullptr: the inode is none of nvidia-uvm's, or no address space.
  static std::shared_ptr<Pages> ManagedOf(FuseServer& server, Ino ino, std::uint64_t file) {
    const auto device = DecodeDeviceIno(ino);
    return device && device->kind == FileKind::kUvm ? server.ManagedPagesOf(file) : nullptr;
  }

  static void Init(void* /*server*/, fuse_conn_info* connection) {
    connection->want &=
        ~unsigned{FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE};
    // A burst of closes must not wait for earlier ones to be answered.
    connection->max_background = 4096;
    connection->congestion_threshold = 3072;
  }

  static void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    FuseServer& server = Server(request);
    fuse_entry_param entry{};
    Ino ino = server.tree_.Lookup(parent, name);
    const TreeNode* node = server.tree_.Find(ino);
    if (node != nullptr && node->device) {
      ino = DeviceIno(node->device->kind, node->device->minor, server.serial_++);
    } else if (parent == Tree::kRoot && std::strcmp(name, kBarrierName) == 0) {
      ino = kBarrierIno | server.serial_++;
    } else {
      entry.entry_timeout = kAttrTimeout;
    }
    const auto attr = AttrOf(server.tree_, ino);
    if (!attr) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    entry.ino = ino;
    entry.attr = *attr;
    entry.attr_timeout = kAttrTimeout;
    fuse_reply_entry(request, &entry);
  }

  static void Getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* /*file*/) {
    const auto attr = AttrOf(Server(request).tree_, ino);
    if (attr) {
      fuse_reply_attr(request, &*attr, kAttrTimeout);
    } else {
      fuse_reply_err(request, ENOENT);
    }
  }

  // A device node takes O_TRUNC and does nothing about it.
  static void Setattr(fuse_req_t request, fuse_ino_t ino, struct stat* /*attr*/, int to_set,
                      fuse_file_info* file) {
    if (DecodeDeviceIno(ino) &&
        (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW |
                    FUSE_SET_ATTR_CTIME | FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW)) == 0) {
      Getattr(request, ino, file);
    } else {
      fuse_reply_err(request, EPERM);
    }
  }

  static void Open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
    FuseServer& server = Server(request);
    if (DecodeDeviceIno(ino) && server.IsEngine(fuse_req_ctx(request)->pid)) {
      // Not a program's: nothing hangs on it but the pages of the inode, which must stay.
      file->fh = kEngineFile;
      file->keep_cache = 1;
      server.engines_->EngineOpened(ino);
      if (fuse_reply_open(request, file) != 0) {
        server.engines_->EngineReleased(ino);
      }
      return;
    }
    if (const auto device = DecodeDeviceIno(ino)) {
      std::optional<Identity> opener;
      if (device->kind == FileKind::kCtl) {
        ProcCaller caller(fuse_req_ctx(request)->pid, server.node_, server.open_files_);
        opener = {caller.Tgid(), caller.Euid()};
      }
      file->fh = server.driver_.Open(device->kind, device->minor, opener);
      server.open_files_.Add(ino, file->fh);
    } else {
      file->fh = 0;
      file->keep_cache = 1;
    }
    if (fuse_reply_open(request, file) != 0 && DecodeDeviceIno(ino)) {
      // The caller is gone and will never close what it never got.
      server.open_files_.Remove(ino, file->fh);
      server.driver_.Close(file->fh);
    }
  }

  static void Release(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
    FuseServer& server = Server(request);
    if (IsBarrier(ino)) {
      server.BarrierReleased(ino);
    } else if (DecodeDeviceIno(ino) && file->fh == kEngineFile) {
      server.engines_->EngineReleased(ino);
    } else if (DecodeDeviceIno(ino)) {
      server.open_files_.Remove(ino, file->fh);
      server.driver_.Close(file->fh);
      server.pollers_.Forget(file->fh);
      server.ForgetManagedPages(file->fh);
      server.ForgetSharedData(ino);
      server.Unmapped(ino);
    }
    fuse_reply_err(request, 0);
  }

  static void Readdir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                      fuse_file_info* /*file*/) {
    const Tree& tree = Server(request).tree_;
    const TreeNode* node = tree.Find(ino);
    if (node == nullptr || !node->directory) {
      fuse_reply_err(request, ENOTDIR);
      return;
    }
    std::vector<char> buffer(size);
    std::size_t used = 0;
    const std::size_t count = node->children.size() + 2;
    for (auto i = static_cast<std::size_t>(offset); i < count; ++i) {
      const Ino child = i < 2 ? ino : node->children[i - 2];
      const char* name = i == 0 ? "." : i == 1 ? ".." : tree.Find(child)->name.c_str();
      const bool directory = i < 2 || tree.Find(child)->directory;
      const struct stat attr = FileAttr(child, directory ? S_IFDIR : S_IFREG, 0);
      const std::size_t need = fuse_add_direntry(request, buffer.data() + used, size - used, name,
                                                 &attr, static_cast<off_t>(i + 1));
      if (need > size - used) {
        break;
      }
      used += need;
    }
    fuse_reply_buf(request, buffer.data(), used);
  }

  static void Read(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
                   fuse_file_info* file) {
    FuseServer& server = Server(request);
    const auto at = static_cast<std::size_t>(offset);
    if (!DecodeDeviceIno(ino)) {
      const TreeNode* node = server.tree_.Find(ino);
      const std::string empty;
      const std::string& text = node == nullptr ? empty : node->content;
      const std::size_t from = std::min(at, text.size());
      fuse_reply_buf(request, text.data() + from, std::min(size, text.size() - from));
      return;
    }
    if (const auto managed = ManagedOf(server, ino, file->fh)) {
      std::vector<std::byte> bytes(size);
      managed->Read(at, bytes);
      fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return;
    }
    const auto context = ContextOf(server, ino, file->fh);
    const auto block = context ? context->block.lock() : nullptr;
    if (block == nullptr || at >= context->length) {
      fuse_reply_err(request, block == nullptr && context ? EIO : EINVAL);
      return;
    }
    // Whole pages come back: what the block does not fill of the last one is zero.
    std::vector<std::byte> bytes(std::min(size, static_cast<std::size_t>(context->length) - at));
    if (block->shared_data_of >= 0) {
      server.ReadSharedData(ino, block->shared_data_of, at, bytes);
    } else if (const auto pages = server.PagesOf(*block)) {
      pages->Read(context->offset + at, bytes);
    }
    fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  static void Write(fuse_req_t request, fuse_ino_t ino, const char* data, std::size_t size,
                    off_t offset, fuse_file_info* file) {
    FuseServer& server = Server(request);
    const auto at = static_cast<std::size_t>(offset);
    if (const auto managed = ManagedOf(server, ino, file->fh)) {
      managed->Write(at, std::as_bytes(std::span(data, size)));
      fuse_reply_write(request, size);
      return;
    }
    const auto context = DecodeDeviceIno(ino) ? ContextOf(server, ino, file->fh) : std::nullopt;
    const auto block = context ? context->block.lock() : nullptr;
    if (block == nullptr || !context->writable) {
      fuse_reply_err(request, block == nullptr && context ? EIO : EINVAL);
      return;
    }
    if (at < context->length) {
      const std::size_t within = std::min(size, static_cast<std::size_t>(context->length) - at);
      if (const auto pages = server.PagesOf(*block)) {
        pages->Write(context->offset + at, std::as_bytes(std::span(data, within)));
      }
    }
    fuse_reply_write(request, size);
  }

  static void Ioctl(fuse_req_t request, fuse_ino_t ino, unsigned number, void* argument,
                    fuse_file_info* file, unsigned /*flags*/, const void* /*in*/,
                    std::size_t /*in_size*/, std::size_t /*out_size*/) {
    const auto device = DecodeDeviceIno(ino);
    if (!device) {
      fuse_reply_err(request, ENOTTY);
      return;
    }
    Server(request).Ioctl(request, device->kind, file->fh, number,
                          reinterpret_cast<std::uint64_t>(argument), fuse_req_ctx(request)->pid);
  }

  static void Poll(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file,
                   fuse_pollhandle* handle) {
    const auto device = DecodeDeviceIno(ino);
    if (device && device->kind != FileKind::kUvm && file->fh != kEngineFile) {
      Server(request).pollers_.Keep(file->fh, handle);
      fuse_reply_poll(request, static_cast<unsigned>(Server(request).driver_.PollFile(file->fh)));
      return;
    }
    if (handle != nullptr) {
      fuse_pollhandle_destroy(handle);
    }
    fuse_reply_poll(request, device ? 0 : POLLIN);
  }

  static void OnInterrupt(fuse_req_t request, void* ticket) {
    Server(request).faults_.Interrupted(reinterpret_cast<std::uintptr_t>(ticket));
  }
};

const fuse_lowlevel_ops& FuseOps::Table() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops ops{};
    ops.init = &Impl::Init;
    ops.lookup = &Impl::Lookup;
    ops.getattr = &Impl::Getattr;
    ops.setattr = &Impl::Setattr;
    ops.open = &Impl::Open;
    ops.release = &Impl::Release;
    ops.readdir = &Impl::Readdir;
    ops.read = &Impl::Read;
    ops.write = &Impl::Write;
    ops.ioctl = &Impl::Ioctl;
    ops.poll = &Impl::Poll;
    return ops;  // flush is left out: libfuse answers ENOSYS, and the kernel asks once
  }();
  return table;
}

void FuseOps::ForgetPages(fuse_session* session, std::uint64_t ino) {
  (void)fuse_lowlevel_notify_inval_inode(session, ino, 0, 0);
}

void FuseOps::WatchInterrupt(fuse_req* request, std::uint64_t ticket) {
  fuse_req_interrupt_func(request, &Impl::OnInterrupt, reinterpret_cast<void*>(ticket));
}

void FuseOps::UnwatchInterrupt(fuse_req* request) {
  fuse_req_interrupt_func(request, nullptr, nullptr);
}

}  // namespace cgpu::sim
