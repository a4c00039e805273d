#include <algorithm>
#include <utility>

#include "tiers/flash_open.h"

namespace holdfast::internal {
namespace {

constexpr uint64_t kBatchSegments = 128;
constexpr uint32_t kBatchSlots = 256;

class Recovery {
 public:
  Recovery(BlockingIo& io, FlashSegments& segments, Instant now,
           const GroupedTier::OnRecovered& on_copy)
      : io_(io), segments_(segments), now_(now), on_copy_(on_copy) {}

  void Run() {
    for (uint64_t first = 0; first < segments_.options().count; first += kBatchSegments) {
      RunBatch(first, std::min(kBatchSegments, segments_.options().count - first));
    }
    segments_.EndRestoreAll();
  }

 private:
  struct Found {
    GroupId group = 0;
    SegmentHeader header;
    SegmentShape shape;
    uint32_t slots = 0;
    Pages summary{};
    bool sealed = false;
  };

  uint64_t segment_bytes() const { return segments_.options().segment_bytes; }
  uint64_t OffsetOf(GroupId group) const { return SegmentOffset(group, segment_bytes()); }

  void RunBatch(uint64_t first, uint64_t count) {
    std::vector<Found> found = ReadHeaders(first, count);
    ReadSummaries(found);
    for (Found& one : found) {
      segments_.BeginRestore(one.group, one.header, one.shape);
      if (one.sealed) {
        ReportSummary(one);
      } else {
        ReportSlots(one);
      }
      segments_.EndRestore(one.group, one.sealed, std::move(one.summary), now_);
    }
  }

  std::vector<Found> ReadHeaders(uint64_t first, uint64_t count) {
    const Pages pages = AllocatePages(count * kSlotsOffset);
    std::vector<BlockingIo::Job> jobs(count);
    for (uint64_t i = 0; i < count; ++i) {
      jobs[i] = {.kind = IoKind::kRead,
                 .offset_bytes = OffsetOf(static_cast<GroupId>(first + i)),
                 .piece = {pages.get() + i * kSlotsOffset, kSlotsOffset}};
    }
    io_.Run(jobs);
    std::vector<Found> found;
    for (uint64_t i = 0; i < count; ++i) {
      const auto& header = *reinterpret_cast<const SegmentHeader*>(jobs[i].piece.data);
      const auto& shape = *reinterpret_cast<const SegmentShape*>(jobs[i].piece.data + kPageBytes);
      if (jobs[i].error != 0 || !CheckSegmentHeader(header, first + i) ||
          !CheckSegmentShape(shape, header, segment_bytes())) {
        continue;
      }
      found.push_back({.group = static_cast<GroupId>(first + i),
                       .header = header,
                       .shape = shape,
                       .slots = SlotsOf(segment_bytes(), shape.stride_bytes)});
    }
    return found;
  }

  void ReadSummaries(std::vector<Found>& found) {
    std::vector<BlockingIo::Job> jobs;
    for (Found& one : found) {
      one.summary = AllocatePages(SummaryBytes(one.slots));
      jobs.push_back(
          {.kind = IoKind::kRead,
           .offset_bytes = OffsetOf(one.group) + SummaryOffset(segment_bytes(), one.slots),
           .piece = {one.summary.get(), SummaryBytes(one.slots)}});
    }
    io_.Run(jobs);
    for (size_t i = 0; i < found.size(); ++i) {
      Found& one = found[i];
      one.sealed = jobs[i].error == 0 && CheckSummary(ViewSummary(one.summary.get(), one.slots),
                                                      one.header.epoch, one.group);
      if (!one.sealed) one.summary = AllocatePages(SummaryBytes(one.slots));
    }
  }

  void ReportSummary(Found& one) {
    const SummaryView view = ViewSummary(one.summary.get(), one.slots);
    for (uint32_t slot = 0; slot < one.slots; ++slot) {
      if (!SaneEntry(view.entries[slot], one.shape.stride_bytes)) continue;
      RestoreHeader(view.entries[slot], restored_);
      Report({one.group, slot}, restored_);
    }
  }

  void ReportSlots(Found& one) {
    for (uint32_t first = 0; first < one.slots; first += kBatchSlots) {
      const uint32_t count = std::min(kBatchSlots, one.slots - first);
      const Pages pages = AllocatePages(count * kPageBytes);
      std::vector<BlockingIo::Job> jobs(count);
      for (uint32_t i = 0; i < count; ++i) {
        jobs[i] = {.kind = IoKind::kRead,
                   .offset_bytes =
                       OffsetOf(one.group) + kSlotsOffset + (first + i) * one.shape.stride_bytes,
                   .piece = {pages.get() + i * kPageBytes, kPageBytes}};
      }
      io_.Run(jobs);
      for (uint32_t i = 0; i < count; ++i) {
        if (jobs[i].error == 0) {
          ReportSlot(one, first + i, *reinterpret_cast<const FrameHeader*>(jobs[i].piece.data));
        }
      }
    }
  }

  // What is written but torn passes here: its payload is verified when it is read.
  void ReportSlot(Found& one, uint32_t slot, const FrameHeader& header) {
    if (CheckHeader(header) != FrameFault::kNone) return;
    if (header.placement.epoch != one.header.epoch || header.placement.slot != slot) return;
    const SummaryEntry entry = MakeSummaryEntry(header);
    if (!SaneEntry(entry, one.shape.stride_bytes)) return;
    ViewSummary(one.summary.get(), one.slots).entries[slot] = entry;
    Report({one.group, slot}, header);
  }

  void Report(Place place, const FrameHeader& header) {
    const std::optional<EntryId> entry =
        on_copy_({.fixed = &header.fixed, .placement = header.placement, .place = place});
    if (entry) segments_.AcceptCopy(place, *entry, header.placement.deadline_ms);
  }

  BlockingIo& io_;
  FlashSegments& segments_;
  const Instant now_;
  const GroupedTier::OnRecovered& on_copy_;
  FrameHeader restored_;
};

}  // namespace

void RecoverSegments(BlockingIo& io, FlashSegments& segments, Instant now,
                     const GroupedTier::OnRecovered& on_copy) {
  Recovery(io, segments, now, on_copy).Run();
}

}  // namespace holdfast::internal
