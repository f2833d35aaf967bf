"""In which order a processor runs its blocks, a block being what a stage does of one micro-batch.

Source: Narayanan et al., PipeDream (SOSP 2019) and PipeDream-Flush (ICML 2021), for 1F1B; Zero Bubble (ICLR 2024);
Narayanan et al., Megatron-LM (SC 2021), section 2.2, for the interleaved order.
"""

__all__ = ["in_turn", "interleaved_order", "put_off"]


def in_turn(count, ahead, backward):
    """Blocks of a stage that takes `ahead` micro-batches in, then runs one back and one forward in turn.

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


def interleaved_order(place, processors, chunks, count, backward):
    """Blocks (stage, block, micro-batch) of processor `place`, which holds every `processors`-th stage.

    It takes `processors` micro-batches through one of its stages, then the same ones through the next, and groups
    follow each other; backward the same from its last stage. It lets 2 (processors - place) + (chunks - 1) processors
    of these steps pass before its first backward, then runs one forward and one backward in turn. A single chunk needs
    only processors - place of them: 1F1B.

    Examples
    --------
    >>> interleaved_order(2, 2, 2, 2, ("B",))  # doctest: +NORMALIZE_WHITESPACE
    [(2, 'F', 0), (2, 'F', 1), (4, 'F', 0), (4, 'B', 0), (4, 'F', 1), (4, 'B', 1), (2, 'B', 0), (2, 'B', 1)]
    """
    group, steps = processors * chunks, count * chunks

    def step(n, back=False):
        if chunks == 1:
            return place, n
        chunk, micro = n // processors % chunks, n // group * processors + n % processors
        return place + processors * (chunks - 1 - chunk if back else chunk), micro

    ahead = processors - place + 1 if chunks == 1 else 2 * (processors - place) + (chunks - 1) * processors + 1
    blocks = []
    for what, n in in_turn(steps, ahead, backward):
        stage, micro = step(n, what != "F")
        blocks.append((stage, what, micro))
    return blocks
