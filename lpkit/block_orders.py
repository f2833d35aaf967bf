"""In which order a processor runs its blocks, a block being what a stage does of one micro-batch.

Source: Narayanan et al., PipeDream (SOSP 2019) and PipeDream-Flush (ICML 2021), for 1F1B; Zero Bubble (ICLR 2024).
"""

__all__ = ["in_turn", "put_off"]


def in_turn(count, ahead, backward):
    """Blocks of a stage that takes `ahead` micro-batches in, then runs one back and one forward in turn.

    Parameters
    ----------
    count : int
        Micro-batches.
    ahead : int
        Of them, taken in before the first backward.
    backward : sequence of str
        Blocks of one backward, in order.

    Examples
    --------
    >>> in_turn(3, 2, ("delta", "G"))  # doctest: +NORMALIZE_WHITESPACE
    [('F', 0), ('F', 1), ('delta', 0), ('G', 0), ('F', 2), ('delta', 1), ('G', 1), ('delta', 2), ('G', 2)]
    """
    order = [("F", m) for m in range(min(ahead, count))]
    for m in range(count):
        order += [(what, m) for what in backward]
        order += [("F", m + ahead)] if m + ahead < count else []
    return order


def put_off(order, late, count):
    """`order` with G of a micro-batch after the delta `late` micro-batches further on.

    Parameters
    ----------
    order : list of (block, micro-batch)
        Without G.
    late, count : int
        Micro-batches that G waits for, and those there are.

    Examples
    --------
    >>> put_off(in_turn(3, 3, ("delta",)), 1, 3)[3:]
    [('delta', 0), ('delta', 1), ('G', 0), ('delta', 2), ('G', 1), ('G', 2)]
    """
    result = []
    for what, m in order:
        result.append((what, m))
        if what == "delta" and m >= late:
            result.append(("G", m - late))
    return result + [("G", m) for m in range(max(count - late, 0), count)]
