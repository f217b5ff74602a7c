"""A mixture of experts on one process, and figures about it."""

import pytest
import torch

from utils.figures import dropped_figure, ratio_figure
from utils.models import same_start
from utils.models.experts import MoE


def all_to(expert, k, kept=True):
    """A route of every token to one expert, k times over, with equal weights."""

    def route(logits_TE, k_of_layer, capacity):
        shape = (len(logits_TE), k)
        return torch.full(shape, expert), torch.full(shape, 1 / k), torch.full(shape, kept)

    return route


def test_a_layer_whose_router_has_one_favourite_is_that_expert():
    moe, x_TD = same_start(MoE, dim=4, inner=6, n_experts=3, k=2, capacity=5), torch.randn(5, 4)
    torch.testing.assert_close(moe(x_TD, all_to(1, 2)), moe.experts[1](x_TD))


def test_what_is_dropped_adds_nothing():
    moe, x_TD = same_start(MoE, dim=4, inner=6, n_experts=3, k=1, capacity=5), torch.randn(5, 4)
    assert not moe(x_TD, all_to(2, 1, kept=False)).any()


@pytest.mark.parametrize("k, capacity, message", [(0, 1, "from 1 to 4, not 0"), (5, 1, "from 1 to 4, not 5"),
                                                  (1, 0, "1 or more, not 0")])
def test_sizes_that_cannot_be_are_refused(k, capacity, message):
    with pytest.raises(ValueError, match=message):
        MoE(dim=4, inner=6, n_experts=4, k=k, capacity=capacity)


def test_figures_say_their_numbers():
    assert "favourites: 33% at 1 averages" in dropped_figure([1], {"favourites": [33.0]}).words
    assert "torus: 1.98 times as long on 64 ranks" in ratio_figure([64], {"torus": [1.98]}).words


@pytest.mark.parametrize("figure", [dropped_figure, ratio_figure])
def test_figures_refuse_series_of_another_length(figure):
    for series in ({}, {"one": [1.0, 2.0]}):
        with pytest.raises(ValueError, match="one number for each"):
            figure([1], series)
