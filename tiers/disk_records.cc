#include "tiers/disk_records.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <type_traits>

namespace holdfast {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie");

struct RawBlockRecord {
  RootKey root;
  BlockKey key;
  BlockKey parent;
  uint64_t write_id = 0;
  int64_t deadline_ms = 0;
  uint64_t hold_ttl_ms = 0;
  uint32_t payload_bytes = 0;
  uint32_t index = 0;
  uint32_t touches = 0;
  uint8_t granted = 0;
  uint8_t external_bytes = 0;
  uint8_t version = 0;
  uint8_t reserved = 0;
  uint64_t checksum =
      0;  // XXH3-64 of all before it, then of the external key; seeded with the place
};
static_assert(sizeof(RawBlockRecord) == kBlockRecordBytes);
constexpr uint8_t kBlockRecordVersion = 1;

struct RawDeadline {
  uint64_t write_id;
  int64_t deadline_ms;
  uint64_t hold_ttl_ms;
  uint64_t granted;
};
static_assert(sizeof(RawDeadline) == 32);

constexpr char kDeadline = 'd';
constexpr char kEpoch = 'e';
constexpr char kHoldNow = 'h';
constexpr char kTombstone = 't';
constexpr char kWriteId = 'w';
constexpr std::string_view kFormat = "FORMAT";

template <typename T>
std::string_view Bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

uint64_t Sum(std::string_view bytes, uint64_t seed) {
  return Checksum64(std::as_bytes(std::span(bytes.data(), bytes.size())), seed);
}

uint64_t RecordSum(std::string_view raw, std::string_view external, Place place) {
  const uint64_t seed = uint64_t{place.group} << 32 | place.slot;
  return Sum(external, Sum(raw.substr(0, offsetof(RawBlockRecord, checksum)), seed));
}

void AppendBigEndian(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

uint64_t ReadBigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

std::string MetaKey(char kind, const BlockKey& key) {
  std::string out(1, kind);
  AppendBigEndian(out, key.hi, 8);
  AppendBigEndian(out, key.lo, 8);
  return out;
}

// The value and its checksum, seeded with the key's: a value under another key does not check.
MetaChange Sealed(std::string key, std::string value) {
  const uint64_t sum = Sum(value, Sum(key, 0));
  value += Bytes(sum);
  return {std::move(key), std::move(value)};
}

std::optional<std::string_view> Unsealed(std::string_view key, std::string_view value) {
  uint64_t sum = 0;
  if (value.size() < sizeof sum) return std::nullopt;
  const std::string_view content = value.substr(0, value.size() - sizeof sum);
  std::memcpy(&sum, value.data() + content.size(), sizeof sum);
  if (sum != Sum(content, Sum(key, 0))) return std::nullopt;
  return content;
}

template <typename T>
std::optional<T> Read(std::string_view& content) {
  T value{};
  if (content.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, content.data(), sizeof value);
  content.remove_prefix(sizeof value);
  return value;
}

bool DecodeEpoch(const BlockKey& space, std::string_view content, MetaSnapshot& out) {
  const auto epoch = Read<uint32_t>(content);
  const auto count = Read<uint32_t>(content);
  if (!epoch || !count || content.size() != *count * sizeof(RootKey)) return false;
  SpaceEpoch record{.space = space, .epoch = *epoch, .dead_roots = {}};
  for (uint32_t i = 0; i < *count; ++i) record.dead_roots.push_back(*Read<RootKey>(content));
  out.epochs.push_back(std::move(record));
  return true;
}

bool DecodeKeyed(std::string_view key, std::string_view content, MetaSnapshot& out) {
  if (key.size() != 17) return false;
  const BlockKey block{ReadBigEndian(key.substr(1, 8)), ReadBigEndian(key.substr(9, 8))};
  if (key[0] == kEpoch) return DecodeEpoch(block, content, out);
  if (key[0] == kTombstone) {
    const auto write_id = Read<uint64_t>(content);
    if (!write_id || !content.empty()) return false;
    out.tombstones.push_back({block, *write_id});
    return true;
  }
  const auto raw = Read<RawDeadline>(content);
  if (key[0] != kDeadline || !raw || !content.empty() || raw->granted > 1) return false;
  out.deadlines.push_back(
      {block, raw->write_id, raw->deadline_ms, raw->hold_ttl_ms, raw->granted == 1});
  return true;
}

}  // namespace

std::string FamilyName(GroupId id, const BucketLine& line) {
  return "b" + std::to_string(id) + "." + std::to_string(line.width) + "." +
         std::to_string(line.end) + "." + std::to_string(line.created_to);
}

std::optional<FamilyIdentity> ParseFamilyName(std::string_view name) {
  if (!name.starts_with('b')) return std::nullopt;
  int64_t fields[4] = {};
  const char* at = name.data() + 1;
  const char* const end = name.data() + name.size();
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, fields[i]);
    if (error != std::errc() || fields[i] < 0) return std::nullopt;
    at = next;
  }
  if (at != end || fields[0] >= UINT32_MAX || fields[1] > kUndatedWidth) return std::nullopt;
  return FamilyIdentity{static_cast<GroupId>(fields[0]),
                        {static_cast<uint8_t>(fields[1]), fields[2], fields[3]}};
}

std::string SlotKey(char kind, uint32_t slot) {
  std::string key(1, kind);
  AppendBigEndian(key, slot, 4);
  return key;
}

