#include "kvstore/frame_space.h"

#include <algorithm>
#include <bit>

#include "kvstore/check.h"

namespace holdfast {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kInUse = UINT32_MAX - 1;
constexpr uint32_t kAnySize = UINT32_MAX - 1;  // no page has it
constexpr uint32_t kFloorPages = 2;
constexpr uint64_t kCannot = UINT64_MAX;

// One bit a page, set while it is free. Single pages come from the low end and runs from the high
// end, so that runs find adjacent pages for long.
class FreePages {
 public:
  explicit FreePages(uint32_t pages) : pages_(pages), words_((pages + 63) / 64, 0) {
    for (uint32_t page = 0; page < pages; ++page) Put(page);
  }

  uint32_t count() const noexcept { return count_; }
  bool Has(uint32_t page) const noexcept { return (words_[page / 64] >> (page % 64) & 1) != 0; }
  void Put(uint32_t page) noexcept {
    words_[page / 64] |= 1ull << (page % 64);
    low_ = std::min(low_, page / 64);
    ++count_;
  }
  void Remove(uint32_t page) noexcept {
    words_[page / 64] &= ~(1ull << (page % 64));
    --count_;
  }
  // The first page of `n` adjacent ones, removed; kNone where there are none.
  uint32_t Take(uint32_t n) noexcept {
    if (count_ < n) return kNone;
    const uint32_t first = n == 1 ? Lowest() : HighestRun(n);
    for (uint32_t i = 0; first != kNone && i < n; ++i) Remove(first + i);
    return first;
  }
  // Disjoint runs of n pages.
  uint32_t Runs(uint32_t n) const noexcept {
    if (n == 1) return count_;
    uint32_t runs = 0;
    uint32_t length = 0;
    for (uint32_t page = 0; page < pages_; ++page) {
      length = Has(page) ? length + 1 : 0;
      if (length == n) {
        ++runs;
        length = 0;
      }
    }
    return runs;
  }

 private:
  uint32_t Lowest() noexcept {
    while (words_[low_] == 0) ++low_;  // ends: count_ > 0 and no word below low_ has a bit
    return low_ * 64 + static_cast<uint32_t>(std::countr_zero(words_[low_]));
  }
  uint32_t HighestRun(uint32_t n) const noexcept {
    uint32_t length = 0;
    for (uint32_t page = pages_; page-- > 0;) {
      length = Has(page) ? length + 1 : 0;
      if (length == n) return page;
    }
    return kNone;
  }

  uint32_t pages_;
  uint32_t count_ = 0;
  uint32_t low_ = 0;  // no free page in the words before it
  std::vector<uint64_t> words_;
};

}  // namespace

struct FrameSpace::State {
  struct Size {              // of frames, in units of 4 KiB
    uint32_t units = 0;      // of one frame
    uint32_t per_page = 0;   // frames of one run of pages
    uint32_t run = 0;        // pages that belong together: 1 where several frames share a page
    uint32_t pages = 0;      // open ones; closed ones are as good as gone
    uint32_t spare = kNone;  // list of open runs with free frames
    uint64_t frames = 0;     // in use
    uint64_t free = 0;       // in open runs
  };
  struct Page {                        // the record of a run is its first page's
    std::unique_ptr<uint32_t[]> next;  // of a free frame the next free one, or kInUse
    uint32_t next_length = 0;
    uint32_t size = kNone;  // index in sizes; kNone: free
    uint32_t head = 0;      // first page of the run
    uint32_t used = 0;      // frames
    uint32_t fresh = 0;     // frames from here on were not used since the page has its size
    uint32_t free = kNone;  // list of the others
    uint32_t before = kNone, after = kNone;  // in Size::spare
    bool closed = false;
  };
  static_assert(sizeof(Page) <= 48);

  explicit State(const FrameSpaceOptions& options)
      : page_units(static_cast<uint32_t>(options.page_bytes / kPageBytes)),
        page_log2(static_cast<uint32_t>(std::countr_zero(options.page_bytes))),
        pages(options.range_bytes >> page_log2),
        free_pages(static_cast<uint32_t>(pages.size())) {}

