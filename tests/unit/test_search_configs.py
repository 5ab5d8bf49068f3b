"""Searches outside self-play: what a run's ``[search]`` says of play, without what trains."""

from typing import Any

import pytest
from zerofleet_core import SearchConfig

from zerofleet.config import SearchSection, run_from_values
from zerofleet.search_configs import match_search, served_search, served_simulations

# Every field away from its default.
SECTION = SearchSection(
    num_simulations=50,
    full_search_share=0.3,
    fast_simulations=5,
    simulations_start=30,
    simulations_growth_models=4,
    c_puct=2.0,
    c_puct_growth=0.7,
    c_puct_base=500.0,
    fpu="zero",
    fpu_reduction=0.4,
    root_fpu_reduction=0.1,
    root_policy_temperature=1.25,
    root_policy_temperature_final=1.1,
    root_policy_temperature_halflife=5.0,
    dirichlet_fraction=0.3,
    dirichlet_alpha=0.5,
    forced_playouts=2.0,
    min_child_visits=1,
    prune_targets=True,
    play_pruned=False,
    root="gumbel",
    gumbel_actions=4,
    gumbel_scale=0.5,
    gumbel_c_visit=40.0,
    gumbel_c_scale=0.8,
    temperature=0.9,
    temperature_moves=12,
    temperature_final=0.1,
    temperature_halflife=6.0,
    random_opening_plies=4,
    random_opening_share=0.5,
    opening_actions="policy",
    fork_share=0.1,
    virtual_loss=2.0,
    prove_results=True,
    decisive_moves=True,
    reuse_tree=False,
    cache_positions=100,
    random_symmetry=False,
)
OF_THE_RUN = (
    "c_puct",
    "c_puct_growth",
    "c_puct_base",
    "fpu",
    "fpu_reduction",
    "gumbel_actions",
    "gumbel_c_visit",
    "gumbel_c_scale",
    "virtual_loss",
    "prove_results",
    "decisive_moves",
)


@pytest.fixture(params=[match_search, served_search])
def search(request: pytest.FixtureRequest) -> SearchConfig:
    return request.param(SECTION, 20)


def test_the_section_of_this_file_leaves_no_default() -> None:
    standard = SearchSection()
    same = [
        key for key in SearchSection.model_fields if getattr(SECTION, key) == getattr(standard, key)
    ]
    assert same == []


def test_they_are_always_full(search: SearchConfig) -> None:
    assert search.num_simulations == 20
    assert search.full_search_share == 1.0
    assert search.simulations_start is None
    assert search.root_policy_temperature == 1.0
    assert search.root_policy_temperature_halflife == 0.0
    assert search.root_fpu_reduction is None
    assert search.forced_playouts == 0.0
    assert search.min_child_visits == 0
    assert not search.prune_targets
    assert search.random_opening_plies == 0
    assert search.fork_share == 0.0


@pytest.mark.parametrize("key", OF_THE_RUN)
def test_they_explore_as_the_run_says(search: SearchConfig, key: str) -> None:
    assert getattr(search, key) == pytest.approx(getattr(SECTION, key))


def test_nothing_in_a_match_is_random() -> None:
    search = match_search(SearchSection(), 20)
    assert search.dirichlet_fraction == 0.0
    assert search.gumbel_scale == 0.0
    assert search.temperature == search.temperature_final == 0.0
    assert search.temperature_moves == search.temperature_halflife == 0
    assert not search.random_symmetry


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_a_served_search_has_a_puct_root_and_a_match_the_run_s(root: str) -> None:
    section = SECTION.model_copy(update={"root": root})
    assert served_search(section, 20).root == "puct"
    assert match_search(section, 20).root == root


def test_a_served_search_caches_no_more_than_it_can_visit() -> None:
    assert served_search(SearchSection(), 20).cache_positions == 20


@pytest.mark.parametrize("numbers", [(30, 40, 20), (40, 30, 20), (20, 30, 40)])
def test_a_client_gets_no_fewer_simulations_than_a_measured_player(
    numbers: tuple[int, int, int],
) -> None:
    of_self_play, of_matches, of_ratings = numbers
    run = run_from_values({
        "name": "served",
        "game": "tic_tac_toe",
        "search": {"num_simulations": of_self_play},
        "evaluator": {"num_simulations": of_matches},
        "rating": {"num_simulations": of_ratings},
    })  # fmt: skip
    assert served_simulations(run) == 40


NAMED = {"fpu": ("zero", "reduction"), "root": ("puct", "gumbel")} | {
    "opening_actions": ("uniform", "policy", "mixed")
}


@pytest.mark.parametrize(("key", "name"), [(key, of) for key in NAMED for of in NAMED[key]])
def test_the_core_knows_what_is_chosen_by_name(key: str, name: str) -> None:
    section = SearchSection.model_validate({key: name})
    assert getattr(SearchConfig(**section.model_dump()), key) == name


@pytest.mark.parametrize("key", NAMED)
def test_the_core_says_which_names_there_are(key: str) -> None:
    other: dict[str, Any] = {key: "other"}
    with pytest.raises(ValueError, match=f"^{key} must be '.*', not 'other'$") as refused:
        SearchConfig(**other)
    assert all(f"'{name}'" in str(refused.value) for name in NAMED[key])
