"""Names of schedules as papers and other programs write them."""

import re

from lpkit.checks import plain

__all__ = ["ALIASES", "known_as"]

ALIASES = {
    "1f1b": "one_f_one_b", "1f1b_flush": "one_f_one_b", "pipedream_flush": "one_f_one_b", "dapple": "one_f_one_b",
    "zb_h1": "zero_bubble", "zbh1": "zero_bubble", "zb": "zero_bubble", "interleaved_1f1b": "interleaved",
    "g_pipe": "gpipe", "pipe_dream": "pipedream", "layer_pipe": "layerpipe",
}  # fmt: skip


def known_as(name):
    """The name of a schedule here, in any case, with hyphens or spaces; another value as it is.

    ``"1F1B"`` is the schedule with a flush, `one_f_one_b`; PipeDream's, without one, is ``"pipedream"``.

    Examples
    --------
    >>> known_as("1F1B"), known_as("ZB-H1"), known_as("GPipe"), known_as("Interleaved 1F1B"), known_as(None)
    ('one_f_one_b', 'zero_bubble', 'gpipe', 'interleaved', None)
    """
    name = plain(name)
    if not isinstance(name, str):
        return name
    spelled = re.sub(r"[-\s]+", "_", name.strip().lower())
    return ALIASES.get(spelled, spelled)
