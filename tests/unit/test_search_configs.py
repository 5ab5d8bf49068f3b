"""The searches of self-play, matches and clients, made from ``[search]`` and ``[selfplay]``."""

from typing import Any

import pytest
from zerofleet_core import SearchConfig

from zerofleet.config import RunConfig, SearchSection, Section, SelfplaySection, run_from_values
from zerofleet.search_configs import (
    PLAIN_SEARCH,
    STDEV_SETTINGS,
    client_search,
    client_simulations,
    match_search,
    selfplay_search,
)

# Every field differs from its default.
SEARCH = SearchSection(
    num_simulations=50,
    root="puct",
    c_puct=2.0,
    fpu="zero",
    fpu_reduction=0.4,
    gumbel_actions=4,
    virtual_loss=2.0,
    prove_results=False,
    decisive_moves=False,
    reuse_tree=False,
    cache_positions=100,
    random_symmetry=False,
)
PLAY = SelfplaySection(
    games_per_engine=7,
    engines=1,
    save_every_plies=3,
    lease_seconds=5.0,
    max_ahead_positions=50_000,
    full_search_share=0.3,
    fast_simulations=5,
    random_opening_share=0.5,
    random_opening_plies=4,
    opening_actions="policy",
    fork_share=0.1,
    restart_share=0.2,
    gumbel_scale=0.5,
    dirichlet_fraction=0.3,
    dirichlet_alpha=0.5,
    temperature=0.9,
    temperature_moves=12,
    temperature_final=0.1,
    temperature_halflife=6.0,
    root_policy_temperature=1.25,
    root_policy_temperature_final=1.1,
    root_policy_temperature_halflife=5.0,
    root_fpu_reduction=0.1,
    forced_playouts=2.0,
    min_child_visits=1,
    prune_targets=True,
    play_pruned=False,
)
STANDARD = SearchConfig()
_RESULTS = ("temperature_at", "simulations_of_fast_search")  # computed from other keys
KEYS = [key for key in dir(SearchConfig) if not key.startswith("_") and key not in _RESULTS]


def run_with(search: SearchSection, selfplay: SelfplaySection) -> RunConfig:
    run = run_from_values({"name": "searched", "game": "tic_tac_toe"})
    return run.model_copy(update={"search": search, "selfplay": selfplay})


@pytest.mark.parametrize("section", [SEARCH, PLAY], ids=["search", "selfplay"])
def test_the_sections_of_this_file_leave_no_default(section: Section) -> None:
    standard = type(section)()
    fields = type(section).model_fields
    assert [key for key in fields if getattr(section, key) == getattr(standard, key)] == []


def test_self_play_searches_by_both_sections() -> None:
    search = selfplay_search(run_with(SEARCH, PLAY))
    for section in (SEARCH, PLAY):
        for key, value in section:
            if key in KEYS:
                assert getattr(search, key) == pytest.approx(value), key


def test_a_key_of_the_core_is_of_one_section() -> None:
    assert not set(SearchSection.model_fields) & set(SelfplaySection.model_fields)
    assert set(SearchSection.model_fields) <= set(KEYS)
    named = set(SearchSection.model_fields) | set(SelfplaySection.model_fields)
    assert set(KEYS) == (set(KEYS) & named) | set(STDEV_SETTINGS)


def test_nothing_in_a_match_explores() -> None:
    """A new exploration key of the core must be added here, with its neutral value."""
    search = match_search(SEARCH, 20)
    found = {key: getattr(search, key) for key in set(KEYS) - set(SearchSection.model_fields)}
    assert found == {
        "full_search_share": 1.0,
        "fast_simulations": None,
        "random_opening_share": 1.0,
        "random_opening_plies": 0,
        "opening_actions": "uniform",
        "fork_share": 0.0,
        "gumbel_scale": 0.0,
        "dirichlet_fraction": 0.0,
        "dirichlet_alpha": None,
        "temperature": 0.0,
        "temperature_moves": 0,
        "temperature_final": 0.0,
        "temperature_halflife": 0.0,
        "root_policy_temperature": 1.0,
        "root_policy_temperature_final": 1.0,
        "root_policy_temperature_halflife": 0.0,
        "root_fpu_reduction": None,
        "forced_playouts": 0.0,
        "min_child_visits": 0,
        "prune_targets": False,
        "play_pruned": True,
        "lcb_stdevs": 0.0,
        "c_puct_stdev_scale": 0.0,
    }


def test_a_match_searches_as_the_run_says() -> None:
    search = match_search(SEARCH.model_copy(update={"random_symmetry": True}), 20)
    assert search.num_simulations == 20
    assert not search.random_symmetry
    for key in set(SearchSection.model_fields) - {"num_simulations", "random_symmetry"}:
        assert getattr(search, key) == pytest.approx(getattr(SEARCH, key)), key


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_a_client_searches_as_the_run_says_at_a_puct_root(root: str) -> None:
    section = SEARCH.model_copy(update={"root": root, "cache_positions": 10})
    search = client_search(section, 20)
    assert (search.root, search.num_simulations) == ("puct", 20)
    for key in set(SearchSection.model_fields) - {"num_simulations", "root"}:
        assert getattr(search, key) == pytest.approx(getattr(section, key)), key
    assert match_search(section, 20).root == root


def test_only_client_searches_of_a_run_with_a_gumbel_root_have_stdev_settings() -> None:
    def stdev_settings(search: SearchConfig) -> dict[str, float]:
        return {key: getattr(search, key) for key in STDEV_SETTINGS}

    none = dict.fromkeys(STDEV_SETTINGS, 0.0)
    gumbel, puct = SearchSection(root="gumbel"), SearchSection(root="puct")
    assert stdev_settings(client_search(gumbel, 20)) == STDEV_SETTINGS
    for search in (
        client_search(puct, 20),
        match_search(gumbel, 20),
        match_search(puct, 20),
        match_search(PLAIN_SEARCH, 20),
        selfplay_search(run_with(gumbel, PLAY)),
    ):
        assert stdev_settings(search) == none


def test_a_client_that_asks_for_noise_gets_the_core_s() -> None:
    search = client_search(SEARCH, 20)
    for key in set(KEYS) - set(SearchSection.model_fields):
        assert getattr(search, key) == getattr(STANDARD, key)


def test_a_client_search_caches_no_more_than_it_can_visit() -> None:
    assert client_search(SearchSection(), 20).cache_positions == 20


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
    assert client_simulations(run) == 40


NAMED = {"fpu": ("zero", "reduction"), "root": ("puct", "gumbel")} | {
    "opening_actions": ("uniform", "policy", "mixed")
}


@pytest.mark.parametrize(("key", "name"), [(key, of) for key in NAMED for of in NAMED[key]])
def test_the_core_knows_what_is_chosen_by_name(key: str, name: str) -> None:
    search, play = SearchSection(), SelfplaySection()
    if key in SearchSection.model_fields:
        search = SearchSection.model_validate({key: name})
    else:
        play = SelfplaySection.model_validate({key: name})
    assert getattr(selfplay_search(run_with(search, play)), key) == name


@pytest.mark.parametrize("key", NAMED)
def test_the_core_says_which_names_there_are(key: str) -> None:
    other: dict[str, Any] = {key: "other"}
    with pytest.raises(ValueError, match=f"^{key} must be '.*', not 'other'$") as refused:
        SearchConfig(**other)
    assert all(f"'{name}'" in str(refused.value) for name in NAMED[key])
