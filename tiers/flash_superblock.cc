#include <cstring>
#include <string>
#include <utility>

#include "tiers/flash_open.h"

namespace holdfast::internal {
namespace {

// Whether a page that fails its checks can be the first write of a creation that was cut off: any
// part of a superblock, the rest still zero. Anybody else's first page is not.
bool MayBeCutOffCreation(const FlashSuperblock& block) {
  if (block.magic == kFlashMagic) return true;
  FlashSuperblock zero{};
  return std::memcmp(&block, &zero, offsetof(FlashSuperblock, checksum)) == 0;
}

Status CheckIdentity(const FlashSuperblock& block, const FlashTierOptions& options) {
  if (options.store_id != BlockKey{} && block.store_id != options.store_id) {
    return {StatusCode::kFailedPrecondition,
            "flash " + options.path +
                " belongs to another store; name the right file, or remove it to start empty"};
  }
  return {};
}

// Which copy to go on from: 0 or 1; or -1 for a new medium.
Result<int> ChooseCopy(const FlashSuperblock* copies, const std::string& path) {
  const SuperblockState states[] = {CheckSuperblock(copies[0]), CheckSuperblock(copies[1])};
  for (const SuperblockState state : states) {
    if (state == SuperblockState::kNewerVersion) {
      return Status(StatusCode::kFailedPrecondition,
                    "flash " + path +
                        " was written by a newer version of holdfast; open it with that, or remove "
                        "the file to start empty");
    }
  }
  const bool first = states[0] == SuperblockState::kGood;
  const bool second = states[1] == SuperblockState::kGood;
  if (first && second) return copies[0].opens >= copies[1].opens ? 0 : 1;
  if (first || second) return first ? 0 : 1;
  const bool empty = states[0] == SuperblockState::kZero || MayBeCutOffCreation(copies[0]);
  if (empty && states[1] == SuperblockState::kZero) return -1;
  return Status(StatusCode::kDataLoss,
                "flash " + path +
                    ": both superblocks are corrupt. Its copies cannot be found again; remove the "
                    "file to start empty, or name another one if it is not holdfast's");
}

}  // namespace

Result<FlashSuperblock> OpenSuperblock(BlockingIo& io, uint64_t capacity_bytes,
                                       const FlashTierOptions& options) {
  const Pages pages = AllocatePages(kSegmentsOffset);
  auto* copies = reinterpret_cast<FlashSuperblock*>(pages.get());
  if (capacity_bytes < kSegmentsOffset) {
    return Status(StatusCode::kInvalidArgument, "flash " + options.path + " is too small");
  }
  const Extent both{pages.get(), kSegmentsOffset};
  if (const int error = io.Run({.kind = IoKind::kRead, .piece = both}); error != 0) {
    return Status::FromErrno(error, "flash " + options.path + ": reading the superblock");
  }
  HF_ASSIGN_OR_RETURN(const int chosen, ChooseCopy(copies, options.path));
  FlashSuperblock block{};
  if (chosen >= 0) {
    block = copies[chosen];
    HF_RETURN_IF_ERROR(CheckIdentity(block, options));
  } else {
    block.segment_bytes = ChooseSegmentBytes(capacity_bytes, options);
    block.store_id = options.store_id;
  }
  if ((capacity_bytes - kSegmentsOffset) / block.segment_bytes < kSegmentsLeast) {
    return Status(StatusCode::kInvalidArgument,
                  "flash " + options.path + " of " + std::to_string(capacity_bytes) +
                      " bytes holds fewer than " + std::to_string(kSegmentsLeast) +
                      " segments of " + std::to_string(block.segment_bytes) +
                      "; make it larger, or segment_bytes_min or the payload smaller");
  }
  ++block.opens;
  SealSuperblock(block);
  // The copy that was not chosen first, so that a good one is there at every instant.
  const uint64_t first = chosen == 0 ? 1 : 0;
  for (const uint64_t copy : {first, 1 - first}) {
    copies[copy] = block;
    const Extent page{pages.get() + copy * kPageBytes, kPageBytes};
    int error = io.Run({.kind = IoKind::kWrite, .offset_bytes = copy * kPageBytes, .piece = page});
    if (error == 0) error = io.Run({.kind = IoKind::kSync});
    if (error != 0) {
      return Status::FromErrno(error, "flash " + options.path + ": writing the superblock");
    }
  }
  return block;
}

}  // namespace holdfast::internal