  uint32_t SizeOf(uint64_t bytes);
  const Size* FindSize(uint64_t bytes) const noexcept;
  Size Describe(uint64_t bytes) const noexcept;
  bool TakePages(uint32_t size_index);
  void ReleasePages(uint32_t head);
  void Link(uint32_t head) noexcept;
  void Unlink(uint32_t head) noexcept;
  uint32_t TakeFrame(uint32_t head) noexcept;
  void SettleEmpty(uint32_t head);
  bool AboveFloor(const Page& page, uint32_t taken) const noexcept;
  struct Wish {             // of PageToTake
    uint32_t size = kNone;  // who asks
    uint32_t run = 1;
    std::span<const uint64_t> except;
  };
  struct Taken {  // pages of one size that a window would take
    uint32_t size = 0;
    uint32_t pages = 0;
  };
  uint64_t CostOf(uint32_t first, const Wish& wish, std::vector<Taken>& taken) const;
  uint32_t Head(uint64_t page_offset) const noexcept {
    HF_CHECK(page_offset >> page_log2 < pages.size());
    return pages[page_offset >> page_log2].head;
  }
  uint64_t OffsetOf(uint32_t page) const noexcept {
    return static_cast<uint64_t>(page) << page_log2;
  }
  bool full(const Page& page) const noexcept { return page.used == sizes[page.size].per_page; }

  const uint32_t page_units;
  const uint32_t page_log2;
  std::vector<Page> pages;
  FreePages free_pages;
  std::vector<Size> sizes;         // one for each ever used: at most 65,537
  std::vector<uint32_t> by_units;  // size index by frame units
  uint64_t used_units = 0;
  uint64_t frames = 0;
};

FrameSpace::State::Size FrameSpace::State::Describe(uint64_t bytes) const noexcept {
  HF_CHECK(bytes > 0 && bytes % kPageBytes == 0 && bytes <= FrameBytes(kPayloadBytesMax));
  Size size;
  size.units = static_cast<uint32_t>(bytes / kPageBytes);
  size.per_page = std::max(1u, page_units / size.units);
  size.run = (size.units + page_units - 1) / page_units;
  return size;
}

const FrameSpace::State::Size* FrameSpace::State::FindSize(uint64_t bytes) const noexcept {
  HF_CHECK(bytes % kPageBytes == 0);
  const uint64_t units = bytes / kPageBytes;
  if (units >= by_units.size() || by_units[units] == kNone) return nullptr;
  return &sizes[by_units[units]];
}

uint32_t FrameSpace::State::SizeOf(uint64_t bytes) {
  if (const Size* size = FindSize(bytes)) return static_cast<uint32_t>(size - sizes.data());
  const Size size = Describe(bytes);
  const uint64_t units = size.units;
  if (units >= by_units.size()) by_units.resize(units + 1, kNone);
  by_units[units] = static_cast<uint32_t>(sizes.size());
  sizes.push_back(size);
  return by_units[units];
}

void FrameSpace::State::Link(uint32_t head) noexcept {
  Size& size = sizes[pages[head].size];
  pages[head].before = kNone;
  pages[head].after = size.spare;
  if (size.spare != kNone) pages[size.spare].before = head;
  size.spare = head;
}

void FrameSpace::State::Unlink(uint32_t head) noexcept {
  const Page& page = pages[head];
  if (page.before != kNone) {
    pages[page.before].after = page.after;
  } else {
    sizes[page.size].spare = page.after;
  }
  if (page.after != kNone) pages[page.after].before = page.before;
}

// Gives a free run of pages to the size.
bool FrameSpace::State::TakePages(uint32_t size_index) {
  Size& size = sizes[size_index];
  const uint32_t head = free_pages.Take(size.run);
  if (head == kNone) return false;
  for (uint32_t i = 0; i < size.run; ++i) {
    pages[head + i].size = size_index;
    pages[head + i].head = head;
  }
  Page& page = pages[head];
  page.used = 0;
  page.fresh = 0;
  page.free = kNone;
  page.closed = false;
  if (page.next_length != size.per_page) {
    page.next = std::make_unique_for_overwrite<uint32_t[]>(size.per_page);
    page.next_length = size.per_page;
  }
  size.pages += size.run;
  size.free += size.per_page;
  Link(head);
  return true;
}

