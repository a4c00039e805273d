// Records of the disk tier as bytes: a block's small record, what the meta store keeps, names of
// families. Byte layout: docs/format.md, "Disk tier"; little-endian, keys big-endian so that they
// sort.
//
// Threading: free functions. Errors: bytes that do not check are refused, never asserted on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/frame.h"
#include "kvstore/meta_store.h"
#include "kvstore/tier.h"
#include "tiers/bucket_table.h"

namespace holdfast {

inline constexpr uint32_t kDiskFormatVersion = 1;
inline constexpr size_t kBlockRecordBytes = 96;  // and the external key after it, if there is one
inline constexpr char kFrameRecord = 'p';
inline constexpr char kBlockRecord = 'm';

// Name of a bucket's column family, and back; nullopt: not one of ours.
std::string FamilyName(GroupId id, const BucketLine& line);
struct FamilyIdentity {
  GroupId id = 0;
  BucketLine line;
};
std::optional<FamilyIdentity> ParseFamilyName(std::string_view name);

// Key of a record in a bucket's family: the kind and the slot.
std::string SlotKey(char kind, uint32_t slot);
std::optional<uint32_t> ParseSlotKey(char kind, std::string_view key);

// The part of a header that an opening store needs, without the payload's checksums.
std::string EncodeBlockRecord(const FrameHeader& header, Place place);
struct BlockRecord {
  FrameFixed fixed{};
  FramePlacement placement{};
};
bool DecodeBlockRecord(std::string_view bytes, Place place, BlockRecord& out);

// A change of the meta family: a value, or nothing: the key goes.
struct MetaChange {
  std::string key;
  std::optional<std::string> value;
};
std::vector<MetaChange> EncodeMeta(const MetaBatch& batch);
// Adds one record to the snapshot. False: it is not readable.
bool DecodeMeta(std::string_view key, std::string_view value, MetaSnapshot& out);

std::string_view FormatKey();  // of the format version, in the meta family
std::string EncodeFormat(uint32_t version);
std::optional<uint32_t> DecodeFormat(std::string_view value);

}  // namespace holdfast
