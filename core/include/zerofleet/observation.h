// Bit planes, in which a network sees a position, and their packing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace zerofleet {

// A set of board points; point `p` is bit `p % 64` of word `p / 64`.
template <int kPointCount>
class Plane {
 public:
  static constexpr int kWords = (kPointCount + 63) / 64;

  constexpr Plane() = default;

  // A plane of the first 64 points, given as one word.
  explicit constexpr Plane(std::uint64_t bits) { words_[0] = bits; }

  // Every point of the board, or none.
  static constexpr Plane filled(bool all) {
    Plane plane;
    for (int word = 0; word < kWords && all; ++word) plane.words_[word] = used_bits(word);
    return plane;
  }

  constexpr void set(int point) { words_[point / 64] |= std::uint64_t{1} << (point % 64); }
  constexpr bool test(int point) const { return (words_[point / 64] >> (point % 64)) & 1; }
  constexpr std::uint64_t word(int index) const { return words_[index]; }

  // Number of bits of word `index` that stand for points.
  static constexpr int word_size(int index) {
    return index + 1 < kWords ? 64 : kPointCount - 64 * (kWords - 1);
  }

  constexpr bool operator==(const Plane& other) const {
    std::uint64_t difference = 0;
    for (int word = 0; word < kWords; ++word) difference |= words_[word] ^ other.words_[word];
    return difference == 0;
  }

 protected:
  std::array<std::uint64_t, kWords> words_{};

 private:
  static constexpr std::uint64_t used_bits(int word) {
    return ~std::uint64_t{0} >> (64 - word_size(word));
  }
};

template <int kPlaneCount, int kPointCount>
using Planes = std::array<Plane<kPointCount>, kPlaneCount>;

// Reverses the bits inside every byte of a word.
constexpr std::uint64_t reverse_bits_in_bytes(std::uint64_t word) {
  word = ((word >> 1) & 0x5555555555555555ULL) | ((word & 0x5555555555555555ULL) << 1);
  word = ((word >> 2) & 0x3333333333333333ULL) | ((word & 0x3333333333333333ULL) << 2);
  return ((word >> 4) & 0x0f0f0f0f0f0f0f0fULL) | ((word & 0x0f0f0f0f0f0f0f0fULL) << 4);
}

// Writes the first bytes of a word, the lowest first, with the bits of each reversed.
constexpr void store_reversed(std::uint64_t word, std::span<std::uint8_t> bytes) {
  word = reverse_bits_in_bytes(word);
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little &&
      bytes.size() == 8) {
    std::memcpy(bytes.data(), &word, 8);
    return;
  }
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(word);
    word >>= 8;
  }
}

// Packs planes like numpy.packbits: most significant bit first, padded with zeros.
// `packed` has ceil(planes * points / 8) bytes.
template <int kPlaneCount, int kPointCount>
constexpr void pack_planes(const Planes<kPlaneCount, kPointCount>& planes,
                           std::span<std::uint8_t> packed) {
  constexpr int kBits = kPlaneCount * kPointCount;
  constexpr int kBytes = (kBits + 7) / 8;
  using PlaneType = Plane<kPointCount>;
  if constexpr (kPointCount == 64) {
    for (int plane = 0; plane < kPlaneCount; ++plane) {
      store_reversed(planes[plane].word(0), packed.subspan(8 * plane, 8));
    }
    return;
  }
  std::array<std::uint64_t, (kBits + 63) / 64 + 1> stream{};
  int offset = 0;
  for (const PlaneType& plane : planes) {
    for (int word = 0; word < PlaneType::kWords; ++word) {
      const int shift = offset % 64;
      stream[offset / 64] |= plane.word(word) << shift;
      if (shift != 0) stream[offset / 64 + 1] |= plane.word(word) >> (64 - shift);
      offset += PlaneType::word_size(word);
    }
  }
  for (int start = 0; start < kBytes; start += 8) {
    store_reversed(stream[start / 8], packed.subspan(start, std::min(8, kBytes - start)));
  }
}

// Returns the planes of a packed observation.
template <int kPlaneCount, int kPointCount>
constexpr Planes<kPlaneCount, kPointCount> unpack_planes(std::span<const std::uint8_t> packed) {
  Planes<kPlaneCount, kPointCount> planes{};
  for (int bit = 0; bit < kPlaneCount * kPointCount; ++bit) {
    if ((packed[bit / 8] >> (7 - bit % 8)) & 1) planes[bit / kPointCount].set(bit % kPointCount);
  }
  return planes;
}

}  // namespace zerofleet
