// NumPy arrays in and out, for all binding files.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace zerofleet {

// A new one-dimensional NumPy array that owns its memory.
template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>, nanobind::c_contig>;

// Hands a vector over to NumPy without a copy.
template <class T>
Array<T> to_array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  nanobind::capsule owner(
      owned, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return Array<T>(owned->data(), {owned->size()}, owner);
}

// A read-only view of memory that a Python object owns.
template <class T>
using ArrayView =
    nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>, nanobind::c_contig>;

// A getter that returns the vector `kColumn` of a bound object as a view.
template <class T, class Owner, auto kColumn>
ArrayView<T> column_of(nanobind::pointer_and_handle<Owner> self) {
  const auto& column = self.p->*kColumn;
  static_assert(sizeof(T) == sizeof(column[0]));
  return ArrayView<T>(reinterpret_cast<const T*>(column.data()), {column.size()}, self.h);
}

// Throws std::invalid_argument unless the array has exactly this shape.
template <class NdArray>
void check_shape(const std::string& name, const NdArray& array,
                 std::initializer_list<std::size_t> shape) {
  bool equal = array.ndim() == shape.size();
  std::string expected;
  std::string given;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    expected += (axis ? ", " : "") + std::to_string(shape.begin()[axis]);
  }
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    given += (axis ? ", " : "") + std::to_string(array.shape(axis));
    equal = equal && array.shape(axis) == shape.begin()[axis];
  }
  if (!equal) {
    throw std::invalid_argument(name + " has shape [" + given + "], expected [" + expected + "]");
  }
}

}  // namespace zerofleet
