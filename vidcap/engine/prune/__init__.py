"""Which visual tokens the draft gets to see."""

from vidcap.engine.prune.score import AttentionScorer, Scorer, UVScorer, make_scorer
from vidcap.engine.prune.select import (
    budget,
    select_stratified,
    select_top,
    select_two_stage,
    select_uniform,
)

__all__ = [
    "AttentionScorer",
    "Scorer",
    "UVScorer",
    "budget",
    "make_scorer",
    "select_stratified",
    "select_top",
    "select_two_stage",
    "select_uniform",
]
