// Results of the Connect Four solver by position, in a hash table of fixed size.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zerofleet {

// The largest possible score: the first player's quickest win, by the fourth of 21 discs.
inline constexpr int kBestScore = 18;

// Bounds of the score for the player to move: lower <= score <= upper.
struct ScoreBounds {
  int lower = -kBestScore;
  int upper = kBestScore;
};

// Every entry is one atomic word that holds its whole key, so that threads share a table without a
// lock. A lost race forgets something true, and nothing false can be read.
class ScoreTable {
 public:
  // An entry has eight bytes. The number of entries is rounded down to a power of two.
  explicit ScoreTable(std::size_t entries)
      : entries_(std::bit_floor(std::max<std::size_t>(entries, kBucket))) {}

  // Prefetches the entries of a key, for a `find` soon after.
  void prefetch(std::uint64_t key) const { __builtin_prefetch(&entries_[bucket_of(key)]); }

  // `key` is below 2^49.
  ScoreBounds find(std::uint64_t key) const {
    const std::size_t bucket = bucket_of(key);
    for (std::size_t slot = bucket; slot < bucket + kBucket; ++slot) {
      const std::uint64_t entry = entries_[slot].load(std::memory_order_relaxed);
      if (entry >> kKeyShift == key) return bounds_of(entry);
    }
    return {};
  }

  // `work` is the number of positions searched for these bounds. The first of the two entries of a
  // bucket keeps the most expensive result; the second one takes everything else.
  void store(std::uint64_t key, ScoreBounds bounds, std::uint64_t work) {
    const std::uint64_t magnitude =
        std::min<std::uint64_t>(std::bit_width(work) / kMagnitudeStep, kMaxMagnitude);
    const std::size_t first = bucket_of(key);
    const std::uint64_t old = entries_[first].load(std::memory_order_relaxed);
    const bool replaces =
        old >> kKeyShift == key || (old >> kMagnitudeShift & kMaxMagnitude) <= magnitude;
    const auto lower = static_cast<std::uint64_t>(bounds.lower + kBestScore);
    const auto upper = static_cast<std::uint64_t>(bounds.upper + kBestScore);
    entries_[replaces ? first : first + 1].store(
        key << kKeyShift | magnitude << kMagnitudeShift | lower << kLowerShift | upper,
        std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kBucket = 2;
  static constexpr int kKeyShift = 15;
  static constexpr int kMagnitudeShift = 12;
  static constexpr std::uint64_t kMaxMagnitude = 7;
  static constexpr int kMagnitudeStep = 4;  // powers of two that one magnitude covers
  static constexpr int kLowerShift = 6;
  static constexpr std::uint64_t kScoreMask = 63;

  static ScoreBounds bounds_of(std::uint64_t entry) {
    return {static_cast<int>(entry >> kLowerShift & kScoreMask) - kBestScore,
            static_cast<int>(entry & kScoreMask) - kBestScore};
  }

  std::size_t bucket_of(std::uint64_t key) const {
    const std::uint64_t mixed = (key ^ key >> 23) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(mixed >> 32) & (entries_.size() - kBucket);
  }

  std::vector<std::atomic<std::uint64_t>> entries_;
};

}  // namespace zerofleet