std::optional<uint32_t> ParseSlotKey(char kind, std::string_view key) {
  if (key.size() != 5 || key[0] != kind) return std::nullopt;
  return static_cast<uint32_t>(ReadBigEndian(key.substr(1)));
}

std::string EncodeBlockRecord(const FrameHeader& header, Place place) {
  const FrameFixed& fixed = header.fixed;
  const FramePlacement& placement = header.placement;
  RawBlockRecord raw{.root = fixed.root,
                     .key = fixed.key,
                     .parent = fixed.parent,
                     .write_id = placement.write_id,
                     .deadline_ms = placement.deadline_ms,
                     .hold_ttl_ms = placement.hold_ttl_ms,
                     .payload_bytes = static_cast<uint32_t>(fixed.payload_bytes),
                     .index = fixed.index,
                     .touches = placement.touches,
                     .granted = static_cast<uint8_t>(placement.granted != 0),
                     .external_bytes = static_cast<uint8_t>(fixed.external_bytes),
                     .version = kBlockRecordVersion,
                     .reserved = 0,
                     .checksum = 0};
  const std::string_view external(reinterpret_cast<const char*>(fixed.external),
                                  raw.external_bytes);
  raw.checksum = RecordSum(Bytes(raw), external, place);
  std::string out(Bytes(raw));
  out += external;
  return out;
}

bool DecodeBlockRecord(std::string_view bytes, Place place, BlockRecord& out) {
  RawBlockRecord raw;
  if (bytes.size() < sizeof raw) return false;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  const std::string_view external = bytes.substr(sizeof raw);
  if (raw.checksum != RecordSum(bytes.substr(0, sizeof raw), external, place)) return false;
  if (raw.version != kBlockRecordVersion || raw.external_bytes != external.size() ||
      external.size() > kExternalKeyBytesMax || raw.payload_bytes == 0 ||
      raw.payload_bytes > kPayloadBytesMax) {
    return false;
  }
  out = BlockRecord{};
  FrameFixed& fixed = out.fixed;
  fixed.magic = kFrameMagic;
  fixed.version = kFrameVersion;
  fixed.granule_bytes_log2 = GranuleBytesLog2(raw.payload_bytes);
  fixed.key = raw.key;
  fixed.root = raw.root;
  fixed.parent = raw.parent;
  fixed.index = raw.index;
  fixed.external_bytes = raw.external_bytes;
  fixed.payload_bytes = raw.payload_bytes;
  std::memcpy(fixed.external, external.data(), external.size());
  out.placement.epoch = place.group;
  out.placement.slot = place.slot;
  out.placement.write_id = raw.write_id;
  out.placement.deadline_ms = raw.deadline_ms;
  out.placement.hold_ttl_ms = raw.hold_ttl_ms;
  out.placement.granted = raw.granted;
  out.placement.touches = raw.touches;
  return true;
}

std::vector<MetaChange> EncodeMeta(const MetaBatch& batch) {
  std::vector<MetaChange> out;
  for (const DeadlineRecord& record : batch.deadlines) {
    const RawDeadline raw{record.write_id, record.deadline, record.hold_ttl_ms,
                          record.granted ? 1ull : 0ull};
    out.push_back(Sealed(MetaKey(kDeadline, record.key), std::string(Bytes(raw))));
  }
  for (const BlockKey& key : batch.forget_deadlines) {
    out.push_back({MetaKey(kDeadline, key), std::nullopt});
  }
  for (const Tombstone& record : batch.tombstones) {
    out.push_back(Sealed(MetaKey(kTombstone, record.key), std::string(Bytes(record.write_id))));
  }
  for (const BlockKey& key : batch.forget_tombstones) {
    out.push_back({MetaKey(kTombstone, key), std::nullopt});
  }
  for (const SpaceEpoch& record : batch.epochs) {
    std::string value(Bytes(record.epoch));
    value += Bytes(static_cast<uint32_t>(record.dead_roots.size()));
    for (const RootKey& root : record.dead_roots) value += Bytes(root);
    out.push_back(Sealed(MetaKey(kEpoch, record.space), std::move(value)));
  }
  if (batch.hold_now != 0) {
    out.push_back(Sealed(std::string(1, kHoldNow), std::string(Bytes(batch.hold_now))));
  }
  if (batch.write_id_next != 0) {
    out.push_back(Sealed(std::string(1, kWriteId), std::string(Bytes(batch.write_id_next))));
  }
  return out;
}

bool DecodeMeta(std::string_view key, std::string_view value, MetaSnapshot& out) {
  if (key == kFormat) return true;
  std::optional<std::string_view> content = Unsealed(key, value);
  if (!content || key.empty()) return false;
  if (key.size() > 1) return DecodeKeyed(key, *content, out);
  const auto number = Read<uint64_t>(*content);
  if (!number || !content->empty()) return false;
  if (key[0] == kHoldNow) {
    out.hold_now = static_cast<HoldMillis>(*number);
  } else if (key[0] == kWriteId) {
    out.write_id_next = *number;
  } else {
    return false;
  }
  return true;
}

std::string_view FormatKey() { return kFormat; }

std::string EncodeFormat(uint32_t version) {
  return *Sealed(std::string(kFormat), std::string(Bytes(version))).value;
}

std::optional<uint32_t> DecodeFormat(std::string_view value) {
  std::optional<std::string_view> content = Unsealed(kFormat, value);
  return content ? Read<uint32_t>(*content) : std::nullopt;
}

}  // namespace holdfast
