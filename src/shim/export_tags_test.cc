#include "shim/export_tags.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "rm/nv_controls.h"
#include "shim/testing.h"

namespace cgpu::shim {
namespace {

constexpr std::uint32_t kClient = 0xc1e00000;
constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

UniqueFd NewFile() {
  return UniqueFd(memfd_create("exported", MFD_CLOEXEC));
}

class ExportTagsTest : public testing::Test {
 protected:
  // Tags of a shim with one GPU, over the test's driver.
  struct Shim {
    explicit Shim(ExportTagsTest& test)
        : accounting(test.config_, test.abi_, {boundary::GpuIds{}}),
          tags(accounting, test.driver_.get(), hurry) {}
    Accounting accounting;
    Hurry hurry;
    ExportTags tags;
  };

  ExportTagsTest() {
    GpuGrant granted;
    granted.gpu.memory_bytes = granted.limit_bytes = 16 * kBytes;
    config_.gpus = {granted};
    driver_ = std::move(*Driver::Open(calls_, abi_, "/dev/zero", {}));
    own_ = calls_.Clients();
    shim_ = std::make_unique<Shim>(*this);
  }

  // Returns a call whose parameters name the file.
  static Pending CallOn(const UniqueFd& file, boundary::TagStep step) {
    Pending pending;
    pending.file = NewFile();
    pending.argument.reset(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    pending.call.client = kClient;
    pending.call.fd = boundary::FdArgument{};
    pending.call.fd->tag_step = step;
    pending.call.fd->file = boundary::File{boundary::FileKind::kControl, 0, true};
    pending.call.nested.emplace_back().bytes.resize(
        sizeof(rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS));
    return pending;
  }
  // Makes a call that names the file; returns the tag that the boundary sees.
  std::uint64_t Transfer(const UniqueFd& file, boundary::TagStep step, bool succeeds = true) {
    Pending pending = CallOn(file, step);
    EXPECT_TRUE(shim_->tags.Prepare(pending));
    shim_->tags.Settle(pending, succeeds && pending.call.fd->tag != 0);
    return pending.call.fd->tag;
  }
  std::uint64_t Export(const UniqueFd& file) { return Transfer(file, boundary::TagStep::kNew); }
  std::uint64_t Find(const UniqueFd& file) { return Transfer(file, boundary::TagStep::kFind); }

  // Returns the clients of the driver beside the shim's own.
  std::set<std::uint32_t> InDriver() const {
    std::set<std::uint32_t> clients = calls_.Clients();
    for (const std::uint32_t own : own_) {
      clients.erase(own);
    }
    return clients;
  }
  ledger::ClientRef AddClient() {
    const MutexLock lock(shim_->accounting.mutex);
    auto reserved = shim_->accounting.ledger.ReserveClient();
    return *shim_->accounting.ledger.AddClient(*reserved, kClient, 0, 1);
  }
  // Leaves memory of the ledger's to the file of that tag alone.
  void ExportMemory(std::uint64_t tag) {
    const ledger::ClientRef client = AddClient();
    const MutexLock lock(shim_->accounting.mutex);
    ledger::Ledger& ledger = shim_->accounting.ledger;
    auto memory = ledger.Reserve(ledger::Kind::kMemory, 0, kBytes);
    ledger::NewObject object;
    object.parent.handle = kClient;
    object.handle = 1;
    object.gpu = 0;
    object.actual_bytes = kBytes;
    const auto added = ledger.AddObject(*memory, client, object);
    ASSERT_TRUE(added.ok());
    auto exported = ledger.ReserveExport(client, *added);
    ASSERT_TRUE(ledger.Export(*exported, tag).ok());
    ASSERT_TRUE(ledger.Free(client, *added).ok());
  }
  std::uint64_t Used() {
    const MutexLock lock(shim_->accounting.mutex);
    return shim_->accounting.ledger.Used(0);
  }

  ShimConfig config_;
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeDriver calls_{fate_};
  std::unique_ptr<Driver> driver_;
  std::set<std::uint32_t> own_;
  std::unique_ptr<Shim> shim_;
};

TEST_F(ExportTagsTest, AFileIsKnownByItsTagAndNoOtherIs) {
  const UniqueFd one = NewFile();
  const UniqueFd other = NewFile();
  EXPECT_TRUE(shim_->tags.Empty());
  const std::uint64_t tag = Export(one);
  EXPECT_NE(tag, 0U);
  EXPECT_FALSE(shim_->tags.Empty());
  EXPECT_EQ(Find(one), tag);
  EXPECT_EQ(Find(other), 0U);
  EXPECT_NE(Export(other), tag);
  EXPECT_EQ(Find(one), tag);
}

TEST_F(ExportTagsTest, AnExportThatFailsLeavesNoTag) {
  const UniqueFd file = NewFile();
  EXPECT_NE(Transfer(file, boundary::TagStep::kNew, false), 0U);
  EXPECT_TRUE(InDriver().empty());
  EXPECT_TRUE(shim_->tags.Empty());
  EXPECT_EQ(Find(file), 0U);
}

TEST_F(ExportTagsTest, AsksNothingForWhatIsNoControlFile) {
  const UniqueFd file = NewFile();
  for (const auto step : {boundary::TagStep::kNew, boundary::TagStep::kTable}) {
    Pending pending = CallOn(file, step);
    pending.call.fd->file->kind = boundary::FileKind::kUvm;
    EXPECT_TRUE(shim_->tags.Prepare(pending));
    EXPECT_EQ(pending.call.fd->tag, 0U);
    pending.argument.reset();
    EXPECT_TRUE(shim_->tags.Prepare(pending));
  }
  EXPECT_TRUE(InDriver().empty());
}

TEST_F(ExportTagsTest, SaysThatTheDriverHasNoRoom) {
  (void)AddClient();
  const UniqueFd file = NewFile();
  calls_.SetFull(true);
  for (const auto step : {boundary::TagStep::kNew, boundary::TagStep::kTable}) {
    Pending pending = CallOn(file, step);
    EXPECT_FALSE(shim_->tags.Prepare(pending));
    EXPECT_EQ(pending.call.fd->tag, 0U);
  }
  EXPECT_TRUE(calls_.SetUpTable(file.get())) << "a table without a tag";
}

TEST_F(ExportTagsTest, HasAMostAndRoomAgainWhenAFileIsLetGo) {
  (void)AddClient();
  std::vector<UniqueFd> files;
  for (std::size_t i = 0; i < ExportTags::kMax; ++i) {
    files.push_back(NewFile());
    ASSERT_NE(Export(files.back()), 0U) << i;
  }
  const UniqueFd further = NewFile();
  EXPECT_EQ(Export(further), 0U);
  EXPECT_EQ(Transfer(further, boundary::TagStep::kTable), 0U);
  EXPECT_EQ(InDriver().size(), ExportTags::kMax);
  EXPECT_NE(Find(files.front()), 0U) << "those that are there go on";
  calls_.Close(files.back().get());
  EXPECT_TRUE(shim_->tags.Reconcile(true));
  EXPECT_NE(Export(further), 0U);
}

TEST_F(ExportTagsTest, AFileThatIsLetGoLeavesTheLedger) {
  const UniqueFd gone = NewFile();
  const UniqueFd kept = NewFile();
  ExportMemory(Export(gone));
  const std::uint64_t tag = Export(kept);
  EXPECT_FALSE(shim_->tags.Reconcile(true)) << "both are open";
  EXPECT_EQ(Used(), kBytes);
  calls_.Close(gone.get());
  EXPECT_TRUE(shim_->tags.Reconcile(true));
  EXPECT_EQ(Used(), 0U);
  EXPECT_FALSE(shim_->tags.Reconcile(true));
  EXPECT_EQ(Find(kept), tag);
  calls_.Close(kept.get());
  EXPECT_TRUE(shim_->tags.Reconcile(true));
  EXPECT_TRUE(shim_->tags.Empty());
}

TEST_F(ExportTagsTest, OnlyAReconciliationAtLeisureIsCutShort) {
  const UniqueFd file = NewFile();
  (void)Export(file);
  calls_.Close(file.get());
  shim_->hurry.Set(true);
  EXPECT_FALSE(shim_->tags.Reconcile(true));
  EXPECT_FALSE(shim_->tags.Empty());
  EXPECT_TRUE(shim_->tags.Reconcile(false));
  EXPECT_TRUE(shim_->tags.Empty());
}

TEST_F(ExportTagsTest, SetsATableUpOnceAndKeepsItWhateverBecomesOfTheCall) {
  (void)AddClient();
  const UniqueFd file = NewFile();
  const std::uint64_t tag = Transfer(file, boundary::TagStep::kTable, false);
  EXPECT_NE(tag, 0U);
  EXPECT_FALSE(calls_.SetUpTable(file.get())) << "anybody can set it up";
  EXPECT_EQ(Transfer(file, boundary::TagStep::kTable), tag);
  EXPECT_EQ(Find(file), tag);
  EXPECT_EQ(InDriver().size(), 1U);
}

TEST_F(ExportTagsTest, ATableOfAnothersGetsNoTag) {
  (void)AddClient();
  const UniqueFd file = NewFile();
  ASSERT_TRUE(calls_.SetUpTable(file.get()));
  EXPECT_EQ(Transfer(file, boundary::TagStep::kTable), 0U);
  EXPECT_TRUE(InDriver().empty());
  EXPECT_TRUE(shim_->tags.Empty());
}

TEST_F(ExportTagsTest, SetsNoTableUpForAClientOfAnothers) {
  const UniqueFd file = NewFile();
  EXPECT_EQ(Transfer(file, boundary::TagStep::kTable), 0U);
  EXPECT_TRUE(calls_.SetUpTable(file.get()));
  EXPECT_TRUE(InDriver().empty());
}

TEST_F(ExportTagsTest, ASuccessorKnowsTheTags) {
  const UniqueFd file = NewFile();
  const std::uint64_t tag = Export(file);
  ServerState state;
  shim_->tags.Save(state);
  shim_ = std::make_unique<Shim>(*this);
  EXPECT_EQ(Find(file), 0U);
  shim_->tags.Load(state);
  EXPECT_EQ(Find(file), tag);
}

}  // namespace
}  // namespace cgpu::shim