// An open, empty run in the list of its size becomes free pages.
void FrameSpace::State::ReleasePages(uint32_t head) {
  Size& size = sizes[pages[head].size];
  Unlink(head);
  size.pages -= size.run;
  size.free -= size.per_page;
  for (uint32_t i = 0; i < size.run; ++i) {
    pages[head + i].size = kNone;
    pages[head + i].head = head + i;
    free_pages.Put(head + i);
  }
}

uint32_t FrameSpace::State::TakeFrame(uint32_t head) noexcept {
  Page& page = pages[head];
  uint32_t frame = page.free;
  if (frame != kNone) {
    page.free = page.next[frame];
  } else {
    frame = page.fresh++;
  }
  page.next[frame] = kInUse;
  page.used += 1;
  if (full(page)) Unlink(head);
  return frame;
}

// After the last frame of an open run was freed: it goes, but for the floor; and when it was the
// last frame of its size, all that the floor kept goes as well.
void FrameSpace::State::SettleEmpty(uint32_t head) {
  Size& size = sizes[pages[head].size];
  if (size.frames == 0) {
    while (size.spare != kNone) ReleasePages(size.spare);
  } else if (size.pages >= kFloorPages + size.run) {
    ReleasePages(head);
  }
}

bool FrameSpace::State::AboveFloor(const Page& page, uint32_t taken) const noexcept {
  return page.closed || sizes[page.size].pages >= taken + kFloorPages;
}

// Frames to free so that the pages from `first` on are free; kCannot where some may not be taken.
uint64_t FrameSpace::State::CostOf(uint32_t first, const Wish& wish,
                                   std::vector<Taken>& taken) const {
  taken.clear();
  uint64_t frames_in_use = 0;
  for (uint32_t i = first; i < first + wish.run;) {
    if (free_pages.Has(i)) {
      ++i;
      continue;
    }
    const uint32_t head = pages[i].head;
    const Page& page = pages[head];
    if (page.size == wish.size || std::ranges::count(wish.except, OffsetOf(head)) > 0) {
      return kCannot;
    }
    const uint32_t run = sizes[page.size].run;
    auto of_size = std::ranges::find(taken, page.size, &Taken::size);
    if (of_size == taken.end()) of_size = taken.insert(taken.end(), Taken{.size = page.size});
    if (!page.closed) of_size->pages += run;
    if (!AboveFloor(page, of_size->pages)) return kCannot;
    frames_in_use += page.used;
    i = head + run;
  }
  return frames_in_use;
}

FrameSpace::FrameSpace(const FrameSpaceOptions& options) {
  HF_CHECK(std::has_single_bit(options.page_bytes) && options.page_bytes >= (64u << 10));
  HF_CHECK(options.range_bytes % options.page_bytes == 0);
  HF_CHECK(options.range_bytes / options.page_bytes < kInUse);
  state_ = std::make_unique<State>(options);
  for (uint32_t i = 0; i < state_->pages.size(); ++i) state_->pages[i].head = i;
}

FrameSpace::~FrameSpace() = default;

std::optional<uint64_t> FrameSpace::Allocate(uint64_t bytes) {
  State& s = *state_;
  const uint32_t index = s.SizeOf(bytes);
  if (s.sizes[index].spare == kNone && !s.TakePages(index)) return std::nullopt;
  State::Size& size = s.sizes[index];
  const uint32_t head = size.spare;
  const uint32_t frame = s.TakeFrame(head);
  size.frames += 1;
  size.free -= 1;
  s.frames += 1;
  s.used_units += size.units;
  return s.OffsetOf(head) + frame * bytes;
}

