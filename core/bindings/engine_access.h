// Threads and arrays, shared by the bindings of the three engines.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>

#include "arrays.h"
#include "zerofleet/engine.h"

namespace zerofleet {

// An engine that Python threads may share. Calls run one at a time, without the GIL.
template <class Engine>
class Shared {
 public:
  explicit Shared(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  // Returns `action(engine)`. `action` must not touch Python objects.
  template <class Callable>
  auto run(Callable&& action) const {
    nanobind::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    return action(*engine_);
  }

  // Does the same for an action that changes the engine. If rules from outside fail halfway, the
  // engine can still be read but no longer advanced.
  template <class Callable>
  auto advance(Callable&& action) const {
    nanobind::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    if (is_broken_)
      throw std::runtime_error("the game's rules failed in this engine; create a new one");
    try {
      return action(*engine_);
    } catch (const std::invalid_argument&) {
      throw;  // refused before any change
    } catch (...) {
      is_broken_ = true;
      throw;
    }
  }

  RowShape row_shape() const { return engine_->row_shape(); }

 private:
  std::unique_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  mutable bool is_broken_ = false;
};

using Observations =
    nanobind::ndarray<nanobind::numpy, std::uint8_t, nanobind::ndim<2>, nanobind::c_contig>;
using Logits = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
using Values = nanobind::ndarray<const float, nanobind::c_contig, nanobind::device::cpu>;

// The rows of a select as an array over the engine's memory, which `owner` keeps alive.
inline Observations to_observations(std::span<std::uint8_t> rows, RowShape shape,
                                    nanobind::handle owner) {
  const auto width = static_cast<std::size_t>(shape.observation_bytes);
  return Observations(rows.data(), {rows.size() / width, width}, owner);
}

// Views two arrays as a prediction. Throws std::invalid_argument for wrong shapes or types.
inline PredictionBatch to_prediction(const Logits& policy_logits, const Values& value,
                                     int model_version, RowShape shape) {
  if (value.ndim() != 1) check_shape("value", value, {value.size()});
  const auto width = static_cast<std::size_t>(shape.num_actions);
  check_shape("policy_logits", policy_logits, {value.size(), width});
  const std::size_t count = policy_logits.size();
  PredictionBatch batch{{}, {value.data(), value.size()}, model_version};
  if (policy_logits.dtype() == nanobind::dtype<float>()) {
    batch.policy_logits = std::span(static_cast<const float*>(policy_logits.data()), count);
  } else if (policy_logits.dtype().code ==
                 static_cast<std::uint8_t>(nanobind::dlpack::dtype_code::Float) &&
             policy_logits.dtype().bits == 16) {
    batch.policy_logits = std::span(static_cast<const std::uint16_t*>(policy_logits.data()), count);
  } else {
    throw std::invalid_argument("policy_logits must be float16 or float32");
  }
  return batch;
}

}  // namespace zerofleet
