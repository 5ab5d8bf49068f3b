// Positions that a game has been through, by hash.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace zerofleet {

// Holds up to `kCapacity` hashes in insertion order. A Bloom filter (1970) of two bits per hash
// answers most queries for absent hashes; a scan answers the rest.
template <int kCapacity>
class SeenPositions {
 public:
  constexpr void insert(std::uint64_t hash) {
    hashes_[size_++] = hash;
    for (const int bit : bits_of(hash)) filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }

  constexpr bool contains(std::uint64_t hash) const {
    for (const int bit : bits_of(hash)) {
      if (!((filter_[bit / 64] >> (bit % 64)) & 1)) return false;
    }
    // Start with the latest: a suicide of one stone leads back to it.
    for (int index = size_ - 1; index >= 0; --index) {
      if (hashes_[index] == hash) return true;
    }
    return false;
  }

  constexpr int size() const { return size_; }

  constexpr bool operator==(const SeenPositions& other) const {
    return std::equal(hashes_.begin(), hashes_.begin() + size_, other.hashes_.begin(),
                      other.hashes_.begin() + other.size_);
  }

 private:
  // A power of two, at least 8 bits per hash: with all entries used, 1 query in 20 needs a scan.
  static constexpr int kFilterBits = static_cast<int>(std::bit_ceil(8u * kCapacity));

  static constexpr std::array<int, 2> bits_of(std::uint64_t hash) {
    return {static_cast<int>(hash % kFilterBits), static_cast<int>((hash >> 32) % kFilterBits)};
  }

  std::array<std::uint64_t, kCapacity> hashes_{};  // the first size_ are in use
  std::array<std::uint64_t, (kFilterBits + 63) / 64> filter_{};
  int size_ = 0;
};

}  // namespace zerofleet