void FrameSpace::Free(uint64_t offset) {
  State& s = *state_;
  const uint64_t page_index = offset >> s.page_log2;
  HF_CHECK(page_index < s.pages.size());
  const auto head = static_cast<uint32_t>(page_index);
  State::Page& page = s.pages[head];
  HF_CHECK(page.size != kNone && page.head == head);
  State::Size& size = s.sizes[page.size];
  const uint64_t in_page = offset - s.OffsetOf(head);
  const auto units = static_cast<uint32_t>(in_page / kPageBytes);
  const uint32_t frame = units / size.units;  // of 32 bits: a third of the time of one of 64
  HF_CHECK(in_page % kPageBytes == 0 && units % size.units == 0);
  HF_CHECK(frame < page.fresh && page.next[frame] == kInUse);

  const bool was_full = s.full(page);
  page.next[frame] = page.free;
  page.free = frame;
  page.used -= 1;
  size.frames -= 1;
  s.frames -= 1;
  s.used_units -= size.units;
  if (!page.closed) {
    size.free += 1;
    if (was_full) s.Link(head);
    if (page.used == 0) s.SettleEmpty(head);
  } else if (page.used == 0) {
    ReopenPage(offset);  // and gives it back: the floor was kept without it
  }
}

uint64_t FrameSpace::used_bytes() const noexcept { return state_->used_units * kPageBytes; }
uint64_t FrameSpace::frames() const noexcept { return state_->frames; }

uint64_t FrameSpace::Available(uint64_t bytes) const noexcept {
  const State& s = *state_;
  const State::Size* known = s.FindSize(bytes);
  const State::Size size = known != nullptr ? *known : s.Describe(bytes);
  return size.free + static_cast<uint64_t>(s.free_pages.Runs(size.run)) * size.per_page;
}

uint64_t FrameSpace::CapacityFrames(uint64_t bytes) const noexcept {
  const State::Size size = state_->Describe(bytes);
  return state_->pages.size() / size.run * size.per_page;
}

std::optional<uint64_t> FrameSpace::PageToTake(uint64_t bytes,
                                               std::span<const uint64_t> except) const {
  const State& s = *state_;
  const State::Size* known = s.FindSize(bytes);
  const State::Wish wish{
      .size = known != nullptr ? static_cast<uint32_t>(known - s.sizes.data()) : kAnySize,
      .run = s.Describe(bytes).run,
      .except = except};
  std::vector<State::Taken> taken;
  uint64_t lowest = kCannot;
  uint32_t best = kNone;
  for (uint32_t first = 0; first + wish.run <= s.pages.size(); ++first) {
    const uint64_t cost = s.CostOf(first, wish, taken);
    if (cost == 0 || cost >= lowest) continue;  // 0: free already
    lowest = cost;
    best = first;
  }
  if (best == kNone) return std::nullopt;
  while (s.free_pages.Has(best)) ++best;
  return s.OffsetOf(s.pages[best].head);
}

void FrameSpace::FramesOfPage(uint64_t page_offset, std::vector<uint64_t>& offsets) const {
  const State& s = *state_;
  const uint32_t head = s.Head(page_offset);
  const State::Page& page = s.pages[head];
  if (page.size == kNone) return;
  const uint64_t bytes = s.sizes[page.size].units * kPageBytes;
  for (uint32_t frame = 0; frame < page.fresh; ++frame) {
    if (page.next[frame] == kInUse) offsets.push_back(s.OffsetOf(head) + frame * bytes);
  }
}

void FrameSpace::ClosePage(uint64_t page_offset) {
  State& s = *state_;
  const uint32_t head = s.Head(page_offset);
  State::Page& page = s.pages[head];
  if (page.size == kNone || page.closed || page.used == 0) return;
  State::Size& size = s.sizes[page.size];
  if (!s.full(page)) s.Unlink(head);
  page.closed = true;
  size.pages -= size.run;
  size.free -= size.per_page - page.used;
}

void FrameSpace::ReopenPage(uint64_t page_offset) {
  State& s = *state_;
  const uint32_t head = s.Head(page_offset);
  State::Page& page = s.pages[head];
  if (!page.closed) return;
  State::Size& size = s.sizes[page.size];
  page.closed = false;
  size.pages += size.run;
  size.free += size.per_page - page.used;
  if (!s.full(page)) s.Link(head);
  // With one page more the size may hold an empty one that its floor no longer needs.
  for (uint32_t i = size.spare; i != kNone;) {
    const uint32_t after = s.pages[i].after;
    if (s.pages[i].used == 0) s.SettleEmpty(i);
    i = size.frames == 0 ? kNone : after;
  }
}

}  // namespace holdfast
