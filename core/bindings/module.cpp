// The Python module `zerofleet_core._ext`, with one function for each part of the library.
#include <nanobind/nanobind.h>

void bind_state(nanobind::module_& module);
void bind_games(nanobind::module_& module);
void bind_engines(nanobind::module_& module);
void bind_replay(nanobind::module_& module);
void bind_solver(nanobind::module_& module);
void bind_outside(nanobind::module_& module);

NB_MODULE(_ext, module) {
#ifdef NDEBUG  // an object that lives as long as the program is not a leak
  nanobind::set_leak_warnings(false);
#endif
  module.doc() = "The search core of zerofleet: rules, MCTS and replay, without I/O.";
  bind_state(module);
  bind_games(module);
  bind_engines(module);
  bind_replay(module);
  bind_solver(module);
  bind_outside(module);
}
