#include "zerofleet/random.h"

#include <cmath>
#include <vector>

#include "check.h"
#include "zerofleet/half.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/portable_math.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

void exp_and_log_agree_with_the_library() {
  for (double x = -700.0; x < 700.0; x += 3.7) {
    check_near(portable_exp(x) / std::exp(x), 1.0, 1e-13);
  }
  for (double x = 1e-300; x < 1e300; x *= 13.7) check_near(portable_log(x), std::log(x), 1e-12);
  for (float x = -86.0f; x <= 0.0f; x += 0.01f) {
    check_near(exp_of_negative(broadcast(x))[1] / std::exp(x), 1.0, 1e-6);
  }
  check(exp_of_negative(broadcast(0.0f))[0] == 1.0f);
  check(exp_of_negative(broadcast(-1e9f))[0] < 1e-37f);
  check(portable_exp(-1000.0) == 0.0);
}

void halves_survive_the_round_trip() {
  for (int half = 0; half < 0x7c00; ++half) {
    const float number = half_to_float(static_cast<std::uint16_t>(half));
    if (number <= 1.0f) check(unit_float_to_half(number) == half);
    check(half_to_float(static_cast<std::uint16_t>(half | 0x8000)) == -number);
  }
  check(half_to_float(0x3c00) == 1.0f);
  check(half_to_float(0x0001) == 0x1p-24f);
  check(half_to_float(0x7bff) == 65504.0f);
  check(unit_float_to_half(1.0f / 3.0f) == 0x3555);
  check(!is_half_finite(0x7c00) && !is_half_finite(0xfe00) && is_half_finite(0xfbff));
}

void the_same_seed_gives_the_same_numbers() {
  Random one(7, 3);
  Random same(7, 3);
  Random other_stream(7, 4);
  Random other_seed(8, 3);
  const std::uint64_t number = one.next();
  check(same.next() == number);
  check(other_stream.next() != number);
  check(other_seed.next() != number);
}

// These bits are the promise that games are the same on every platform.
void numbers_are_pinned() {
  Random random(1, 2);
  check(random.next() == 0xf798cdacc2c781e2ULL);
  check(random.next() == 0x7886583ba4c07a5dULL);
  check(random.next() == 0xc95917880fc42e6cULL);
  check(Random(1).normal() == 0x1.7fe2b6e80acbfp-1);
  std::vector<float> sample(3);
  random.dirichlet(0.3, sample);
  check(sample[0] == 0x1.a308dcp-1f && sample[1] == 0x1.5bb0dap-3f && sample[2] == 0x1.82bb62p-7f);
}

void uniform_and_normal_have_their_moments() {
  Random random(1);
  const int n = 100000;
  double uniform = 0, normal = 0, squares = 0;
  std::vector<int> counts(6);
  for (int i = 0; i < n; ++i) {
    const double number = random.uniform();
    check(number > 0.0 && number < 1.0);
    uniform += number / n;
    const double x = random.normal();
    normal += x / n;
    squares += x * x / n;
    ++counts[random.below(6)];
  }
  check_near(uniform, 0.5, 0.01);
  check_near(normal, 0.0, 0.02);
  check_near(squares, 1.0, 0.02);
  for (const int count : counts) check_near(count, n / 6.0, 400);
}

void gamma_has_its_moments() {
  for (const double shape : {0.3, 1.0, 4.5}) {
    Random random(2);
    const int n = 100000;
    double mean = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const double number = portable_exp(random.log_gamma_variate(shape));
      mean += number / n;
      squares += number * number / n;
    }
    check_near(mean, shape, 0.03 * std::max(1.0, shape));
    check_near(squares - mean * mean, shape, 0.08 * std::max(1.0, shape));
  }
}

// Each share of Dirichlet(alpha) over k has mean 1/k and variance (k-1) / (k^2 (k alpha + 1)).
void dirichlet_has_its_moments() {
  for (const double alpha : {0.03, 0.26, 1.2}) {
    Random random(3);
    const int n = 20000;
    const int k = 7;
    std::vector<double> mean(k), squares(k);
    std::vector<float> sample(k);
    for (int i = 0; i < n; ++i) {
      random.dirichlet(alpha, sample);
      double sum = 0;
      for (int j = 0; j < k; ++j) {
        check(sample[j] >= 0.0f && sample[j] <= 1.0f);
        sum += sample[j];
        mean[j] += sample[j] / static_cast<double>(n);
        squares[j] += sample[j] * sample[j] / static_cast<double>(n);
      }
      check_near(sum, 1.0, 1e-5);
    }
    const double variance = (k - 1.0) / (k * k * (k * alpha + 1.0));
    for (int j = 0; j < k; ++j) {
      check_near(mean[j], 1.0 / k, 0.01);
      check_near(squares[j] - mean[j] * mean[j], variance, 0.05 * variance + 0.001);
    }
  }
}

void moves_follow_the_temperature() {
  const std::vector<std::int32_t> visits = {10, 0, 30, 30};
  const std::vector<float> priors = {0.1f, 0.4f, 0.2f, 0.3f};
  Random random(4);
  check(choose_child(visits, priors, 0.0, random) == 3);  // of 30 and 30 the higher prior
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<int> counts(4);
    const int n = 40000;
    for (int i = 0; i < n; ++i) ++counts[choose_child(visits, priors, temperature, random)];
    const double small = std::pow(1.0 / 3.0, 1.0 / temperature);
    check(counts[1] == 0);
    check_near(counts[0] / static_cast<double>(n), small / (small + 2.0), 0.01);
    check_near(counts[2] / static_cast<double>(n), 1.0 / (small + 2.0), 0.01);
  }
  check(choose_child(visits, priors, 1e-3, random) >= 2);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"exp and log", exp_and_log_agree_with_the_library},
      {"halves", halves_survive_the_round_trip},
      {"seeds", the_same_seed_gives_the_same_numbers},
      {"pinned numbers", numbers_are_pinned},
      {"uniform and normal", uniform_and_normal_have_their_moments},
      {"gamma", gamma_has_its_moments},
      {"dirichlet", dirichlet_has_its_moments},
      {"temperature", moves_follow_the_temperature},
  });
}
