"""What an installed wheel must do anywhere: search a game, without a compiler in sight."""

import numpy as np
import zerofleet_core
from zerofleet_core import SearchConfig, SelfPlay

engine = SelfPlay("connect_four", 4, SearchConfig(num_simulations=16), 1)
finished = []
while not finished:
    rows = len(engine.select())
    engine.backup(np.zeros((rows, 7), np.float32), np.zeros(rows, np.float32), 1)
    finished += engine.take_finished()
print(f"{zerofleet_core.__file__}: {len(finished[0].action)} plies, result {finished[0].result}")
