"""LayerPipe against PipeDream on layer times that PipeDream measured: periods, their ratios, and what a layer is.

A profile has one backward time an operation, so that every period of LayerPipe rests on a split of it, and a period of
either on what counts as a layer; both are named in each table.
"""

from itertools import product

import pandas as pd

from lpkit.interop.pipedream import PROFILES, read_profile, to_costs
from lpkit.interop.pipedream_split import SPLITS
from lpkit.interop.pipedream_states import straight_pipeline
from lpkit.partition import optimal, pipedream
from lpkit.sweep import PAPER_PROCESSORS, processor_counts, several

__all__ = ["granularity_speedups", "period_table", "profile_periods"]


def profile_periods(profiles=PROFILES, splits=SPLITS, *, granularity="fused", processors=PAPER_PROCESSORS,
                    array="32x32"):
    """Least periods of PipeDream and LayerPipe on profiles: a row for each profile, split and processor count.

    With more processors than layers the rest are idle.

    Parameters
    ----------
    profiles : str or sequence of str
        Built-in names, or paths of profiles.
    splits : str, number or sequence of them
        Ways to split the backward time; these and `granularity` and `array` are those of
        `lpkit.interop.pipedream.to_costs`.
    processors : int or sequence of int

    Returns
    -------
    pandas.DataFrame
        Columns profile, granularity, layers, split, delta (its share of all work), processors, pipedream and layerpipe
        (periods in ms), ratio (of the two, at least 1) and the speedup of each over one processor.

    Raises
    ------
    ValueError, FileNotFoundError
        As `read_profile` and `to_costs`; also if there is no profile, split or processor count.

    Examples
    --------
    >>> profile_periods("vgg16", "half", processors=[2, 7])[["processors", "pipedream", "layerpipe", "ratio"]].round(3)
       processors  pipedream  layerpipe  ratio
    0           2    377.045    354.374  1.064
    1           7    178.671    122.006  1.464
    """
    counts, pairs = processor_counts(several(processors)), list(product(several(profiles), several(splits)))
    if not counts or not pairs:
        raise ValueError("there is nothing to plan; give at least one profile, split and processor count")
    chains = [to_costs(read_profile(name), granularity=granularity, split_backward=split, array=array)
              for name, split in pairs]
    heads = [{"profile": name, "granularity": granularity, "layers": len(chain), "split": split,
              "delta": float(chain.delta.sum()) / chain.total} for (name, split), chain in zip(pairs, chains)]
    return pd.DataFrame([head | _periods(chain, p) for head, chain in zip(heads, chains) for p in counts])


def _periods(chain, processors):
    """Columns of one processor count."""
    theirs, ours = (float(planner(chain, min(processors, len(chain))).period) for planner in (pipedream, optimal))
    return {"processors": processors, "pipedream": theirs, "layerpipe": ours, "ratio": theirs / ours,
            "speedup pipedream": chain.total / theirs, "speedup layerpipe": chain.total / ours}  # fmt: skip


def period_table(periods):
    """The rows of `profile_periods` as a table to read: a line a profile and planner, a column a processor count.

    PipeDream has one line a profile, as its period does not depend on the split; lines of LayerPipe end with the mean
    and the largest ratio of the two periods.

    Examples
    --------
    >>> periods = profile_periods("vgg16", ["half", 0], processors=[2, 7])
    >>> period_table(periods).round(3)  # doctest: +NORMALIZE_WHITESPACE
                                  2        7  mean ratio  largest ratio
    profile planner
    vgg16   PipeDream       377.045  178.671         NaN            NaN
            LayerPipe half  354.374  122.006       1.264          1.464
            LayerPipe 0     377.045  178.671       1.000          1.000
    """
    parts = {}
    for name, rows in periods.groupby("profile", sort=False):
        for split, lines in rows.groupby("split", sort=False):
            by_count = lines.set_index("processors")
            parts.setdefault((name, "PipeDream"), by_count["pipedream"].to_dict())
            ratios = {"mean ratio": lines["ratio"].mean(), "largest ratio": lines["ratio"].max()}
            parts[name, f"LayerPipe {split}"] = by_count["layerpipe"].to_dict() | ratios
    return pd.DataFrame(parts).T.rename_axis(["profile", "planner"])


def granularity_speedups(profiles=PROFILES, *, processors=12, split_backward="half", array="32x32"):
    """Speedups on profiles cut between layers, between operations, and between PipeDream's own states.

    A state is any set of operations closed towards the input, so that branches may be cut apart; the first two follow
    the order of the ids.

    Parameters
    ----------
    profiles : str or sequence of str
    processors : int
    split_backward, array
        As in `lpkit.interop.pipedream.to_costs`.

    Returns
    -------
    pandas.DataFrame
        A row a profile: speedup over one processor.

    Raises
    ------
    ValueError, FileNotFoundError
        As `profile_periods` and `straight_pipeline`.

    Examples
    --------
    >>> granularity_speedups("vgg16").round(3).loc["vgg16"].to_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'PipeDream fused': 3.764, 'PipeDream nodes': 4.216, 'PipeDream states': 4.216,
    'LayerPipe fused': 5.512, 'LayerPipe nodes': 6.538}
    """
    options = {"processors": [processors], "array": array}
    tables = {kind: profile_periods(profiles, [split_backward], granularity=kind, **options).set_index("profile")
              for kind in ("fused", "nodes")}
    totals = {name: to_costs(read_profile(name)).total for name in several(profiles)}
    states = {name: total / straight_pipeline(read_profile(name), processors)[0] for name, total in totals.items()}
    theirs, ours = ({f"{title} {kind}": table[f"speedup {title.lower()}"] for kind, table in tables.items()}
                    for title in ("PipeDream", "LayerPipe"))
    return pd.DataFrame(theirs | {"PipeDream states": pd.Series(states)} | ours).rename_axis("profile")
